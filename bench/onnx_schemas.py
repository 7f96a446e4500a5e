"""Write the table of ONNX's own operators from the installed package ``onnx``.

    python -m bench.onnx_schemas

The table is ``client/src/enginefarm/preflight/tables/onnx_schemas.txt``: the rules read it where
there is no such package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import onnx
from onnx.defs import OpSchema

from enginefarm.onnx_types import dtype_name
from enginefarm.preflight.tables.onnx_schemas import TABLE

_ABOUT = """\
# ONNX's own operators, every version of each. Written by: python -m bench.onnx_schemas
#
# {number} = types           a set of types
# name since | inputs | outputs | attributes | variables
#
# An input is a type or the variable that stands for one: ? it may be left out, * any number of it
# from the one that is given, all of one type, or ~ of any. An attribute is name:kind, with ! if it
# must be given; * stands for any more. A variable is name={number}. A line that begins with - is
# an operator that is gone.
"""


def table() -> str:
    """Return the whole table as it should be."""
    schemas = sorted(
        (row for row in onnx.defs.get_all_schemas_with_history() if not row.domain),
        key=lambda row: (row.name, row.since_version),
    )
    sets: dict[str, int] = {}
    rows = [_row(schema, sets) for schema in schemas]
    newest = onnx.defs.onnx_opset_version()
    head = [f"newest {newest} ir {int(onnx.IR_VERSION)}"]
    return "\n".join([_ABOUT + head[0], *(f"{{{n}}} = {s}" for s, n in sets.items()), *rows, ""])


def _row(schema: OpSchema, sets: dict[str, int]) -> str:
    variables = [
        f"{row.type_param_str}={{{sets.setdefault(_types(row.allowed_type_strs), len(sets))}}}"
        for row in schema.type_constraints
    ]
    columns = (
        _parameters(schema.inputs, schema.min_input, schema.max_input),
        _parameters(schema.outputs, schema.min_output, schema.max_output),
        [*map(_attribute, _sorted(schema)), *(["*"] if _takes_any(schema) else [])],
        variables,
    )
    gone = "-" * schema.deprecated
    words = (" ".join(each) for each in columns)
    return f"{gone}{schema.name} {schema.since_version} | " + " | ".join(words)


def _parameters(rows: Sequence[OpSchema.FormalParameter], least: int, most: int) -> list[str]:
    return [f"{least}..{min(most, 9999)}", *map(_parameter, rows)]


def _parameter(row: OpSchema.FormalParameter) -> str:
    option = OpSchema.FormalParameterOption
    if row.option == option.Variadic:
        return f"{type_name(row.type_str)}{'*' if row.is_homogeneous else '~'}"
    return f"{type_name(row.type_str)}{'?' * (row.option == option.Optional)}"


def _attribute(row: OpSchema.Attribute) -> str:
    return f"{row.name}:{kind_of(row)}{'!' * row.required}"


def _sorted(schema: OpSchema) -> list[OpSchema.Attribute]:
    return [row for _, row in sorted(schema.attributes.items())]


def _takes_any(schema: OpSchema) -> bool:
    """Ask the checker whether an operator may have attributes that its schema does not name."""
    inputs = [f"i{number}" for number in range(schema.min_input)]
    outputs = [f"o{number}" for number in range(max(schema.min_output, 1))]
    context = onnx.checker.C.CheckerContext()
    context.ir_version = int(onnx.IR_VERSION)
    context.opset_imports = {"": schema.since_version}
    try:
        onnx.checker.check_node(onnx.helper.make_node(schema.name, inputs, outputs, odd=1), context)
    except onnx.checker.ValidationError:
        return False
    return True


def kind_of(row: OpSchema.Attribute) -> str:
    """Return what kind of value an attribute has, such as ``floats``."""
    return str(row.type).rpartition(".")[2].lower()


def _types(allowed: Iterable[str]) -> str:
    return " ".join(sorted(map(type_name, allowed)))


def type_name(said: str) -> str:
    """Return a type by the farm's name of it: ``float32`` for ``tensor(float)``."""
    return _NAMES.get(said, said.replace(" ", ""))


def _names() -> Iterator[tuple[str, str]]:
    for name, number in onnx.TensorProto.DataType.items():
        spelt = name.lower()
        yield f"tensor({spelt})", dtype_name(number)


_NAMES = dict(_names())


if __name__ == "__main__":
    Path(TABLE).write_text(table(), "utf-8")
