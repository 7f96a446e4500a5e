"""Two engines in one child: both are loaded and run with the same inputs, in turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginefarm.compile_options import CompileOptions
from enginefarm.errors import JobFailed
from enginefarm.state import Blame, Stage
from enginefarm.target import Target
from tasks.comparing.facts import ComparedFacts, check_compared
from tests.contract.backends import made
from tests.unit.workers.gpu.made import gpu, port
from tests.unit.workers.measurement.test_timing import Sink
from workers.backends.onnxruntime import OnnxRuntime, open_backend
from workers.backends.ort_session import SessionRunner
from workers.childjob import ChildInput, ChildJob
from workers.comparing import compare_engines
from workers.gpu.exclusive import Onlookers
from workers.gpu.port import Process
from workers.gpu.taken import Taken

PROFILES = [{"x": {"min": [1, 16], "opt": [rows, 16], "max": [8, 16]}} for rows in (2, 8)]
OPTIONS = {"warmup_ms": 1, "min_duration_ms": 20, "max_duration_ms": 1000, "threads": 1}


def job(folder: Path, first: Path, second: Path) -> ChildJob:
    """Return the job that compares two engines on the processor."""
    return ChildJob(
        stage=Stage.BENCHMARK,
        target=Target(backend="onnxruntime", arch="cpu"),
        recipe={"compare": {}, "profiles": PROFILES, "options": OPTIONS, "seed": 3},
        inputs=[
            ChildInput(role="first", name="model.onnx", path=first),
            ChildInput(role="second", name="model.onnx", path=second),
        ],
        out=folder,
    )


def compared(folder: Path, device: Taken | None = None) -> ComparedFacts:
    first = made.save(folder / "a", made.dense(layers=40))
    second = made.save(folder / "b", made.dense(layers=1))
    facts = compare_engines(job(folder, first, second), open_backend(), Sink(), device)
    check_compared(
        Target.parse("onnxruntime@cpu"), {"facts": facts, "machine": None, "outputs": []}
    )
    return ComparedFacts.model_validate(facts)


def test_both_are_measured_at_every_profile_and_the_ratio_is_the_firsts_to_the_seconds(
    tmp_path: Path,
) -> None:
    found = compared(tmp_path)
    assert [row.shapes for row in found.compared] == [{"x": [2, 16]}, {"x": [8, 16]}]
    assert (found.data, found.threads) == ("synthetic, seed 3", 1)
    for row in found.compared:
        slow, quick = row.first.end_to_end_ms, row.second.end_to_end_ms
        assert slow.p50 > quick.p50  # forty layers against one
        assert sorted(row.ratios)[len(row.ratios) // 2] > 1
        assert row.trust.tainted == []


def test_each_is_opened_as_it_was_built(tmp_path: Path) -> None:
    opened: list[object] = []

    class Told(OnnxRuntime):
        def load(self, engine: Path, target: Target, threads: int, *built: object) -> SessionRunner:
            opened.extend(built)
            return super().load(engine, target, threads)

    path = made.save(tmp_path / "a", made.dense())
    asked = job(tmp_path, path, path)
    sides = {"first": {"built_with": {"version_compatible": True}}, "second": {"size": 1}}
    asked = asked.model_copy(update={"recipe": asked.recipe | {"compare": sides}})
    compare_engines(asked, Told(), Sink(), None)
    assert opened == [CompileOptions(version_compatible=True), CompileOptions()]


def test_who_else_is_on_the_device_taints_it_and_it_is_tried_again(tmp_path: Path) -> None:
    onlookers = Onlookers(frozenset({1}))
    onlookers.look_before([Process(7)], 0)
    busy = Taken(port(processes=[Process(7)]), gpu(), onlookers, times=2)
    for row in compared(tmp_path, busy).compared:
        assert row.trust.times_measured == 2
        (why,) = row.trust.tainted  # and not that single runs vary
        assert "process 7" in why


def test_an_engine_that_does_not_run_is_named_and_no_node_is_blamed(tmp_path: Path) -> None:
    whole = made.save(tmp_path / "a", made.dense())
    with pytest.raises(JobFailed) as failed:
        compare_engines(
            job(tmp_path, whole, made.baked_batch(tmp_path)), open_backend(), Sink(), None
        )
    assert (failed.value.code, failed.value.blame) == ("engine_run_failed", Blame.PERSON)
    assert "The second engine" in failed.value.message
