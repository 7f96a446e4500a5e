"""Read the types, shapes and tensors of ``onnx.proto`` off the wire. No weight is read.

Field numbers are those of the ONNX IR. A field that may be given once and is given twice is
refused: readers disagree on what it then means, and the farm must see what they see.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from enginefarm.onnx_refusals import bad_external, invalid_graph, too_complex
from enginefarm.protobuf_wire import BYTES, VARINT, Field, Wire, WireError, low32, signed
from enginefarm.tensor import TensorView

# By their number in TensorProto.DataType; with the bits that one element takes.
_DTYPES = (
    ("undefined", 0),
    ("float32", 32),
    ("uint8", 8),
    ("int8", 8),
    ("uint16", 16),
    ("int16", 16),
    ("int32", 32),
    ("int64", 64),
    ("string", 0),
    ("bool", 8),
    ("float16", 16),
    ("float64", 64),
    ("uint32", 32),
    ("uint64", 64),
    ("complex64", 64),
    ("complex128", 128),
    ("bfloat16", 16),
    ("float8e4m3fn", 8),
    ("float8e4m3fnuz", 8),
    ("float8e5m2", 8),
    ("float8e5m2fnuz", 8),
    ("uint4", 4),
    ("int4", 4),
    ("float4e2m1", 4),
    ("float8e8m0", 8),
    ("uint2", 2),
    ("int2", 2),
    ("float6e2m3", 6),
    ("float6e3m2", 6),
)
_BITS = dict(_DTYPES)
MAX_NAME_BYTES = 4096
MAX_TEXT_BYTES = 64 << 20
MAX_RANK = 64
_MAX_DIM = (1 << 31) - 1
_MAX_TYPE_DEPTH = 8
_OFFSET = re.compile(r"[0-9]{1,18}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_EXTERNAL = 1


@dataclass(frozen=True, slots=True)
class ExternalRef:
    """Where the bytes of a tensor lie. ``length`` is None if the model does not say."""

    tensor: str
    location: str
    offset: int
    length: int | None
    needed: int = 0
    """How many bytes its shape and type need; 0 if they do not tell."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An initializer or constant: its name, how many bytes it has here, or where they lie.

    ``data`` has the fields of its values that stand in the file in one piece each.
    """

    name: str
    inline_bytes: int
    external: ExternalRef | None
    dtype: str = "undefined"
    dims: tuple[int, ...] = ()
    data: tuple[Field, ...] = ()


class TypeReader:
    """Reads names, types and tensors, within limits on the text that is kept."""

    def __init__(self, wire: Wire) -> None:
        """Read from ``wire``."""
        self.wire = wire
        self._text_left = MAX_TEXT_BYTES

    def once(
        self, field: Field, numbers: Collection[int], also: Collection[int] = ()
    ) -> Iterator[Field]:
        """Give the fields of a message; each of ``numbers`` may be in it once, and holds bytes."""
        seen = set[int]()
        for row in self.wire.fields(field.value, field.end, {*numbers, *also}):
            if row.number in numbers:
                require_bytes(row)
                if row.number in seen:
                    raise WireError(f"field {row.number} is given twice", row.value)
                seen.add(row.number)
            yield row

    def text(self, field: Field) -> str:
        """Return a name.

        Raises:
            InvalidModel: it is too long or not UTF-8 (code ``invalid_graph``), or there is too much
                text (code ``model_too_complex``).
        """
        require_bytes(field)
        length = field.end - field.value
        if length > MAX_NAME_BYTES:
            raise invalid_graph(f"A name in the graph has {length} bytes.", f"at {field.value}")
        self._text_left -= length
        if self._text_left < 0:
            raise too_complex("its names alone are above 64 MiB")
        try:
            return self.wire.slice(field).decode()
        except UnicodeDecodeError as error:
            raise invalid_graph(
                "A name in the graph is not UTF-8.", f"{self.wire.slice(field)[:60]!r}"
            ) from error

    def label(self, field: Field) -> str:
        """Return a name that people will see and databases keep."""
        name = self.text(field)
        if _CONTROL.search(name):
            raise invalid_graph("A name in the graph has control characters.", repr(name[:80]))
        return name

    def value(self, field: Field) -> TensorView:
        """Read a ``ValueInfoProto``."""
        name, dtype, shape = "", "undefined", list[int | str | None]()
        for row in self.once(field, _SECOND, _FIRST):
            if row.number == 1:
                name = self.label(row)
            elif row.number == 2:  # noqa: PLR2004 - ValueInfoProto.type
                dtype, shape = self._type(row, 0)
        if not name:
            raise invalid_graph("An input or output of the graph has no name.", "")
        return TensorView(name=name, dtype=dtype, shape=shape)

    def tensor(self, field: Field) -> Tensor:
        """Read a ``TensorProto`` but for its values."""
        name, inline, location, dtype = "", 0, 0, 0
        dims: list[int] = []
        pairs: list[Field] = []
        data: list[Field] = []
        for row in self.wire.fields(field.value, field.end, _TENSOR_FIELDS, runs=_TENSOR_NUMBERS):
            if row.number == 1:
                dims.extend(self._dims(row, len(dims)))
            elif row.number == 2:  # noqa: PLR2004 - TensorProto.data_type
                dtype = low32(require_varint(row))
            elif row.number == 8:  # noqa: PLR2004 - TensorProto.name
                name = self.text(row)
            elif row.number == 13:  # noqa: PLR2004 - TensorProto.external_data
                pairs.append(require_bytes(row))
            elif row.number == 14:  # noqa: PLR2004 - TensorProto.data_location
                location = low32(require_varint(row))
            elif row.kind == BYTES and row.number in _TENSOR_VALUES:
                inline += row.end - row.value
                data.append(row)
        external = None
        if location == _EXTERNAL:
            external = self._external(name, pairs, byte_size(dtype, dims))
        return Tensor(name, inline, external, dtype_name(dtype), tuple(dims), tuple(data))

    def _dims(self, row: Field, have: int) -> list[int]:
        found: list[int] = []
        for dim in self.wire.packed(row):
            if dim < 0:
                raise invalid_graph(f"A tensor has the dimension {dim}.", "")
            found.append(dim)
            if have + len(found) > MAX_RANK:
                raise invalid_graph(f"A tensor has more than {MAX_RANK} dimensions.", "")
        return found

    def _external(self, name: str, pairs: list[Field], needed: int) -> ExternalRef:
        words: dict[str, str] = {}
        for pair in pairs:
            key, value = self._pair(pair)
            if key in words:
                raise bad_external(name, f"{key!r} is given twice")
            words[key] = value
        numbers = {key: words.get(key, "") for key in ("offset", "length")}
        for key, value in numbers.items():
            if value and _OFFSET.fullmatch(value) is None:
                raise bad_external(name, f"its {key} is {value[:40]!r}")
        if not words.get("location"):
            raise bad_external(name, "it names no file")
        length = int(numbers["length"]) if numbers["length"] else None
        return ExternalRef(name, words["location"], int(numbers["offset"] or 0), length, needed)

    def _pair(self, pair: Field) -> tuple[str, str]:
        words = {1: "", 2: ""}
        for row in self.once(pair, _FIRST_TWO):
            words[row.number] = self.text(row)
        return words[1], words[2]

    def _type(self, field: Field, depth: int) -> tuple[str, list[int | str | None]]:
        """Read a ``TypeProto``: the type's name, and the shape if it is a tensor."""
        if depth > _MAX_TYPE_DEPTH:
            raise invalid_graph(f"A type is nested more than {_MAX_TYPE_DEPTH} deep.", "")
        found: tuple[str, list[int | str | None]] | None = None
        for row in self.wire.fields(field.value, field.end, _TYPES):
            if found is not None:
                raise WireError("a type is given twice", row.value)
            require_bytes(row)
            if row.number in {_TENSOR_TYPE, _SPARSE_TYPE}:
                found = self._tensor_type(row)
            else:
                found = self._container(_TYPES[row.number], row, depth), []
        return found or ("undefined", [])

    def _container(self, kind: str, field: Field, depth: int) -> str:
        inner: list[str] = []
        for row in self.wire.fields(field.value, field.end, _FIRST_TWO):
            if kind == "map" and row.number == 1:
                inner.append(dtype_name(low32(require_varint(row))))
            elif row.number == (2 if kind == "map" else 1):
                inner.append(self._type(require_bytes(row), depth + 1)[0])
        return f"{kind}({','.join(inner[:2])})"

    def _tensor_type(self, field: Field) -> tuple[str, list[int | str | None]]:
        dtype, shape = "undefined", list[int | str | None]()
        for row in self.once(field, _SECOND, _FIRST):
            if row.number == 1:
                dtype = dtype_name(low32(require_varint(row)))
            elif row.number == 2:  # noqa: PLR2004 - TypeProto.Tensor.shape
                shape = self._shape(row)
        return dtype, shape

    def _shape(self, field: Field) -> list[int | str | None]:
        shape: list[int | str | None] = []
        for row in self.wire.fields(field.value, field.end, _FIRST):
            shape.append(self._dim(require_bytes(row)))
            if len(shape) > MAX_RANK:
                raise invalid_graph(f"A tensor has more than {MAX_RANK} dimensions.", "")
        return shape

    def _dim(self, field: Field) -> int | str | None:
        """Return a number, a name, or None for a dimension that has neither.

        A negative number is what exporters write who mean "any".
        """
        found: int | str | None = None
        for row in self.wire.fields(field.value, field.end, _FIRST_TWO):
            if row.number == 1:
                size = signed(require_varint(row))
                found = size if size >= 0 else None
            elif row.number == 2:  # noqa: PLR2004 - Dimension.dim_param
                found = self.label(row) or None
        if isinstance(found, int) and found > _MAX_DIM:
            raise invalid_graph(f"A dimension of the graph is {found}.", "the most is 2147483647")
        return found


_TENSOR_TYPE, _SPARSE_TYPE = 1, 8
_TYPES = {_TENSOR_TYPE: "tensor", 4: "sequence", 5: "map", _SPARSE_TYPE: "sparse", 9: "optional"}
_FIRST, _SECOND, _FIRST_TWO = frozenset({1}), frozenset({2}), frozenset({1, 2})
# float_data, int32_data, int64_data, double_data, uint64_data; and raw_data
_TENSOR_NUMBERS = frozenset({4, 5, 7, 10, 11})
_TENSOR_VALUES = _TENSOR_NUMBERS | {9}
_TENSOR_FIELDS = _TENSOR_VALUES | {1, 2, 8, 13, 14}


def dtype_name(number: int) -> str:
    """Return the name of an element type."""
    return _DTYPES[number][0] if 0 <= number < len(_DTYPES) else f"type{number}"


def bits_of(dtype: str) -> int:
    """Return how many bits an element of a type takes; 0 if that is not fixed."""
    return _BITS.get(dtype, 0)


def byte_size(dtype: int, dims: list[int]) -> int:
    """Return how many bytes a tensor takes; 0 if its type does not tell."""
    bits = bits_of(dtype_name(dtype))
    return -(-math.prod(dims) * bits // 8)


def require_bytes(field: Field) -> Field:
    """Return a field that must hold bytes."""
    if field.kind != BYTES:
        raise WireError(f"field {field.number} is a number and should be bytes", field.end)
    return field


def require_varint(field: Field) -> int:
    """Return the value of a field that must be a whole number."""
    if field.kind != VARINT:
        raise WireError(f"field {field.number} should be a whole number", field.value)
    return field.value
