"""The provenance names who built what from what, and marks what is only reported."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from enginefarm.digest import digest_of
from enginefarm.manifest import CONFIG_TYPE, ENGINE_TYPES, REPORT_TYPE, TITLE, Descriptor, Manifest
from enginefarm.repair_report import Outcome, PassReport
from enginefarm.repairs import Exactness
from tasks.statement import Facts, statement_for


def file(name: str, media_type: str) -> Descriptor:
    return Descriptor(
        media_type=media_type, digest=digest_of(name.encode()), size=1, annotations={TITLE: name}
    )


MANIFEST = Manifest.of(
    Descriptor(media_type=CONFIG_TYPE, digest=digest_of(b"config"), size=6),
    [file("model.plan", ENGINE_TYPES["tensorrt-rtx"]), file("report.json", REPORT_TYPE)],
)
FACTS = Facts(
    builder_id="https://farm.test/control",
    farm_version="0.1.0",
    build_id="bld_1",
    attempt=2,
    target="tensorrt-rtx@sm_89",
    backend="tensorrt-rtx",
    backend_version="1.7.1.116",
    model={
        "digest": digest_of(b"model"),
        "files": [
            {"name": "model.onnx", "digest": digest_of(b"graph"), "size": 5},
            {"name": "weights.bin", "digest": digest_of(b"weights"), "size": 7},
        ],
    },
    repair_recipe=None,
    repaired_files=[],
    applied=[],
    compile_recipe={"profiles": [], "options": {"optimization_level": 3}},
    benchmark_recipe=None,
    gates=["cosine >= 0.99"],
    started_at=datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC),
    finished_at=datetime(2026, 1, 2, 3, 5, 0, tzinfo=UTC),
    worker={"hostname": "rack-1"},
    evaluation=None,
)


def definition(facts: Facts) -> dict[str, Any]:
    made: dict[str, Any] = statement_for(MANIFEST, facts)["predicate"]["buildDefinition"]
    return made


def test_the_subjects_are_the_manifest_its_config_and_every_file() -> None:
    subjects = {
        row["name"]: "sha256:" + row["digest"]["sha256"]
        for row in statement_for(MANIFEST, FACTS)["subject"]
    }
    assert subjects == {
        "manifest.json": MANIFEST.digest,
        "config.json": digest_of(b"config"),
        "model.plan": digest_of(b"model.plan"),
        "report.json": digest_of(b"report.json"),
    }


def test_who_built_when_and_in_which_attempt_is_said() -> None:
    run = statement_for(MANIFEST, FACTS)["predicate"]["runDetails"]
    assert run["builder"] == {
        "id": "https://farm.test/control",
        "version": {"enginefarm": "0.1.0", "tensorrt-rtx": "1.7.1.116"},
    }
    assert run["metadata"] == {
        "invocationId": "bld_1#2",
        "startedOn": "2026-01-02T03:04:05.678Z",
        "finishedOn": "2026-01-02T03:05:00.000Z",
    }


def test_what_a_node_said_of_itself_is_marked_as_reported() -> None:
    run = statement_for(MANIFEST, FACTS)["predicate"]["runDetails"]
    assert run["enginefarm_worker"] == {"reported": {"hostname": "rack-1"}}


def test_all_that_went_in_is_named_by_digest() -> None:
    sources = definition(replace(FACTS, evaluation=digest_of(b"data")))["resolvedDependencies"]
    assert [row.get("name", row.get("uri")) for row in sources] == [
        "model.onnx",
        "weights.bin",
        "pkg:generic/tensorrt-rtx@1.7.1.116",
        "evaluation.npz",
    ]
    assert "sha256:" + sources[1]["digest"]["sha256"] == digest_of(b"weights")


def test_a_measurement_is_described_only_if_there_was_one() -> None:
    assert "measurement" not in definition(FACTS)["externalParameters"]
    how = {"evaluation": None, "synthetic": {}, "seed": 7, "options": {"threads": 1}}
    measured = replace(FACTS, benchmark_recipe=how | {"engine": {}})
    assert definition(measured)["externalParameters"]["measurement"] == how


def test_what_was_asked_for_is_told_as_it_was_asked() -> None:
    asked = definition(FACTS)["externalParameters"]
    assert asked == {
        "model": digest_of(b"model"),
        "target": "tensorrt-rtx@sm_89",
        "profiles": [],
        "options": {"optimization_level": 3},
        "gates": ["cosine >= 0.99"],
    }


PASS = PassReport(
    name="fold-constants",
    version=1,
    exactness=Exactness.EXACT,
    outcome=Outcome.APPLIED,
    why="3 nodes became 2",
)
REPAIRED = replace(
    FACTS,
    repair_recipe={"asked": {"prune_unused": True}, "passes": [{"name": "sort", "version": 1}]},
    repaired_files=[{"name": "model.onnx", "digest": digest_of(b"repaired"), "size": 9}],
    applied=[PASS],
)


def test_a_repaired_model_is_an_input_of_the_engine_and_a_by_product_of_the_build() -> None:
    sha256 = {"sha256": digest_of(b"repaired").removeprefix("sha256:")}
    row = {"name": "repaired/model.onnx", "digest": sha256}
    made = definition(REPAIRED)
    assert row in made["resolvedDependencies"]
    assert made["externalParameters"]["repair"] == {"prune_unused": True}
    assert made["internalParameters"]["passes"] == [{"name": "sort", "version": 1}]
    run = statement_for(MANIFEST, REPAIRED)["predicate"]["runDetails"]
    assert run["byproducts"] == [row]
    assert run["enginefarm_worker"]["repairs"] == [
        {"name": "fold-constants", "version": 1, "exactness": "exact"}
    ]


def test_without_a_repair_nothing_is_said_of_one() -> None:
    told = str(statement_for(MANIFEST, FACTS))
    assert "repair" not in told
    assert "byproducts" not in told


def test_a_precision_is_told_with_its_recipe_its_tool_its_data_and_the_file_it_gave() -> None:
    asked = {"kind": "int8", "tool": "onnxruntime", "calibration": digest_of(b"samples")}
    made = {"name": "model.onnx", "digest": digest_of(b"int8"), "size": 4}
    recipe = {"precision": asked, "tool_version": "1.32.0"}
    told = definition(replace(FACTS, precision_recipe=recipe, precision_files=[made]))
    assert told["externalParameters"]["precision"] == asked
    sources = told["resolvedDependencies"]
    assert {"uri": "pkg:generic/onnxruntime@1.32.0"} in sources
    digests = {row["name"]: row["digest"]["sha256"] for row in sources if "name" in row}
    assert digests["calibration.npz"] == digest_of(b"samples").removeprefix("sha256:")
    assert digests["precision/model.onnx"] == digest_of(b"int8").removeprefix("sha256:")
    assert "precision" not in definition(FACTS)["externalParameters"]


def test_a_cast_by_another_tool_names_it_with_all_of_its_version() -> None:
    asked = {"kind": "fp16", "tool": "modelopt", "calibration": None}
    recipe = {"precision": asked, "tool_version": "0.47.0+onnx1.21.0"}
    sources = definition(replace(FACTS, precision_recipe=recipe))["resolvedDependencies"]
    assert {"uri": "pkg:generic/modelopt@0.47.0+onnx1.21.0"} in sources


def test_a_cast_by_the_farm_itself_names_no_other_tool() -> None:
    asked = {"kind": "fp16", "tool": "enginefarm", "calibration": None}
    recipe = {"precision": asked, "tool_version": "1.32.0"}
    sources = definition(replace(FACTS, precision_recipe=recipe))["resolvedDependencies"]
    assert sources == definition(FACTS)["resolvedDependencies"]
