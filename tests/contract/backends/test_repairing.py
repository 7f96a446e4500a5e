"""What a backend refuses as it is, it builds once it is repaired; a child does both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from enginefarm.fixed import with_fixed
from enginefarm.model_file import scan_model
from enginefarm.profile import check_profiles, propose
from enginefarm.repairs import passes_for
from enginefarm.spec import FixedInput, RepairOptions
from enginefarm.state import Stage
from localfarm.models import shipped
from tests.contract.backends.bench import Bench, Ran
from tests.unit.workers.repair import made
from tests.unit.workers.repair.test_folding import rate_chooses, squeezed_if_single
from tests.unit.workers.repair.test_structural import defaulted

SQUARE = [{"x": made.shapes([1, 1, 4], [2, 1, 8], [4, 1, 16]).model_dump()}]


def repaired(bench: Bench, model: Path, profiles: list[Any], **asked: Any) -> Ran:  # noqa: ANN401 - options
    options = RepairOptions.model_validate(asked)
    backend = bench.backend.name
    return bench.run(
        Stage.REPAIR,
        model,
        profiles=profiles,
        backend=backend,
        passes=[row.model_dump() for row in passes_for(backend, options)],
        asked=options.model_dump(mode="json", exclude={"mode"}),
    )


def written(ran: Ran, otherwise: Path) -> Path:
    """Return the model that the stage has written, or the one it left alone."""
    assert ran.code is None, ran.log
    assert ran.result is not None
    return next((row.path for row in ran.result.outputs if row.role == "model"), otherwise)


def any_size() -> onnx.ModelProto:
    """Two axes that an exporter gave one placeholder: a compiler takes it for a name."""
    sizes = ("?", 3, "?", "?")
    return made.model(
        [onnx.helper.make_node("Relu", ["x"], ["y"])],
        [made.value("x", *sizes)],
        [made.value("y", *sizes)],
    )


def known_branch() -> onnx.ModelProto:
    squeezed = squeezed_if_single(axis=1)
    squeezed.graph.output[0].CopyFrom(made.value("y", "batch", "time"))
    return squeezed


def a_loss() -> onnx.ModelProto:
    node = onnx.helper.make_node("SoftmaxCrossEntropyLoss", ["x", "t"], ["y"])
    inputs = [made.value("x", 3, 5), made.value("t", 3, dtype=made.INT64)]
    return made.model([node], inputs, [made.value("y")])


IMAGES = [{"x": made.shapes([1, 3, 8, 16], [1, 3, 8, 32], [2, 3, 16, 64]).model_dump()}]
RATE = {"fix_inputs": {"sr": {"value": 16000}}}
KINDS: dict[str, tuple[Callable[[], onnx.ModelProto], list[Any], dict[str, Any]]] = {
    "one placeholder on two axes": (any_size, IMAGES, {}),
    "a known branch": (known_branch, SQUARE, {}),
    "a fixed input": (rate_chooses, [], RATE),
    "an operator that ONNX defines by others": (a_loss, [], {}),
}
REFUSED = {"one placeholder on two axes", "an operator that ONNX defines by others"}
"""What TensorRT-RTX does not build as it is; the others it may come to build."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_pass_mends_is_checked_and_built_afterwards(
    bench: Bench, tmp_path: Path, kind: str
) -> None:
    make, profiles, asked = KINDS[kind]
    path = tmp_path / "model.onnx"
    onnx.save(make(), str(path))
    if bench.backend.name == "tensorrt-rtx" and kind in REFUSED:
        codes = [bench.run(s, path, profiles=profiles).code for s in (Stage.CHECK, Stage.COMPILE)]
        assert any(codes), "it needs no repair: this test proves nothing"
    model = written(repaired(bench, path, profiles, **asked), path)

    checked = bench.run(Stage.CHECK, model, profiles=profiles)
    assert checked.code is None, checked.log
    compiled = bench.run(Stage.COMPILE, model, profiles=profiles)
    assert compiled.code is None, compiled.log


def test_what_is_fixed_is_fed_to_the_original_when_it_is_measured(
    measuring: Bench, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(rate_chooses(), str(path))
    fixed = {"sr": {"value": 16000}}
    model = written(repaired(measuring, path, [], fix_inputs=fixed), path)
    compiled = measuring.run(Stage.COMPILE, model, profiles=[])
    assert compiled.result is not None, compiled.log
    engine = compiled.result.outputs[0].path
    quick = {"warmup_ms": 10, "max_duration_ms": 300, "min_duration_ms": 50, "min_iterations": 10}
    ran = measuring.run(
        Stage.BENCHMARK, path, profiles=[], engine=engine, options=quick, fixed=fixed
    )
    assert ran.code is None, ran.log
    assert ran.result is not None
    facts: Any = ran.result.facts
    assert facts["accuracy"]["outputs"][0]["cosine"] > 0.99999
    assert list(facts["latency"][0]["shapes"]) == ["x"]
    # Another value chooses another branch: the comparison must see it.
    wrong = measuring.run(
        Stage.BENCHMARK,
        path,
        profiles=[],
        engine=engine,
        options=quick,
        fixed={"sr": {"value": 8000}},
    )
    assert wrong.result is not None
    told: Any = wrong.result.facts
    assert told["accuracy"]["outputs"][0]["cosine"] < 0.9


def test_a_fix_that_cannot_be_is_the_persons_failure(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(rate_chooses(), str(path))
    ran = repaired(bench, path, [], fix_inputs={"rate": {"value": 16000}})
    assert ran.code == "unknown_input"


def test_an_output_that_nobody_wants_is_neither_built_nor_compared(
    measuring: Bench, tmp_path: Path
) -> None:
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["y"]),
        onnx.helper.make_node("Neg", ["x"], ["aux"]),
    ]
    outputs = [made.value(name, 2, 4) for name in ("aux", "y")]
    path = tmp_path / "model.onnx"
    onnx.save(made.model(nodes, [made.value("x", 2, 4)], outputs), str(path))
    model = written(repaired(measuring, path, [], keep_outputs=["y"]), path)
    compiled = measuring.run(Stage.COMPILE, model, profiles=[])
    assert compiled.result is not None, compiled.log
    engine = compiled.result.outputs[0].path
    quick = {"warmup_ms": 10, "max_duration_ms": 300, "min_duration_ms": 50, "min_iterations": 10}
    for kept, code in ((["y"], None), ([], "engine_interface_differs")):
        ran = measuring.run(
            Stage.BENCHMARK, path, profiles=[], engine=engine, options=quick, keep_outputs=kept
        )
        assert ran.code == code, ran.log
        if ran.result is not None and code is None:
            facts: Any = ran.result.facts
            assert [row["output"] for row in facts["accuracy"]["outputs"]] == ["y"]


@pytest.mark.parametrize("name", ["silero-if", "silero-op15", "silero-ifless"])
def test_a_speech_model_builds_with_the_profile_that_is_proposed_for_it(
    bench: Bench, tmp_path: Path, name: str
) -> None:
    path = shipped(name).file()
    fixed = {"sr": FixedInput(value=16000)}
    inputs = with_fixed(scan_model(path).inputs, fixed)
    proposed = propose(inputs)
    check_profiles(inputs, [proposed])
    profiles = [{name: row.model_dump() for name, row in proposed.items()}]
    model = written(repaired(bench, path, profiles, fix_inputs={"sr": {"value": 16000}}), path)

    checked = bench.run(Stage.CHECK, model, profiles=profiles)
    assert checked.code is None, checked.log
    compiled = bench.run(Stage.COMPILE, model, profiles=profiles)
    assert compiled.code is None, compiled.log


def test_an_input_with_a_default_value_is_built_with_it(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(defaulted(), str(path))
    model = written(repaired(bench, path, []), path)
    assert model == path

    checked = bench.run(Stage.CHECK, model, profiles=[])
    assert checked.code is None, checked.log
    compiled = bench.run(Stage.COMPILE, model, profiles=[])
    assert compiled.code is None, compiled.log
