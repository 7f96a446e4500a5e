"""What a node says of itself while some of its GPUs are out. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.messages import BackendDescription, NodeDescription


def without(node: NodeDescription, faults: Mapping[str, str]) -> NodeDescription:
    """Return a node's description with each device's fault, and without what only those served.

    An architecture is measured, or built for on a device, while one device of it is well. ``node``
    is the description in which all are well; without faults it comes back as it is.
    """
    devices = [row.model_copy(update={"fault": faults.get(row.uuid or "")}) for row in node.devices]
    all_of = {row.arch for row in devices if row.uuid is not None}
    lost = all_of - {row.arch for row in devices if row.uuid is not None and row.fault is None}
    backends = [_without(row, lost) for row in node.backends]
    return node.model_copy(update={"devices": devices, "backends": backends})


def _without(backend: BackendDescription, lost: set[str]) -> BackendDescription:
    needing = lost & set(backend.on_device)
    return backend.model_copy(
        update={
            "builds": [arch for arch in backend.builds if arch not in needing],
            "measures": [arch for arch in backend.measures if arch not in lost],
        }
    )
