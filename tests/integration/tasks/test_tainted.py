"""Times that cannot be relied on let nothing out that was asked to be fast, and are made anew."""

from __future__ import annotations

import pytest

from enginefarm.errors import InvalidRequest
from enginefarm.manifest import LABELS, read_manifest
from enginefarm.report import TAINTED
from enginefarm.state import ArtifactState, BuildState, Stage
from enginefarm.verdict_report import PrecisionVerdict
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.test_precisions import int8
from tests.integration.tasks.test_twins import judged, made, whole

WHY = "clocks were held down: thermal slowdown"
FAST = {"metric": "latency_p99_ms", "at_most": 5}


@pytest.fixture
def throttled(node: FakeNode) -> FakeNode:
    """Return a node whose device is throttled."""
    node.tainted = [WHY]
    return node


def test_a_gate_believes_no_tainted_latency_and_the_next_build_measures_anew(
    scene: Scene, throttled: FakeNode
) -> None:
    first = whole(scene, throttled, gates=[FAST])
    assert made(scene, first).state is ArtifactState.QUARANTINED
    failure = scene.failure(scene.job(first, Stage.PUBLISH))
    assert failure.code == "gate_tainted"
    assert f"latency was tainted: {WHY}" in failure.why

    throttled.tainted = []
    second = whole(scene, throttled, gates=[FAST])
    assert scene.job(second, Stage.COMPILE).cached_from == scene.job(first, Stage.COMPILE).id
    assert scene.job(second, Stage.BENCHMARK).cached_from is None
    assert made(scene, second).state is ArtifactState.PUBLISHED


def test_a_person_may_have_a_gate_believe_it_and_what_no_gate_judges_goes_out_with_the_label(
    scene: Scene, throttled: FakeNode
) -> None:
    for gates in ([FAST | {"if_tainted": "allow"}], []):
        build_id = whole(scene, throttled, gates=gates)
        row = made(scene, build_id)
        assert row.state is ArtifactState.PUBLISHED
        assert read_manifest(row.manifest).annotations[LABELS] == TAINTED


def test_no_verdict_on_a_precision_rests_on_what_was_tainted(
    scene: Scene, throttled: FakeNode
) -> None:
    asked = int8(scene)
    for speedup in (1.5, 0.5):
        throttled.speedup = speedup
        build_id = whole(scene, throttled, **asked)
        told = judged(scene, build_id)
        assert told.verdict is None
        assert f"it was tainted at x 1x4: {WHY}" in told.reason
        assert [row.faster for row in told.speed] == [False]

    throttled.tainted = []
    again = whole(scene, throttled, **asked)
    assert scene.job(again, Stage.COMPILE).cached_from is not None
    assert scene.job(again, Stage.BENCHMARK).cached_from is None
    assert judged(scene, again).verdict is PrecisionVerdict.SLOWER
    assert scene.state(again) is BuildState.FAILED


def test_a_gate_against_an_artifact_whose_latency_was_tainted_is_refused_at_once(
    scene: Scene, throttled: FakeNode
) -> None:
    build_id = whole(scene, throttled)
    named = {"metric": "latency_p99_ms", "against": made(scene, build_id).digest, "worse_by": 1}
    with pytest.raises(InvalidRequest) as refused:
        scene.submit(gates=[named])
    assert refused.value.code == "gate_against"
    assert f"Its latency was tainted: {WHY}" in refused.value.why
    scene.submit(gates=[named | {"if_tainted": "allow"}])
