"""What ONNX itself says of its operators: inputs, outputs, attributes and types, by opset.

The rows are in ``onnx_schemas.txt``, which ``python -m bench.onnx_schemas`` writes from the package
``onnx``; its first lines say how they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("onnx_schemas.txt")


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input or output: ``type`` is a type, or the name of the variable that stands for one."""

    type: str
    optional: bool = False
    any_number: bool = False
    alike: bool = True


@dataclass(frozen=True, slots=True)
class Parameters:
    """The inputs or outputs of an operator, and how many of them a node may name."""

    least: int
    most: int
    rows: tuple[Parameter, ...]

    def at(self, number: int) -> Parameter | None:
        """Return what stands at a place, if anything may."""
        if number < len(self.rows):
            return self.rows[number]
        last = self.rows[-1] if self.rows else None
        return last if last is not None and last.any_number else None


@dataclass(frozen=True, slots=True)
class AttributeForm:
    """The kind of an attribute's value, such as ``int`` or ``floats``."""

    kind: str
    required: bool


@dataclass(frozen=True, slots=True)
class Schema:
    """One version of an operator; ``types`` has by variable the types that it may stand for."""

    since: int
    gone: bool
    inputs: Parameters
    outputs: Parameters
    attributes: Mapping[str, AttributeForm]
    types: Mapping[str, frozenset[str]]
    any_attribute: bool = False
    """Whether it may have attributes that the schema does not name."""


@dataclass(frozen=True, slots=True)
class Table:
    """Every version of every operator, the oldest first; up to which opset and IR version."""

    newest_opset: int
    newest_ir: int
    operators: Mapping[str, tuple[Schema, ...]]


@cache
def table() -> Table:
    """Return the table, which is read once."""
    sets: dict[str, frozenset[str]] = {}
    found: dict[str, list[Schema]] = {}
    newest = ["0", "0"]
    for line in TABLE.read_text("utf-8").splitlines():
        if line.startswith("newest"):
            newest = line.split()[1::2]
        elif line.startswith("{"):
            number, _, types = line.partition(" = ")
            sets[number] = frozenset(types.split())
        elif line and not line.startswith("#"):
            name, schema = _schema(line, sets)
            found.setdefault(name, []).append(schema)
    return Table(
        int(newest[0]), int(newest[1]), {name: tuple(rows) for name, rows in found.items()}
    )


def schema_of(op: str, opset: int) -> Schema | None:
    """Return an operator of ONNX's own domain as an opset has it; None if it has none yet."""
    rows = table().operators.get(op, ())
    return next((row for row in reversed(rows) if row.since <= opset), None)


def _schema(line: str, sets: Mapping[str, frozenset[str]]) -> tuple[str, Schema]:
    head, inputs, outputs, attributes, variables = (part.split() for part in line.split("|"))
    name, since = head
    return name.removeprefix("-"), Schema(
        since=int(since),
        gone=name.startswith("-"),
        inputs=_parameters(inputs),
        outputs=_parameters(outputs),
        attributes=dict(_attribute(word) for word in attributes if word != "*"),
        types={name: sets[number] for name, _, number in (row.partition("=") for row in variables)},
        any_attribute="*" in attributes,
    )


def _parameters(words: list[str]) -> Parameters:
    least, _, most = words[0].partition("..")
    return Parameters(int(least), int(most), tuple(map(_parameter, words[1:])))


def _parameter(word: str) -> Parameter:
    kind = word.rstrip("?*~")
    return Parameter(kind, word.endswith("?"), word.endswith(("*", "~")), not word.endswith("~"))


def _attribute(word: str) -> tuple[str, AttributeForm]:
    name, _, kind = word.partition(":")
    return name, AttributeForm(kind.removesuffix("!"), kind.endswith("!"))


OPERATORS = frozenset(table().operators)
NEWEST_OPSET = table().newest_opset
"""Of later operator sets nobody here knows what they have."""
