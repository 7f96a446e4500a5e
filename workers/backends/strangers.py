"""Operators of plugins that stand in ONNX's own domain, where an exporter has put them.

ONNX's checker refuses what its domain does not have, and lets the operators of others be.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

DOMAIN = "enginefarm.plugins"
_OWN = ("", "ai.onnx")


@contextmanager
def set_apart(path: Path) -> Iterator[Path]:
    """Give a copy of a model, beside it, in which such operators have a domain of their own.

    Without any, or where the file is no model, it is the model itself.
    """
    try:
        model = onnx.load(str(path), load_external_data=False)
    except DecodeError:
        yield path
        return
    if not _moved(model):
        yield path
        return
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".onnx") as copy:
        copy.write(model.SerializeToString())
        copy.flush()
        yield Path(copy.name)


def _moved(model: onnx.ModelProto) -> bool:
    """Move them, wherever they stand; tell whether there was any."""
    known = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain in _OWN}
    known |= {row.name for row in model.functions if row.domain in _OWN}
    places = [(model.opset_import, model.graph.node)]
    places += [(row.opset_import, row.node) for row in model.functions]
    moved = False
    for opsets, nodes in places:
        strangers = [
            node for node in _every(nodes) if node.domain in _OWN and node.op_type not in known
        ]
        for node in strangers:
            node.domain = DOMAIN
        if strangers:
            opsets.append(onnx.helper.make_opsetid(DOMAIN, 1))
            moved = True
    return moved


def _every(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Give nodes, and those of the graphs within them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _every(graph.node)
