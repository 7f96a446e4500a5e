"""A node's state on disk, its description, and its beat."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from enginefarm import errors
from enginefarm.state import Stage
from tasks.messages import BackendDescription, Device, NodeBeat, NodeBeatReply
from tasks.routing import queues_served
from workers import node
from workers.node import NodeBeatThread, NodeState
from workers.probe import Probe

FOUND = Probe(
    hostname="h",
    cpu="c",
    cores=2,
    memory_bytes=1,
    devices=[Device(arch="cpu", name="c")],
    backends=[
        BackendDescription(name="onnxruntime", version="1", builds=["cpu"], measures=["cpu"]),
        BackendDescription(name="tensorrt-rtx", version="2", builds=["sm_89"], measures=[]),
    ],
    absent={"tensorrt": "not installed"},
)
STATE = NodeState(
    url="http://farm",
    name="n",
    node_id="nod_1",
    credential="en_1_secret",
    queues=["check.cpu"],
    heartbeat_s=0.01,
)


def mode(path: Path) -> int:
    """Return a path's permission bits."""
    return stat.S_IMODE(path.stat().st_mode)


def test_the_credential_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    path = node.save(STATE, folder)
    assert (mode(folder), mode(path)) == (0o700, 0o600)
    assert NodeState.model_validate_json(path.read_text()) == STATE


def test_a_state_is_replaced_whole(tmp_path: Path) -> None:
    node.save(STATE, tmp_path)
    node.save(STATE.model_copy(update={"node_id": "nod_2"}), tmp_path)
    assert "nod_2" in (tmp_path / "node.json").read_text()
    assert [entry.name for entry in tmp_path.iterdir()] == ["node.json"]


def test_a_node_says_what_its_backends_say() -> None:
    said = node.describe(FOUND, [Stage.COMPILE, Stage.BENCHMARK], slots=2, job_memory_bytes=1 << 30)
    assert (said.slots, said.job_memory_bytes) == (2, 1 << 30)
    assert said.backends == FOUND.backends
    assert said.reads_refined_targets
    assert queues_served(said) == ["benchmark.cpu", "compile.cpu", "compile.sm_89"]


def test_a_node_measures_nothing_with_what_its_operator_leaves_out() -> None:
    backends = [row.model_copy(update={"measures": row.builds}) for row in FOUND.backends]
    found = FOUND.model_copy(update={"backends": backends})
    said = node.describe(found, [Stage.BENCHMARK], 1, unmeasured=["tensorrt-rtx", "tensorrt"])
    assert [row.measures for row in said.backends] == [["cpu"], []]
    assert [row.builds for row in said.backends] == [["cpu"], ["sm_89"]]
    assert queues_served(node.describe(found, [Stage.BENCHMARK], 1)) == [
        "benchmark.cpu",
        "benchmark.sm_89",
    ]


class Farm:
    """Hears beats; the first is refused."""

    def __init__(self) -> None:
        self.heard: list[NodeBeat] = []

    def beat(self, message: NodeBeat) -> NodeBeatReply:
        """Take a beat."""
        self.heard.append(message)
        if len(self.heard) == 1:
            raise errors.Unavailable("Away.", code="farm_away")
        return NodeBeatReply(queues=["check.cpu"])


def beats(farm: Farm, obeyed: list[NodeBeatReply]) -> NodeBeatThread:
    """Return a beat that runs one job."""
    said = node.describe(FOUND, [Stage.CHECK], 1)
    return NodeBeatThread(farm, STATE, said, lambda: ["job_1"], obeyed.append)  # type: ignore[arg-type]  # only beats are used


def test_the_description_is_repeated_until_it_got_through() -> None:
    farm, obeyed = Farm(), list[NodeBeatReply]()
    made = beats(farm, obeyed)
    for _ in range(3):
        made.beat()
    assert [message.description is not None for message in farm.heard] == [True, True, False]
    assert [message.running for message in farm.heard] == [["job_1"]] * 3
    assert len(obeyed) == 2


def test_a_node_that_becomes_another_says_so_at_once_and_until_it_got_through() -> None:
    other = node.describe(FOUND, [Stage.COMPILE], 1)

    class Busy(Farm):
        def beat(self, message: NodeBeat) -> NodeBeatReply:
            self.heard.append(message)
            if len(self.heard) == 1:  # while the first beat is on its way
                made.describe(other)
            if len(self.heard) == 2:
                raise errors.Unavailable("Away.", code="farm_away")
            return NodeBeatReply(queues=[])

    farm = Busy()
    made = beats(farm, [])
    for _ in range(3):
        made.beat()

    said = [message.description for message in farm.heard]
    assert said[1:] == [other, other, None]


def test_draining_is_said_at_once_and_from_then_on() -> None:
    farm = Farm()
    made = beats(farm, [])
    made.drain()
    made.beat()
    assert [message.draining for message in farm.heard] == [True, True]


@pytest.mark.parametrize("kind", [errors.Unauthenticated, errors.InvalidRequest])
def test_a_refused_beat_does_not_end_the_thread(
    kind: type[errors.FarmError], wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    class Refusing(Farm):
        def beat(self, message: NodeBeat) -> NodeBeatReply:
            self.heard.append(message)
            raise kind("No.")

    farm = Refusing()
    made = beats(farm, [])
    made.start()
    wait_until(lambda: len(farm.heard) >= 3)
    made.stop()
    assert len(farm.heard) >= 3, "a refusal ended the thread"
