"""TensorRT's own sequence of calls, with its options by name, on the one such runtime that is here.

TensorRT-RTX has the same API and builds without a GPU, so what these tests build is real. It does
not take everything that TensorRT does: then it must say so, and nothing is built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enginefarm.compile_options import OPTIONS_OF_BACKEND
from enginefarm.state import Blame, Stage
from tests.contract.backends import made
from tests.contract.backends.bench import Bench, found
from workers.backends.trt.header import read_header

TAKEN: dict[str, Any] = {
    "optimization_level": 4,
    "workspace_mib": 64,
    "tactic_dram_mib": 512,
    "tactic_shared_memory_kib": 64,
    "tiling_optimization_level": "fast",
    "l2_limit_for_tiling_bytes": 1 << 20,
    "max_aux_streams": 0,
    "max_num_tactics": 3,
    "avg_timing_iterations": 4,
    "profiling_verbosity": "detailed",
    "weight_streaming": True,
    "sparse_weights": True,
    "tf32": False,
    "direct_io": True,
    "strict_nans": True,
    "monitor_memory": True,
    "distributive_independence": True,
    "disable_compilation_cache": True,
}
NOT_OF_THE_CONFIG = {"timing_cache"}
NEEDS_A_PLUGIN = {"serialize_plugins"}
NEEDS_A_GPU_OR_MORE = {"refit", "strip_plan", "version_compatible", "exclude_lean_runtime"}
REFUSED: dict[str, Any] = {
    "hardware_compatibility": "ampere-plus",
    "runtime_platform": "windows-amd64",
    "build_route": "-conv_use_long_w=off",
}


def rtx(arch: str, folder: Path) -> Bench:
    backend = next((row for row in found().backends if row.name == "tensorrt-rtx"), None)
    if backend is None:
        pytest.skip(f"tensorrt-rtx does not load here: {found().absent['tensorrt-rtx']}")
    return Bench(backend, arch, folder)


def test_every_option_is_taken_refused_or_needs_more_than_is_here() -> None:
    sorts = (TAKEN, REFUSED, NEEDS_A_GPU_OR_MORE, NOT_OF_THE_CONFIG, NEEDS_A_PLUGIN)
    assert {name for each in sorts for name in each} == OPTIONS_OF_BACKEND["tensorrt"]


@pytest.mark.parametrize("arch", ["sm_86", "sm_89"])
def test_an_engine_is_built_with_all_options_that_the_runtime_takes(
    tmp_path: Path, arch: str
) -> None:
    bench = rtx(arch, tmp_path)
    ran = bench.run(Stage.COMPILE, made.save(tmp_path / "model", made.dense()), options=TAKEN)

    assert ran.code is None, ran.log
    assert ran.result is not None
    facts: Any = ran.result.facts
    header = read_header(ran.result.outputs[0].path)
    assert header is not None
    assert header.version == bench.backend.version
    told = facts["compile"]
    assert (told["device_memory_bytes"] is None) is (told["inspection_reason"] is not None)


@pytest.mark.parametrize("name", REFUSED)
def test_an_option_that_the_runtime_does_not_take_is_never_ignored(
    tmp_path: Path, name: str
) -> None:
    model = made.save(tmp_path / "model", made.dense())
    ran = rtx("sm_89", tmp_path).run(Stage.COMPILE, model, options={name: REFUSED[name]})

    assert ran.code == "option_refused", ran.log
    assert ran.result is not None
    assert ran.result.failure is not None
    assert ran.result.failure.blame is Blame.PERSON
    assert f"options.compile.{name}" in ran.result.failure.message
    assert ran.result.outputs == []


def test_one_file_has_code_for_several_architectures_and_is_far_smaller_than_one_each(
    tmp_path: Path,
) -> None:
    model, size = made.save(tmp_path / "model", made.dense(layers=3)), {}
    for archs in ("sm_86", "sm_89", "sm_89+sm_86"):
        ran = rtx(archs, tmp_path / archs).run(Stage.COMPILE, model)
        assert ran.code is None, ran.log
        assert ran.result is not None
        engine = ran.result.outputs[0].path
        header = read_header(engine)
        assert header is not None
        assert header.archs == tuple(sorted(archs.split("+")))
        assert header.declared_bytes == engine.stat().st_size
        size[archs] = engine.stat().st_size
    assert size["sm_89+sm_86"] < (size["sm_86"] + size["sm_89"]) * 0.75


def test_what_one_of_several_architectures_lacks_is_said_of_all_and_nothing_is_built(
    tmp_path: Path,
) -> None:
    model = made.save(tmp_path / "model", made.dense())
    ran = rtx("sm_75+sm_86", tmp_path).run(Stage.COMPILE, model)

    assert ran.result is not None
    assert ran.result.failure is not None
    assert ran.result.failure.blame is Blame.PERSON
    assert "sm_75 and sm_86" in ran.result.failure.message
    assert ran.result.outputs == []
