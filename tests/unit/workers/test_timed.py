"""What was timed beside somebody else is in no cache that others build with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from enginefarm.state import Stage
from enginefarm.target import Target
from tasks.timing_messages import TimingFile, TimingOffer
from tests.unit.workers.gpu.made import UUID, gpu, port
from workers import timed
from workers.childjob import ChildInput, ChildJob
from workers.gpu.exclusive import Onlookers
from workers.gpu.need import DeviceNeed
from workers.gpu.port import Process
from workers.gpu.taken import Taken
from workers.offering import offer
from workers.timing import FILE_NAME, ROLE, ChildTiming

OWN = 10


def kept_back(tmp_path: Path, before: list[int], after: list[int], *, shared: bool = False) -> str:
    """Return why a build's timings are for nobody else; empty: they are for others."""
    onlookers = Onlookers(frozenset({OWN}))
    onlookers.look_before([Process(pid) for pid in before], 0)
    nvml = port(processes=[Process(pid) for pid in after])
    job = ChildJob(
        stage=Stage.COMPILE,
        target=Target.parse("tensorrt@sm_90"),
        recipe={},
        inputs=[ChildInput(role=ROLE, name=FILE_NAME, path=tmp_path)],
        out=tmp_path,
        device=DeviceNeed(devices=[UUID], shared=shared),
    )
    left = timed.alone(
        job, ChildTiming(path=tmp_path, hits=3), Taken(nvml, gpu(), onlookers, times=1)
    )
    report = timed.told(job, left)
    assert left is not None
    assert report is not None
    assert (report.begun_with, report.hits, report.kept_back) == (True, 3, left.kept_back)
    assert ("not kept" in report.said) is (left.kept_back is not None)
    return left.kept_back or ""


@pytest.mark.parametrize(
    ("before", "after", "shared", "says"),
    [
        ([], [OWN], False, ""),
        ([], [OWN, 7], False, "process 7 came"),
        ([7], [OWN, 7], False, "process 7 was there before"),
        ([7], [OWN], False, "process 7 was there before"),
        ([], [OWN], True, "other jobs may have the GPU"),
    ],
    ids=["alone", "came", "was there", "had gone", "shared"],
)
def test_what_is_timed_beside_somebody_else_is_kept_back(
    tmp_path: Path, before: list[int], after: list[int], says: str, *, shared: bool
) -> None:
    found = kept_back(tmp_path, before, after, shared=shared)
    assert says in found
    assert bool(found) is bool(says)


def test_a_build_on_no_gpu_of_the_nodes_keeps_back_nothing(tmp_path: Path) -> None:
    job = ChildJob(
        stage=Stage.COMPILE,
        target=Target.parse("tensorrt@sm_90"),
        recipe={},
        inputs=[],
        out=tmp_path,
    )
    assert timed.alone(job, None, None) is None
    assert timed.told(job, None) is None
    assert timed.alone(job, ChildTiming(), None) == ChildTiming()


class Nobody:
    """A road that nothing may go."""

    def __getattr__(self, name: str) -> NoReturn:
        """Go nowhere."""
        pytest.fail(f"{name} was called")


def test_what_is_kept_back_is_offered_to_nobody(tmp_path: Path) -> None:
    newest = TimingFile(digest=f"sha256:{'0' * 64}", size=1, url="http://127.0.0.1:1")
    held = TimingOffer(namespace=f"sha256:{'1' * 64}", generation=3, newest=newest)
    left = ChildTiming(path=tmp_path, entries=2, kept_back="process 7 came")
    road: Any = Nobody()
    assert offer(road, held, left, began_with_it=True) == "not offered: process 7 came"
