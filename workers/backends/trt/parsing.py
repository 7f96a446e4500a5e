"""Ask the ONNX parser for all that it dislikes, as findings; and parse for a build."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from enginefarm.finding import Finding, at_nodes, error_finding
from workers.backends.trt.recording import Record, plain
from workers.diagnosis import Runtime, diagnose, shorten

_MEANINGLESS = {"", "false", "true", "0"}
_ASSERTED = re.compile(r'&& "(.+)"$', re.DOTALL)


class _Meaning(NamedTuple):
    says: str
    code: str


# The parser's own codes; the last is ours, for an operator that it knows but not in this use.
_MEANINGS = (
    _Meaning("UNSUPPORTED_NODE", "unsupported_operator"),
    _Meaning("INVALID_NODE", "unsupported_operator"),
    _Meaning("UNSUPPORTED_NODE_ATTR", "unsupported_attribute"),
    _Meaning("UNSUPPORTED_NODE_INPUT", "unsupported_operator_input"),
    _Meaning("UNSUPPORTED_NODE_DATATYPE", "unsupported_data_type"),
    _Meaning("UNSUPPORTED_NODE_DYNAMIC", "data_dependent_shape"),
    _Meaning("UNSUPPORTED_NODE_SHAPE", "shape_mismatch"),
    _Meaning("UNSUPPORTED_GRAPH", "unsupported_graph"),
    _Meaning("INVALID_GRAPH", "invalid_graph"),
    _Meaning("MODEL_DESERIALIZE_FAILED", "not_a_model"),
    _Meaning("KNOWN_OPERATOR", "unsupported_operator_use"),
)
_CODES = {meaning.says: meaning.code for meaning in _MEANINGS}
_FIX = "Export without it, rewrite it with standard operators, or choose another backend."


@dataclass
class _Complaint:
    code: str
    operator: str
    text: str
    nodes: list[str] = field(default_factory=list)


def make_network(trt: ModuleType, builder: Any) -> Any:  # noqa: ANN401 - the runtime's classes
    """Return an empty, strongly typed network: types are what the model says."""
    return builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))


def supported(parser: Any, path: Path) -> bool:  # noqa: ANN401 - the runtime's class
    """Tell whether the parser takes the model whole; all its errors are then in the parser."""
    return bool(parser.supports_model_v2(path.read_bytes(), str(path)))


def complaints(parser: Any, label: str, record: Record) -> list[Finding]:  # noqa: ANN401 - the runtime's class
    """Return the parser's errors as findings: one for each kind, with the nodes it concerns."""
    kinds: dict[tuple[str, str, str], _Complaint] = {}
    for index in range(parser.num_errors):
        error = parser.get_error(index)
        code = str(error.code()).rpartition(".")[2]
        key = (code, error.node_operator(), plain(record.heard(error.desc())))
        kind = kinds.setdefault(key, _Complaint(*key))
        if error.node() >= 0:
            kind.nodes.append(error.node_name() or f"#{error.node()}")
    return [
        _finding(kind, label, known=bool(parser.supports_operator(kind.operator)))
        for kind in kinds.values()
    ]


def _finding(kind: _Complaint, label: str, *, known: bool) -> Finding:
    text = _words(kind.text)
    told = text not in _MEANINGLESS
    row = diagnose(text, Runtime.TENSORRT) if told else None
    code = row.code if row else _CODES.get(kind.code, "parser_refused")
    if code == "unsupported_operator" and known:
        code = _CODES["KNOWN_OPERATOR"]
    if code == "unsupported_operator" and kind.operator:
        message = f"{label} has no operator {kind.operator}."
    elif kind.operator:
        message = f"{label} cannot take operator {kind.operator} as it is used here."
    else:
        message = f"{label} cannot read the model."
    if told and not (code == "unsupported_operator" and kind.operator):
        message += f" It says: {shorten(text, 300)}"
    found = error_finding(code, message, fix=row.fix if row else _FIX)
    return at_nodes(found, kind.nodes, kind.operator)


def _words(text: str) -> str:
    """Return what an assertion was to say: ``condition && "words"``."""
    found = _ASSERTED.search(text)
    return found[1] if found else text
