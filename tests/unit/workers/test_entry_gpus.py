"""A node's process takes a GPU that is unwell out: for the farm, and for its own jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enginefarm.state import Stage
from tasks.messages import BackendDescription, Device, NodeDescription
from workers import asking, entry, probe
from workers.plugins.copying import Shelf
from workers.probe import Probe
from workers.settings import NodeSettings
from workers.standing import Standing

GPU = Device(arch="sm_90", name="H200", uuid="GPU-1")
NODE = NodeDescription(
    hostname="h",
    cpu="c",
    cores=1,
    memory_bytes=1,
    devices=[Device(arch="cpu", name="c"), GPU],
    backends=[
        BackendDescription(
            name="onnxruntime",
            version="1",
            builds=["cpu", "sm_90"],
            measures=["cpu", "sm_90"],
            on_device=["sm_90"],
        )
    ],
    stages=[],
    farm_version="0",
)


class Beats:
    """What the farm would be told."""

    def __init__(self) -> None:
        self.said: list[NodeDescription] = []

    def describe(self, description: NodeDescription) -> None:
        self.said.append(description)


@pytest.fixture
def settings(tmp_path: Path) -> NodeSettings:
    return NodeSettings.model_validate(
        {
            "url": "http://127.0.0.1:1",
            "broker_url": "redis://127.0.0.1:1",
            "enrolment_token": "t",
            "node_state_dir": tmp_path,
            "device_lock_dir": tmp_path / "locks",
            "share_devices": True,
            "device_wait_s": 7,
            "benchmark_times": 5,
        }
    )


def test_a_fault_reaches_the_farm_and_the_nodes_own_jobs_and_goes_again(
    settings: NodeSettings,
) -> None:
    beats: Any = Beats()
    nobody: Any = None
    care = entry._care_for(settings, NODE, Standing(NODE, beats.describe))

    care._tell({"GPU-1": "Xid 79"})

    (said,) = beats.said
    assert [row.fault for row in said.devices] == [None, "Xid 79"]
    assert said.backends[0].measures == ["cpu"]
    rules = entry._workshop(settings, NODE.devices, nobody, nobody, Shelf()).gpus
    assert rules.faults == {"GPU-1": "Xid 79"}
    assert (rules.share, rules.wait_s, rules.times) == (True, 7, 5)
    assert rules.lock_folder == settings.device_lock_dir
    care._tell({})
    assert beats.said[-1] == NODE
    assert entry._workshop(settings, NODE.devices, nobody, nobody, Shelf()).gpus.faults == {}


def test_a_fault_of_an_earlier_life_is_forgotten(settings: NodeSettings) -> None:
    beats: Any = Beats()
    entry._care_for(settings, NODE, Standing(NODE, beats.describe))._tell({"GPU-1": "Xid 79"})
    entry._care_for(settings, NODE, Standing(NODE, beats.describe))
    nobody: Any = None
    assert entry._workshop(settings, NODE.devices, nobody, nobody, Shelf()).gpus.faults == {}


@pytest.mark.parametrize(
    ("told", "means"),
    [
        (None, []),
        ("", ["none"]),
        ("-1", ["none"]),
        ("GPU-1,GPU-2", ["GPU-1", "GPU-2"]),
    ],
)
def test_what_cuda_is_told_holds_where_the_operator_says_nothing(
    monkeypatch: pytest.MonkeyPatch, settings: NodeSettings, told: str | None, means: list[str]
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if told is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", told)
    words = {"url": "u", "broker_url": "b", "enrolment_token": "t"}
    assert NodeSettings.model_validate(words).devices == means
    assert NodeSettings.model_validate(words | {"devices": "0, GPU-3"}).devices == ["0", "GPU-3"]


def test_what_the_command_says_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"URL": "u", "BROKER_URL": "b", "ENROLMENT_TOKEN": "t"}.items():
        monkeypatch.setenv(f"ENGINEFARM_{name}", value)
    monkeypatch.setenv("ENGINEFARM_DEVICES", "GPU-9")
    monkeypatch.setenv("ENGINEFARM_SLOTS", "9")
    command = "--name n --devices GPU-1 2 --stages compile benchmark --slots 3"

    told = entry.read_settings(command.split())

    assert (told.node_name, told.devices, told.slots) == ("n", ["GPU-1", "2"], 3)
    assert told.stages == [Stage.COMPILE, Stage.BENCHMARK]
    untold = entry.read_settings([])
    assert (untold.devices, untold.slots) == (["GPU-9"], 9)


def test_a_node_probes_only_the_gpus_that_its_operator_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def ask(arguments: list[str], _seconds: float | None) -> str:
        asked.append(arguments)
        return Probe(
            hostname="h", cpu="c", cores=1, memory_bytes=1, devices=[], backends=[], absent={}
        ).model_dump_json()

    monkeypatch.setattr(asking, "ask_whole", ask)
    probe.probe_in_child(["GPU-1", "2"])
    probe.probe_in_child([])
    assert asked == [["--only", "GPU-1", "2"], []]
