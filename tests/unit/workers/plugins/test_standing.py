"""A node says anew what it is whenever a plugin is gone or a device fails, and forgets neither."""

from __future__ import annotations

import queue

from enginefarm.state import Stage
from tasks.messages import BackendDescription, Device, NodeDescription, PluginDescription
from workers.plugins.losing import Losses
from workers.standing import Standing

ONE, OTHER = (f"sha256:{letter * 64}" for letter in "ab")
PLUGINS = [
    PluginDescription(name="a.so", digest=ONE),
    PluginDescription(name="b.so", digest=OTHER, operators=["Scale"]),
]
NODE = NodeDescription(
    hostname="h",
    cpu="c",
    cores=2,
    memory_bytes=1,
    devices=[Device(arch="sm_89", name="NVIDIA L4", uuid="GPU-1")],
    backends=[
        BackendDescription(
            name=name, version="1", builds=["sm_89"], measures=["sm_89"], plugins=PLUGINS
        )
        for name in ("onnxruntime", "tensorrt")
    ],
    stages=[Stage.COMPILE],
    slots=1,
    reads_refined_targets=True,
    farm_version="1",
)


def told(node: NodeDescription) -> dict[str, list[str]]:
    return {row.name: [each.name for each in row.plugins] for row in node.backends}


def test_a_plugin_that_is_gone_is_announced_no_more_for_its_backend_alone() -> None:
    said: list[NodeDescription] = []
    standing = Standing(NODE, said.append)
    standing.plugin_gone("tensorrt", ONE)
    assert told(said[-1]) == {"onnxruntime": ["a.so", "b.so"], "tensorrt": ["b.so"]}


def test_what_is_gone_stays_gone_when_a_device_fails_and_is_well_again() -> None:
    said: list[NodeDescription] = []
    standing = Standing(NODE, said.append)
    standing.devices_out({"GPU-1": "Xid 79"})
    standing.plugin_gone("tensorrt", ONE)
    standing.devices_out({})
    assert [row.devices[0].fault for row in said] == ["Xid 79", "Xid 79", None]
    assert told(said[-1])["tensorrt"] == ["b.so"]


def test_the_process_of_a_job_tells_the_nodes_own() -> None:
    heard: queue.Queue[tuple[str, str]] = queue.Queue()
    losses = Losses(lambda backend, digest: heard.put((backend, digest)))
    losses.start()
    losses.tell("tensorrt", ONE)
    losses.tell("x" * 600, ONE)  # no backend is called so: what no pipe takes whole is not told
    losses.tell("onnxruntime", OTHER)
    assert heard.get(timeout=60) == ("tensorrt", ONE)
    assert heard.get(timeout=60) == ("onnxruntime", OTHER)
