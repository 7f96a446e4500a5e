"""The same work without a farm: one process calls the stages repair, check, compile and benchmark.

``python -m bench.plain_script MODEL SPEC.json TARGET`` is what a person's own script would be.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from enginefarm.repairs import passes_for
from enginefarm.spec import BuildSpec
from enginefarm.state import PLAIN_STAGES, Stage
from enginefarm.target import Target
from workers import stages
from workers.backends.registry import open_backend
from workers.childjob import ChildInput, ChildJob


class _Silent:
    """A progress sink for nobody."""

    def report(self, fraction: float | None, phase: str, detail: str = "") -> None:
        """Say nothing."""

    @property
    def stopping(self) -> bool:
        """Nobody cancels a plain script."""
        return False


def run_stages(model: Path, spec: BuildSpec, target: Target) -> None:
    """Run the script in a fresh process, as a person would."""
    with tempfile.TemporaryDirectory() as name:
        recipe = Path(name) / "spec.json"
        recipe.write_text(spec.model_dump_json())
        subprocess.run(
            [sys.executable, "-m", "bench.plain_script", str(model), str(recipe), str(target)],
            check=True,
            capture_output=True,
        )


def main(model: Path, spec: BuildSpec, target: Target) -> None:
    """Repair, check, compile and measure in this process."""
    version = open_backend(target.backend).describe([]).version
    profiles = [
        {name: shapes.model_dump() for name, shapes in profile.items()} for profile in spec.profiles
    ]
    original = newest = ChildInput(role="model", name="model.onnx", path=model)
    engines: list[ChildInput] = []
    with tempfile.TemporaryDirectory() as name:
        for stage in PLAIN_STAGES[:-1]:
            options = spec.options.benchmark if stage is Stage.BENCHMARK else spec.options.compile
            recipe: dict[str, Any] = {
                "backend_version": version,
                "profiles": profiles,
                "synthetic": {},
                "seed": spec.seed,
                "evaluation": None,
                "options": options.model_dump(mode="json", exclude_none=True),
            }
            if stage is Stage.REPAIR:
                recipe |= _repairs(spec, target)
            out = Path(name) / stage
            out.mkdir()
            source = original if stage is Stage.BENCHMARK else newest
            inputs = [source, *engines]
            job = ChildJob(stage=stage, target=target, recipe=recipe, inputs=inputs, out=out)
            result = stages.run(job, _Silent())
            if result.failure is not None:
                raise SystemExit(result.failure.message)
            made = [ChildInput(role=r.role, name=r.name, path=r.path) for r in result.outputs]
            newest = next((row for row in made if row.role == "model"), newest)
            engines += [row for row in made if row.role == "engine"]


def _repairs(spec: BuildSpec, target: Target) -> dict[str, Any]:
    asked = spec.options.repair
    passes = [row.model_dump() for row in passes_for(target.backend, asked)]
    return {"backend": target.backend, "passes": passes, "asked": asked.model_dump(mode="json")}


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        BuildSpec.model_validate_json(Path(sys.argv[2]).read_text()),
        Target.parse(sys.argv[3]),
    )
