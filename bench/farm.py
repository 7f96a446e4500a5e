"""What the farm costs on top of the work: three ratios, each measured in one run.

    python -m bench.farm [--builds N]

* farm time for a build ÷ the same stages run one after another by one plain script
* cache-hit answers: how many a second, and their P99
* accepted builds a second ÷ bare inserts of the same rows on the same database

It starts a farm of its own in a temporary folder. The two sides of a ratio are interleaved.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.bare_rows import insert_like
from bench.plain_script import run_stages
from enginefarm.client import FarmClient
from enginefarm.spec import BenchmarkOptions, BuildSpec, StageOptions
from enginefarm.target import Target
from enginefarm.views import BuildView
from localfarm.farm import LocalFarm
from localfarm.folder import Folder, read_client_file
from localfarm.models import shipped
from localfarm.programs import DATABASE
from storage.database import Database

MODEL = "magika"
TARGET = "onnxruntime@cpu"
QUICK = BenchmarkOptions(min_iterations=20, min_duration_ms=200, max_duration_ms=200)
_WAITING_TARGET = "onnxruntime@sm_90"  # nobody serves it here: such builds wait and do no work


@dataclass(frozen=True)
class Bench:
    """A running farm and a model in it."""

    farm: FarmClient
    database: Database
    model: str
    builds: int

    def overhead(self) -> tuple[str, str]:
        """Return farm time and script time of the same stages."""
        path = shipped(MODEL).file()
        farm, script = [], []
        for number in range(self.builds):
            spec = self._spec(seed=1000 + number, largest=64 + number)
            farm.append(_timed(lambda spec=spec: self._finish(spec)))  # type: ignore[misc]
            script.append(_timed(lambda spec=spec: run_stages(path, spec, Target.parse(TARGET))))  # type: ignore[misc]
        ratio = statistics.median(farm) / statistics.median(script)
        said = f"{statistics.median(farm):.2f} s ÷ {statistics.median(script):.2f} s"
        return "farm time ÷ plain script, one build", f"{ratio:.2f}  ({said}, n={self.builds})"

    def cache_hits(self, count: int = 200) -> tuple[str, str]:
        """Return how fast a known recipe is answered."""
        spec = self._spec(seed=1)
        self._finish(spec)
        seconds = sorted(_timed(lambda: self.farm.builds.submit(spec)) for _ in range(count))
        p99 = seconds[max(count - 1 - int(0.01 * count), 0)]
        rate = count / sum(seconds)
        said = f"{rate:.0f}/s, P50 {seconds[count // 2] * 1000:.1f} ms, P99 {p99 * 1000:.1f} ms"
        return "cache-hit answers (one client)", f"{said}, n={count}"

    def accepted(self, count: int = 200) -> tuple[str, str]:
        """Return accepted builds a second beside bare inserts of the same rows."""
        spec = self._spec(seed=2, target=_WAITING_TARGET, wait=600)
        example = self.farm.builds.submit(spec)[0].id
        api, bare = 0.0, 0.0
        for number in range(count):
            new = self._spec(seed=10_000 + number, target=_WAITING_TARGET, wait=600)
            api += _timed(lambda new=new: self.farm.builds.submit(new))  # type: ignore[misc]
            bare += _timed(lambda: insert_like(self.database, example))
        ratio = bare / api
        said = f"{count / api:.0f}/s ÷ {count / bare:.0f}/s"
        return "accepted builds ÷ bare inserts", f"{ratio:.2f}  ({said}, n={count})"

    def _spec(self, seed: int, target: str = TARGET, wait: int = 0, largest: int = 64) -> BuildSpec:
        # Another largest batch is another recipe, but the same work: what is measured is the usual.
        profile = {"bytes": {"min": [1, 2048], "opt": [8, 2048], "max": [largest, 2048]}}
        return BuildSpec.model_validate(
            {
                "model": self.model,
                "targets": [target],
                "profiles": [profile],
                "options": StageOptions(benchmark=QUICK).model_dump(mode="json"),
                "seed": seed,
                "wait_for_node": wait,
            }
        )

    def _finish(self, spec: BuildSpec) -> BuildView:
        build, _ = self.farm.builds.submit(spec)
        while not build.state.terminal:
            time.sleep(0.05)
            build = self.farm.builds.get(build.id)
        if build.state != "succeeded":
            failures = [job.failure for job in build.jobs if job.failure is not None]
            message = f"build {build.id} is {build.state}: {failures}"
            raise RuntimeError(message)
        return build


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Start a farm, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--builds", type=int, default=6, help="builds for the first ratio")
    count = parser.parse_args().builds
    console = Console(width=110)
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name) / "farm")
        local = LocalFarm(folder, 60.0, console.print)
        with folder.held(), local.running():
            known = read_client_file(folder)
            database = Database(local.services.postgres.url(DATABASE))
            with FarmClient(known["url"], known["key"]) as farm:
                model = farm.models.upload(shipped(MODEL).file())
                bench = Bench(farm, database, model.digest, count)
                rows = [bench.overhead(), bench.cache_hits(), bench.accepted()]
            database.dispose()
    table = Table("what", "measured", title=f"{MODEL}, {TARGET}, {os.cpu_count()} cores")
    for row in rows:
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    main()
