"""Beside its twin an engine is measured as alone: watched, again while disturbed, with a record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from enginefarm.verdict_report import PairedRuns
from tests.contract.backends import made
from tests.unit.workers.gpu.made import gpu, port
from tests.unit.workers.measurement.test_one_shape import CPU, PROFILE, QUICK
from tests.unit.workers.measurement.test_timing import Sink
from workers import benchmark
from workers.backends.base import ModelSource
from workers.backends.onnxruntime import open_backend
from workers.gpu.exclusive import Onlookers
from workers.gpu.port import Process
from workers.gpu.taken import Taken
from workers.measurement.beside import against_twin
from workers.measurement.conditions import Conditions
from workers.measurement.one_shape import Loaded
from workers.measurement.request import Request


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    path = made.save(tmp_path / "m", made.dense())
    source = ModelSource(path=path, target=CPU, profiles=[PROFILE])
    return Request(source, path, None, None, {}, 0, QUICK, twin=path)


def beside(request: Request, device: Taken | None) -> PairedRuns:
    """Measure a small engine beside itself on the processor, as if it were on a device."""
    backend = open_backend()
    engine = backend.load(request.engine, CPU, 1)
    loaded = Loaded(engine, 1.0, lambda: 1, Conditions(device))
    found = against_twin(request, loaded, backend, [PROFILE], Sink())
    (row,) = found["comparison"]
    return PairedRuns.model_validate(row)


def test_what_is_disturbed_beside_a_twin_is_repeated_up_to_a_limit_and_tainted(
    request_: Request,
) -> None:
    nvml, onlookers = port(processes=[Process(7), Process(8)]), Onlookers(frozenset({1}))
    onlookers.look_before([Process(7)], 0)
    trust = beside(request_, Taken(nvml, gpu(), onlookers, times=2)).trust
    assert trust is not None
    assert trust.times_measured == 2
    assert any("process 7" in reason for reason in trust.tainted)


def test_the_spread_of_single_runs_taints_no_pairs_and_a_processor_none_at_all(
    request_: Request,
) -> None:
    alone = Taken(port(), gpu(), Onlookers(frozenset({1})), times=1)
    for device in (alone, None):
        trust = beside(request_, device).trust
        assert trust is not None
        assert (trust.tainted, trust.times_measured) == ([], 1)


def test_what_is_known_of_the_engine_is_kept_before_its_twin_is_loaded(request_: Request) -> None:
    backend, kept = open_backend(), list[dict[str, Any]]()

    def keep(facts: dict[str, Any]) -> None:
        # Had the twin been loaded by now, it would be measured all the same.
        broken.write_bytes(b"no engine")
        kept.append(facts)

    broken = request_.engine.with_name("twin.onnx")
    broken.write_bytes(request_.engine.read_bytes())
    asked = replace(request_, twin=broken)
    facts = benchmark.run(asked, backend, Sink(), lambda: 1, None, keep)
    assert "could not be measured beside its twin" in facts["comparison_reason"]
    assert kept == [{name: facts[name] for name in facts if name != "comparison_reason"}]
    kept.clear()
    assert "comparison" not in benchmark.run(
        replace(request_, twin=None), backend, Sink(), lambda: 1, None, keep
    )
    assert kept == []
