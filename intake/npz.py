"""Read the arrays of an ``.npz`` file piece by piece: within limits, and never a pickle.

NumPy's own reader takes whole arrays and evaluates their headers; here a header is matched, and
what is not the plain layout that ``numpy.savez`` writes is refused. Limits are checked before
anything is unpacked.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, BinaryIO

import numpy as np

from enginefarm.calibration_cache import HEAD_BYTES, refuse_calibration_cache
from enginefarm.errors import InvalidDataset, TooLarge
from enginefarm.tensor import StoredArray

MAX_ARRAYS = 256
MAX_RANK = 32
MAX_NAME = 255
_MAX_DIRECTORY_BYTES = 4 << 20
_MAX_HEADER_BYTES = 64 << 10
_PIECE = 4 << 20
_ENCRYPTED = 0x1
_NPY = b"\x93NUMPY"
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_LENGTH = {1: "<H", 2: "<I", 3: "<I"}
_HEADER = re.compile(
    r"\{\s*'descr':\s*(?P<descr>'[^']{1,16}'|\[.*\]|\(.*\)),\s*"
    r"'fortran_order':\s*(?P<fortran>True|False),\s*"
    r"'shape':\s*\((?P<shape>[0-9L, ]*)\),?\s*\}\s*",
    re.DOTALL,
)
_PLAIN = re.compile(r"'(?P<order>[<>|=])(?P<kind>[fiubU])(?P<size>[0-9]{1,9})'")
_DIMENSION = re.compile(r"[0-9]{1,19}L?")
_OBJECT = re.compile(r"'[|<>=]?O[0-9]*'")
_SIZES = {"f": {2, 4, 8}, "i": {1, 2, 4, 8}, "u": {1, 2, 4, 8}, "b": {1}}
_STEP = re.compile(r"(?:^|/)\.\.?(?:/|$)|^/|\\|[\x00-\x1f\x7f]|^$")
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError, ValueError)


@dataclass(frozen=True)
class Array:
    """An array of the file: what its header says, and where it is packed."""

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    fortran: bool
    member: zipfile.ZipInfo

    @property
    def bytes(self) -> int:
        """How many bytes its values have."""
        return math.prod(self.shape) * self.dtype.itemsize

    def view(self, ends: tuple[float, float] | None = None) -> StoredArray:
        """Return it in the words of a model's inputs, with its least and largest value."""
        dtype = "string" if self.dtype.kind == "U" else str(self.dtype)
        low, high = ends or (None, None)
        shape = list[int | str | None](self.shape)
        return StoredArray(name=self.name, dtype=dtype, shape=shape, low=low, high=high)

    def index(self, flat: int) -> list[int]:
        """Return the index of an element by its place in the file."""
        found = np.unravel_index(flat, self.shape, order="F" if self.fortran else "C")
        return [int(at) for at in found]


class NpzFile:
    """An open ``.npz`` file whose directory and headers have been checked."""

    def __init__(self, stream: BinaryIO, *, max_expanded_bytes: int) -> None:
        """Read the directory.

        Raises:
            InvalidDataset: it is no ``.npz`` of plain arrays.
            TooLarge: its arrays are above the limit.
        """
        try:
            self._archive = zipfile.ZipFile(_Guarded(stream))
        except _BROKEN as error:
            raise not_npz(f"it is no ZIP archive ({error})") from error
        members = self._archive.infolist()
        expanded = sum(member.file_size for member in members)
        if expanded > max_expanded_bytes:
            raise too_large("An unpacked dataset", expanded, max_expanded_bytes)
        _require_names(members)
        self.arrays = [self._array(member) for member in members]

    def pieces(self, array: Array) -> Iterator[np.ndarray]:
        """Give the values of an array in pieces, flat and in the order of the file.

        Raises:
            InvalidDataset: the values are damaged, or there are too few or too many.
        """
        expected = array.bytes
        try:
            with self._archive.open(array.member) as stream:
                _read_header(stream)
                size = max(1, _PIECE // array.dtype.itemsize) * array.dtype.itemsize
                while piece := stream.read(min(size, expected)):
                    expected -= len(piece)
                    if len(piece) % array.dtype.itemsize:
                        break
                    yield np.frombuffer(piece, array.dtype)
                if expected or stream.read(1):
                    raise not_npz(f"array {array.name!r} is not as long as its shape says")
        except _BROKEN as error:
            raise not_npz(f"array {array.name!r} is damaged ({error})") from error

    def _array(self, member: zipfile.ZipInfo) -> Array:
        name = member.filename.removesuffix(".npy")
        if member.flag_bits & _ENCRYPTED or member.compress_type not in {
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
        }:
            raise not_npz(f"array {name!r} is encrypted or packed in an unusual way")
        try:
            with self._archive.open(member) as stream:
                header = _read_header(stream)
                begins = stream.tell()
        except _BROKEN as error:
            raise not_npz(f"array {name!r} is damaged ({error})") from error
        array = _described(name, header, member)
        if begins + array.bytes != member.file_size:
            raise not_npz(f"array {name!r} is not as long as its shape says")
        return array


class _MisplacedError(zipfile.BadZipFile, OSError):
    """A place before the file; ``zipfile`` expects the second kind where it looks for one."""


class _Guarded(io.BufferedIOBase):
    """A file from which a directory of any size is not read at once."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.tell = stream.tell  # type: ignore[method-assign]

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        try:
            return self._stream.seek(offset, whence)
        except (OSError, OverflowError) as error:
            message = "it names a place that is not in it"
            raise _MisplacedError(message) from error

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = _MAX_DIRECTORY_BYTES + 1 if size is None or size < 0 else size
        if wanted > _MAX_DIRECTORY_BYTES + 1:
            message = "its directory is too large"
            raise zipfile.BadZipFile(message)
        return self._stream.read(wanted)


def open_npz(stream: BinaryIO, *, max_bytes: int, max_expanded_bytes: int) -> NpzFile:
    """Read the directory of an open file; it stays the caller's.

    Raises:
        InvalidDataset: it is no ``.npz`` of plain arrays.
        TooLarge: it is above the limits.
    """
    size = stream.seek(0, io.SEEK_END)
    if size > max_bytes:
        raise too_large("A dataset", size, max_bytes)
    stream.seek(0)
    _refuse_other_kinds(stream.read(HEAD_BYTES))
    stream.seek(0)
    return NpzFile(stream, max_expanded_bytes=max_expanded_bytes)


def _refuse_other_kinds(head: bytes) -> None:
    if not head:
        raise not_npz("it has 0 bytes")
    if _PICKLE.match(head):
        raise pickled("The file is a Python pickle.")
    refuse_calibration_cache(head)
    if head.startswith(_NPY):
        raise not_npz("it is a single array (.npy), which has no name")


def _require_names(members: list[zipfile.ZipInfo]) -> None:
    if not 1 <= len(members) <= MAX_ARRAYS:
        raise InvalidDataset(
            f"The dataset has {len(members)} arrays.",
            code="dataset_empty" if not members else "dataset_not_npz",
            fix=f"Save 1 to {MAX_ARRAYS} arrays: numpy.savez(file, **{{input_name: array}}).",
        )
    names = [member.filename for member in members]
    for name in names:
        stem = name.removesuffix(".npy")
        if _STEP.search(stem) or stem == name or len(stem) > MAX_NAME or names.count(name) > 1:
            raise InvalidDataset(
                f"The dataset has a member called {name[:80]!r}.",
                code="dataset_name",
                why="A member is named by its array and .npy, once, and is no path.",
                fix="Save the arrays with numpy.savez under the names of the model's inputs.",
            )


def _read_header(stream: IO[bytes]) -> str:
    """Read the header of a ``.npy`` and return it as text."""
    magic = stream.read(len(_NPY) + 2)
    if magic[: len(_NPY)] != _NPY or len(magic) < len(_NPY) + 2 or magic[-2] not in _LENGTH:
        message = "it does not begin as an array does"
        raise ValueError(message)
    layout = _LENGTH[magic[-2]]
    (length,) = struct.unpack(layout, stream.read(struct.calcsize(layout)))
    if length > _MAX_HEADER_BYTES:
        message = f"its header has {length} bytes"
        raise ValueError(message)
    header = stream.read(length)
    if len(header) < length:
        raise EOFError
    return header.decode("latin-1")


def _described(name: str, header: str, member: zipfile.ZipInfo) -> Array:
    match = _HEADER.fullmatch(header)
    if match is None:
        raise not_npz(f"the header of array {name!r} cannot be read")
    if _OBJECT.fullmatch(match["descr"]):
        raise pickled(f"Array {name[:80]!r} holds Python objects.", array=name[:80])
    plain = _PLAIN.fullmatch(match["descr"])
    if plain is None or not _is_taken(plain["order"], plain["kind"], int(plain["size"])):
        raise InvalidDataset(
            f"Array {name[:80]!r} has the type {match['descr'][:40]}.",
            code="dataset_dtype",
            why="Taken are little-endian floats, whole numbers, booleans and text.",
            fix="Convert it: array.astype('float32'), for example.",
            array=name[:80],
        )
    words = [word for word in map(str.strip, match["shape"].split(",")) if word]
    if len(words) > MAX_RANK or not all(map(_DIMENSION.fullmatch, words)):
        raise not_npz(f"the shape of array {name!r} is unusual")
    dtype = np.dtype(match["descr"].strip("'"))
    shape = tuple(int(word.rstrip("L")) for word in words)
    return Array(name, dtype, shape, match["fortran"] == "True", member)


def _is_taken(order: str, kind: str, size: int) -> bool:
    if order == ">" and (size > 1 or kind == "U"):
        return False
    return 1 <= size <= _MAX_HEADER_BYTES if kind == "U" else size in _SIZES[kind]


def not_npz(why: str) -> InvalidDataset:
    """Return the refusal of a file that is no ``.npz`` of whole arrays."""
    return InvalidDataset(
        "The file is not an .npz of arrays.",
        code="dataset_not_npz",
        why=f"{why[:1].upper()}{why[1:200]}.",
        fix="Save it with numpy.savez(file, **{input_name: array}) and compare its size after "
        "copying.",
    )


def pickled(message: str, **context: str) -> InvalidDataset:
    """Return the refusal of objects."""
    return InvalidDataset(
        message,
        code="dataset_pickled",
        why="Reading them runs whatever is in them, so the farm never does.",
        fix="Save plain arrays: numpy.savez(file, **{name: numpy.stack(rows)}); ragged rows must "
        "be padded to one shape first.",
        **context,
    )


def too_large(what: str, size: int, limit: int) -> TooLarge:
    """Return the refusal of what is above a limit."""
    return TooLarge(
        f"{what} of {size} bytes is above the limit of {limit}.",
        fix="Send fewer samples; a few hundred are enough to compare outputs.",
        limit_bytes=limit,
    )
