"""What fixing inputs does to a model's interface, and whether it can be done. Pure.

The farm asks before a build is accepted, the node before it rewrites: the answer is the same.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence

from enginefarm.errors import InvalidRequest
from enginefarm.nearest import did_you_mean
from enginefarm.profile_text import shape_text
from enginefarm.spec import FixedInput
from enginefarm.views import TensorView

MOST_ELEMENTS = 2**24
"""An input of more elements is not fixed to a value: the model's file would hold all of them."""
_WHOLE = re.compile(r"(?P<unsigned>u?)int(?P<bits>\d+)")
_FLOATING = ("float", "bfloat", "double", "half")
_PACKED = {"float": "<f", "float32": "<f", "float16": "<e", "half": "<e"}
"""How the standard library writes a type; it refuses what would become infinite."""
_LARGEST = {
    "bfloat16": float.fromhex("0x1.fep127"),
    "float8e4m3fn": 448.0,
    "float8e4m3fnuz": 240.0,
    "float8e5m2": 57344.0,
    "float8e5m2fnuz": 57344.0,
    "float4e2m1": 6.0,
}
"""The largest finite number of the types that it does not know."""


def with_fixed(inputs: Sequence[TensorView], fixed: Mapping[str, FixedInput]) -> list[TensorView]:
    """Return the inputs that are left, with the shapes that they then have.

    Raises:
        InvalidRequest: ``unknown_input``, ``fix_shape``, ``fix_value``.
    """
    known = {row.name: row for row in inputs}
    for name, wanted in fixed.items():
        if name not in known:
            raise InvalidRequest(
                f"The model has no input {name[:80]!r} that could be fixed.",
                code="unknown_input",
                fix=did_you_mean(name, known) if known else "The model has no inputs.",
            )
        _require_shape(known[name], wanted)
        _require_size(known[name], wanted)
        _require_value(known[name], wanted)
    return [
        row if row.name not in fixed else _with_shape(row, fixed[row.name])
        for row in inputs
        if row.name not in fixed or fixed[row.name].value is None
    ]


def require_outputs(outputs: Sequence[TensorView], kept: Sequence[str]) -> None:
    """Refuse to keep an output that is not there.

    Raises:
        InvalidRequest: ``unknown_output``.
    """
    known = [row.name for row in outputs]
    for name in kept:
        if name not in known:
            raise InvalidRequest(
                f"The model has no output {name[:80]!r} that could be kept.",
                code="unknown_output",
                fix=did_you_mean(name, known),
            )


def shape_of(row: TensorView, wanted: FixedInput) -> list[int]:
    """Return the shape of an input that is fixed to a value."""
    if wanted.shape is not None:
        return list(wanted.shape)
    return [dim for dim in row.shape if isinstance(dim, int)]


def _with_shape(row: TensorView, wanted: FixedInput) -> TensorView:
    return row.model_copy(update={"shape": shape_of(row, wanted)})


def _require_shape(row: TensorView, wanted: FixedInput) -> None:
    dynamic = [dim for dim in row.shape if not isinstance(dim, int)]
    if wanted.shape is None:
        if dynamic:
            raise InvalidRequest(
                f"The input {row.name!r} cannot be fixed to a value alone.",
                code="fix_shape",
                why=f"The model declares it as {shape_text(row.shape)}: how many values is open.",
                fix="Give its shape together with the value (fix_inputs: value and shape).",
            )
        return
    same = len(wanted.shape) == len(row.shape) and all(
        not isinstance(dim, int) or dim == asked
        for dim, asked in zip(row.shape, wanted.shape, strict=True)
    )
    if not same:
        raise InvalidRequest(
            f"The input {row.name!r} cannot be fixed to the shape {shape_text(wanted.shape)}.",
            code="fix_shape",
            why=f"The model declares it as {shape_text(row.shape)}.",
            fix="Give one number for each dimension, and the model's own where it has one.",
        )


def _require_size(row: TensorView, wanted: FixedInput) -> None:
    shape = shape_of(row, wanted)
    if wanted.value is not None and math.prod(shape) > MOST_ELEMENTS:
        raise InvalidRequest(
            f"The input {row.name!r} is too large to be fixed to a value.",
            code="fix_shape",
            why=f"{shape_text(shape)} are {math.prod(shape):,} elements; {MOST_ELEMENTS:,} may be.",
            fix="Fix it to a smaller shape, or leave it an input.",
        )


def _require_value(row: TensorView, wanted: FixedInput) -> None:
    if wanted.value is None or _holds(row.dtype, wanted.value):
        return
    raise InvalidRequest(
        f"The input {row.name!r} cannot be fixed to {str(wanted.value)[:80]}.",
        code="fix_value",
        why=f"The model declares it as {row.dtype}, which cannot hold that.",
        fix="Give a value of that type.",
    )


def _holds(dtype: str, value: float) -> bool:
    """Tell whether a tensor type holds a value: integers exactly, floats as a finite number."""
    if dtype == "bool":
        return isinstance(value, bool) or value in {0, 1}
    whole = _WHOLE.fullmatch(dtype)
    if whole is None:
        return dtype.startswith(_FLOATING) and _is_finite(dtype, value)
    bits = int(whole["bits"])
    low, high = (0, 1 << bits) if whole["unsigned"] else (-(1 << (bits - 1)), 1 << (bits - 1))
    return int(value) == value and low <= int(value) < high


def _is_finite(dtype: str, value: float) -> bool:
    """Tell whether a value is still finite when it is rounded to a floating point type."""
    try:
        number = float(value)
        if dtype in _PACKED:
            struct.pack(_PACKED[dtype], number)
    except OverflowError:
        return False
    return math.isfinite(number) and abs(number) <= _LARGEST.get(dtype, math.inf)
