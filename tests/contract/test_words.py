"""The words are light, survive JSON, and still understand what was written with earlier ones."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import enginefarm
from enginefarm import (
    accuracy_report,
    comparison_report,
    compile_options,
    device_times,
    errors,
    gate,
    manifest,
    percentiles,
    precision,
    precision_report,
    report,
    spec,
    timing_views,
    trust_record,
    upload,
    views,
)
from enginefarm.spec import BuildSpec
from enginefarm.state import PRECISION_STAGES, Stage
from enginefarm.target import Target
from tasks import descriptions, messages, timing_messages
from tasks.recipe import CHECK_RULES, MEASUREMENT_RULES, Made, key_of, recipe_for
from tests.contract.filled import filled

ROOT = Path(__file__).parents[2]
RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "recorded/everyday_build.json").read_text("utf-8")
)

PYDANTIC = {
    "annotated_types",
    "pydantic",
    "pydantic_core",
    "typing_extensions",
    "typing_inspection",
}
# Only where a signature is checked.
SIGNED = {
    *("enginefarm.attestation", "enginefarm.comparison_proof"),
    *("enginefarm.provenance", "enginefarm.trust"),
}
# What the farm's own processes share beside the words.
PROCESSES = {"enginefarm.logs"}
# Nothing for people may need what only the farm or a node has. ``enginefarm run`` imports numpy
# and ONNX Runtime, but only when it is called.
FARM_ONLY = {
    *("alembic", "boto3", "botocore", "celery", "fastapi", "kombu", "numpy", "onnx", "onnxruntime"),
    *("psycopg", "redis", "securesystemslib", "sqlalchemy", "starlette", "structlog", "uvicorn"),
    *("tensorrt", "tensorrt_rtx", "tensorrt_rtx_bindings", "torch"),
}

DATA = [
    each
    for module in (
        *(
            accuracy_report,
            comparison_report,
            compile_options,
            descriptions,
            device_times,
            errors,
            gate,
            manifest,
        ),
        *(messages, percentiles, precision, precision_report, report, spec, timing_messages),
        *(timing_views, trust_record, upload, views),
    )
    for each in vars(module).values()
    if isinstance(each, type)
    and issubclass(each, BaseModel)
    and each.__module__ == module.__name__
    and not each.__name__.startswith("_")
]


def _modules(package: str) -> list[str]:
    """Return the modules of a package, and of its sub-packages if it is one itself."""
    path = [str(ROOT / "client/src" / package.replace(".", "/"))]
    return [info.name for info in pkgutil.iter_modules(path, f"{package}.") if not info.ispkg]


WORDS = [name for name in _modules("enginefarm") if name not in PROCESSES]


def _brought_in(names: list[str]) -> set[str]:
    """Return the packages that importing these modules loads, but for Python's own and ours.

    A name that begins with ``_`` is a private part of Python or of one of these packages.
    """
    code = (
        "import importlib, sys\n"
        f"before = set(sys.modules)\nfor name in {names!r}: importlib.import_module(name)\n"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    others = set(done.stdout.split()) - sys.stdlib_module_names - {enginefarm.__name__}
    return {name for name in others if not name.startswith("_")}


def test_reading_and_writing_the_words_needs_nothing_but_pydantic() -> None:
    words = [name for name in WORDS if name not in SIGNED]

    assert "enginefarm.spec" in words
    assert _brought_in(words) <= PYDANTIC


def test_verifying_needs_cryptography_and_nothing_else() -> None:
    assert _brought_in(WORDS) <= PYDANTIC | {"cryptography"}


@pytest.mark.parametrize("package", ["enginefarm.client", "enginefarm.cli", "enginefarm.install"])
def test_nothing_for_people_brings_in_what_only_the_farm_needs(package: str) -> None:
    modules = [name for name in _modules(package) if not name.endswith("__main__")]

    assert len(modules) > 3
    assert _brought_in(modules) & FARM_ONLY == set()


@pytest.mark.parametrize("optional", [True, False], ids=["all fields", "only what it needs"])
@pytest.mark.parametrize("kind", DATA, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_class_of_data_survives_json(kind: type[BaseModel], *, optional: bool) -> None:
    before = filled(kind, optional=optional)

    text = before.model_dump_json(by_alias=True)

    assert kind.model_validate_json(text) == before
    assert kind.model_validate(json.loads(text)) == before


@pytest.mark.parametrize("kind", DATA, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_what_is_filled_for_these_tests_is_all_there_is(kind: type[BaseModel]) -> None:
    full = filled(kind, optional=True).model_dump(mode="json")

    empty = {name for name, value in full.items() if value in (None, [], {})}
    either = {
        spec.SyntheticInput: {"value"},
        spec.Gate: {"against", "worse_by", "worse_by_percent"},
    }
    assert empty <= either.get(kind, set())


@pytest.mark.parametrize("form", ["sent", "kept"])
@pytest.mark.parametrize("number", range(8), ids=lambda n: "-".join(_job(n)))
def test_a_build_that_was_recorded_long_ago_has_the_recipe_and_key_it_had(
    form: str, number: int
) -> None:
    """A key that changes without a new schema makes every cache worthless, or worse, wrong."""
    asked = BuildSpec.model_validate(RECORDED[form])
    target, stage = _job(number)
    recipe = recipe_for(
        Stage(stage),
        asked,
        Target.parse(target),
        RECORDED["versions"][target],
        RECORDED["model"],
        Made(**RECORDED["made"]),
    )

    was = RECORDED["jobs"][number]["recipe"]
    rules = {Stage.CHECK: CHECK_RULES, Stage.BENCHMARK: MEASUREMENT_RULES}.get(Stage(stage))
    if rules is not None:  # by other rules it is another check or measurement, and made anew
        assert recipe == was | {"rules": rules}
        return
    doubting = [row for row in was.get("gates", ()) if row["metric"] == "latency_p99_ms"]
    if doubting:  # such a gate believes less than it did: what met it then is judged again
        gates = [row | {"if_tainted": "fail"} if row in doubting else row for row in was["gates"]]
        assert recipe == was | {"gates": gates}
        return
    assert recipe == was
    assert key_of(recipe) == RECORDED["jobs"][number]["key"]


def test_what_was_recorded_covers_every_stage_of_every_target_of_the_build() -> None:
    assert [_job(number) for number in range(len(RECORDED["jobs"]))] == [
        (target, str(stage))
        for target in RECORDED["sent"]["targets"]
        for stage in Stage
        # Its key names the passes of the farm's own version: test_recipe.py is about it.
        # The build asked for no precision.
        if stage not in {Stage.REPAIR, *PRECISION_STAGES}
    ]


def test_a_recorded_build_reads_the_same_as_sent_and_as_kept() -> None:
    assert BuildSpec.model_validate(RECORDED["sent"]) == BuildSpec.model_validate(RECORDED["kept"])


def _job(number: int) -> tuple[str, str]:
    job = RECORDED["jobs"][number]
    return job["target"], job["stage"]
