"""Every backend checks, builds, tells its progress and can be stopped."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from enginefarm.state import Blame, Stage
from enginefarm.target import Target
from tests.contract.backends import made
from tests.contract.backends.bench import Bench, Ran, findings, found
from workers.backends.trt.header import read_header
from workers.sandbox import Ending
from workers.settings import ROOT


def test_a_backend_says_what_it_is_and_builds_only_what_the_farm_knows(bench: Bench) -> None:
    assert bench.backend.version
    for arch in (*bench.backend.builds, *bench.backend.measures):
        Target.parse(f"{bench.backend.name}@{arch}")
    assert set(bench.backend.measures) <= {device.arch for device in found().devices}


def test_a_job_for_another_version_is_refused(bench: Bench, model: Path) -> None:
    ran = bench.run(Stage.CHECK, model, backend_version="0.0.1")
    assert ran.code == "backend_version_differs"
    assert ran.result is not None
    assert ran.result.failure is not None
    assert ran.result.failure.blame is Blame.NODE


def test_a_right_model_has_no_findings(bench: Bench, model: Path) -> None:
    checked = bench.run(Stage.CHECK, model)
    assert checked.code is None, checked.log
    assert findings(checked) == []


def test_a_build_says_what_it_took(bench: Bench, built: Ran) -> None:
    assert built.result is not None
    engine = built.result.outputs[0]
    facts: Any = built.result.facts
    assert engine.role == "engine"
    assert engine.path.stat().st_size == facts["compile"]["engine_bytes"]
    assert facts["compile"]["peak_memory_bytes"] > 10 << 20
    assert facts["versions"][bench.backend.name] == bench.backend.version
    assert list(engine.path.parent.iterdir()) == [engine.path]


def test_a_build_that_finds_no_room_says_so(bench: Bench, tmp_path: Path) -> None:
    model = made.save(tmp_path / "large", made.dense(layers=60))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 10, hard))
    try:
        # A child of this process has the limits of this process.
        ran = replace(bench, sandboxed=True, folder=tmp_path).run(Stage.COMPILE, model)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ran.code == "scratch_full", ran.log
    assert ran.result is not None
    assert ran.result.failure is not None
    assert ran.result.failure.blame is Blame.NODE


def test_an_engine_is_of_its_own_kind(bench: Bench, engine: Path) -> None:
    if bench.backend.name == "onnxruntime":
        onnx.checker.check_model(str(engine))
        assert engine.name == "model.onnx"
    else:
        header = read_header(engine)
        assert header is not None
        assert (header.kind, header.version) == (bench.backend.name, bench.backend.version)
        assert header.declared_bytes == engine.stat().st_size
        assert engine.name == "model.plan"


def test_the_same_recipe_gives_an_engine_of_the_same_size(
    bench: Bench, model: Path, engine: Path
) -> None:
    again = bench.run(Stage.COMPILE, model)
    assert again.result is not None
    assert again.result.outputs[0].path.stat().st_size == engine.stat().st_size


def test_progress_never_falls_and_reaches_the_end(bench: Bench, tmp_path: Path) -> None:
    built = bench.run(Stage.COMPILE, made.save(tmp_path / "deep", made.dense(layers=20)))
    assert built.code is None, built.log
    said = [line["fraction"] for line in built.progress if line["fraction"] is not None]
    assert said == sorted(said)
    assert said[-1] == 1.0
    assert all(line["phase"] for line in built.progress)


def test_external_data_is_read_and_the_engine_stands_alone(bench: Bench, tmp_path: Path) -> None:
    kept_apart = made.save(
        tmp_path / "model",
        made.dense(),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    built = bench.run(Stage.COMPILE, kept_apart)
    assert built.code is None, built.log
    assert built.result is not None
    alone = tmp_path / "alone"
    alone.mkdir()
    engine = alone / built.result.outputs[0].name
    shutil.copy(built.result.outputs[0].path, engine)
    assert engine.stat().st_size > 16 * 16 * 4
    if bench.arch in bench.backend.measures:
        measured = bench.run(
            Stage.BENCHMARK,
            kept_apart,
            engine=engine,
            options={"max_duration_ms": 200, "min_duration_ms": 50},
        )
        assert measured.code is None, measured.log


def test_missing_external_data_is_a_finding(bench: Bench, tmp_path: Path) -> None:
    path = made.save(
        tmp_path / "model",
        made.dense(),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    (path.parent / "weights.bin").unlink()
    assert bench.run(Stage.CHECK, path).code == "external_data_missing"


def test_a_model_of_an_early_ir_keeps_its_own_inputs(bench: Bench, tmp_path: Path) -> None:
    """Before IR version 4 every weight is listed as an input, too; a folded one must not stay."""
    shape = numpy_helper.from_array(np.array([16, 16], np.int64), "w__SHAPE")
    nodes = [
        helper.make_node(
            "ConstantOfShape",
            ["w__SHAPE"],
            ["w"],
            value=numpy_helper.from_array(np.array([0.5], np.float32)),
        ),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    early = made.model_of(
        nodes,
        weights=[shape],
        inputs=[made.info("x", ["n", 16]), made.info("w__SHAPE", [2], made.INT64)],
        opset=9,
        ir=3,
    )
    path = made.save(tmp_path / "model", early)
    checked = bench.run(Stage.CHECK, path)
    assert [finding["code"] for finding in findings(checked)] == ["weights_overridable"]
    assert checked.code is None
    built = bench.run(Stage.COMPILE, path)
    assert built.code is None, built.log
    if bench.arch in bench.backend.measures:
        assert built.result is not None
        engine = built.result.outputs[0].path
        options = {"max_duration_ms": 200, "min_duration_ms": 50}
        measured = bench.run(Stage.BENCHMARK, path, engine=engine, options=options)
        assert measured.code is None, measured.log


def test_a_build_can_be_cancelled(bench: Bench, tmp_path: Path) -> None:
    slow = made.save(tmp_path / "model", made.dense(layers=200))
    ran = bench.run(Stage.COMPILE, slow, stop=bool)
    assert ran.outcome.ending is Ending.STOPPED
    assert ran.outcome.seconds < 30
    if ran.result is not None:
        assert ran.code == "cancelled"
        assert ran.result.outputs == []


def test_a_cancel_is_heard_inside_the_build(bench: Bench, tmp_path: Path) -> None:
    """The backend itself obeys: it says that it was stopped, and leaves no engine."""
    if bench.backend.name == "onnxruntime":
        pytest.skip("ONNX Runtime has no way to stop while it rewrites; the child is killed")
    slow = made.save(tmp_path / "model", made.dense(layers=200))
    ran = bench.run(
        Stage.COMPILE,
        slow,
        stop=lambda progress: any("Building" in str(line["phase"]) for line in progress),
    )
    assert ran.outcome.ending is Ending.STOPPED
    assert ran.code == "cancelled", ran.log[-2000:]
    assert ran.outcome.signal is None


def test_this_suite_loads_no_gpu_runtime_itself() -> None:
    """In a process of its own: tests that do load one may share this one."""
    look = (
        "import sys; from tests.contract.backends.bench import found; found();"
        "sys.exit(str({'tensorrt_rtx_bindings', 'tensorrt_rtx', 'tensorrt'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr.strip().splitlines()[-1] == "set()", done.stderr
