"""A runtime cache is written after all was run, and its worth is measured by a second start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from enginefarm.runtime_cache import RuntimeCacheReport
from enginefarm.target import Target
from enginefarm.views import TensorView
from workers.backends.base import Array, Backend, ModelSource
from workers.gpu.taken import Taken
from workers.measurement.first_start import FirstStart
from workers.measurement.request import Request

GPU = cast("Taken", SimpleNamespace(gpu=SimpleNamespace(name="NVIDIA L4", driver="580.1")))


class Plain:
    """An engine whose runtime compiles nothing when it is started."""

    def __init__(self) -> None:
        self.inputs = [TensorView(name="x", dtype="float32", shape=[1, 4])]
        self.outputs = [TensorView(name="y", dtype="float32", shape=[1, 4])]
        self.threads = 1
        self.runs = 0

    def run(self, feeds: Mapping[str, Array]) -> list[Array | None]:
        self.runs += 1
        return [np.asarray(feeds["x"])]


class Compiling(Plain):
    """One that leaves a cache, which the next start takes or does not."""

    def __init__(self, *, takes: bool = True) -> None:
        super().__init__()
        self.next = Plain() if takes else None
        self.given: list[bytes] = []

    def runtime_cache(self) -> bytes:
        return b"after %d runs" % self.runs

    def started_again(self, cache: bytes) -> Plain | None:
        self.given.append(cache)
        return self.next


def started(engine: Plain, folder: Path) -> tuple[FirstStart, Plain]:
    backend: Any = SimpleNamespace(load=lambda *_: engine)
    source = ModelSource(folder / "model.onnx", Target.parse("tensorrt-rtx@sm_89"))
    request = Request.of({}, source, folder / "model.plan", None, None, folder / "runtime.cache")
    start = FirstStart(request, None)
    opened, load_ms = start.opened(backend)
    assert opened is engine
    assert load_ms >= 0
    return start, engine


def ended(start: FirstStart, engine: Plain, device: Taken | None = GPU) -> dict[str, Any]:
    backend = SimpleNamespace(describe=lambda _devices: SimpleNamespace(version="1.7.1.116"))
    return start.with_cache(engine, cast("Backend", backend), device)


@pytest.mark.parametrize("takes", [True, False])
def test_what_was_compiled_is_written_and_the_next_start_is_timed_if_it_takes_it(
    tmp_path: Path, *, takes: bool
) -> None:
    engine = Compiling(takes=takes)
    start, _ = started(engine, tmp_path)
    assert engine.runs == 1
    engine.run({"x": np.ones((1, 4), "float32")})  # as measuring does
    told = RuntimeCacheReport.model_validate(ended(start, engine)["runtime_cache"])
    data = (tmp_path / "runtime.cache").read_bytes()
    assert (data, engine.given) == (b"after 2 runs", [b"after 2 runs"])
    assert (told.size, told.made_for.gpu, told.made_for.driver) == (len(data), "NVIDIA L4", "580.1")
    assert told.first_start_ms > 0
    assert (told.with_cache_ms is not None) is takes
    assert engine.next is None or engine.next.runs == 1


def test_an_engine_that_leaves_no_cache_or_runs_on_no_gpu_has_nothing_to_tell(
    tmp_path: Path,
) -> None:
    plain, _ = started(Plain(), tmp_path)
    assert ended(plain, Plain()) == {}
    start, engine = started(Compiling(), tmp_path)
    assert ended(start, engine, None) == {}
    assert not (tmp_path / "runtime.cache").exists()
