"""What a job's recipe says of how its engine was built reaches who opens it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enginefarm.compile_options import CompileOptions
from enginefarm.state import Stage
from enginefarm.target import Target
from workers.childjob import ChildInput, ChildJob
from workers.stages import source_of

BUILT, ASKED = {"version_compatible": True}, {"tf32": False}


@pytest.mark.parametrize(
    ("stage", "recipe", "options"),
    [
        (Stage.BENCHMARK, {"built_with": BUILT, "options": {"warmup_ms": 1}}, BUILT),
        (Stage.BENCHMARK, {"options": {"warmup_ms": 1}}, {}),
        (Stage.COMPILE, {"options": ASKED}, ASKED),
    ],
)
def test_a_benchmark_is_told_how_its_engine_was_built_and_a_compile_what_was_asked_for(
    tmp_path: Path, stage: Stage, recipe: dict[str, Any], options: dict[str, Any]
) -> None:
    job = ChildJob(
        stage=stage,
        target=Target.parse("tensorrt@sm_89"),
        recipe=recipe,
        inputs=[ChildInput(role="model", name="model.onnx", path=tmp_path / "model.onnx")],
        out=tmp_path,
    )
    assert source_of(job).options == CompileOptions.model_validate(options)
