"""Look at a model's weights: what is in them that a compiler or a cast to half precision minds.

numpy belongs to an optional extra of the client, so it is imported late; weights are mapped and
read in pieces, never held. External data is read only from plain files beside the model.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from enginefarm.preflight.facts import ModelFacts, TensorFacts

_PIECE = 8 << 20
_TWICE_FROM = 1 << 20
"""Smaller tensors that are there twice are not worth a word."""
_TURNED_UP_TO = 256 << 20
_MOST_HALF = 65504.0
_LEAST_HALF = 2.0**-24
_NUMPY = {"float32": "<f4", "float64": "<f8", "float16": "<f2"}
_LEAST_NORMAL = {"float32": 2.0**-126, "float64": 2.0**-1022, "float16": 2.0**-14}


@dataclass(frozen=True)
class TensorSeen:
    """What was counted in one weight. ``largest`` is of what is finite."""

    name: str
    dtype: str
    elements: int
    nan: int = 0
    infinite: int = 0
    denormal: int = 0
    beyond_half: int = 0
    below_half: int = 0
    largest: float = 0.0


@dataclass(frozen=True)
class WeightsSeen:
    """What was counted in all weights; ``unread`` could not be looked at.

    ``twice`` has the names of weights with the same bytes, or with each other's transposed, and how
    many bytes one of them takes.
    """

    tensors: tuple[TensorSeen, ...] = ()
    twice: tuple[tuple[str, str, int], ...] = ()
    unread: tuple[str, ...] = ()


@dataclass
class _Digests:
    """Which large weights have the same bytes."""

    known: dict[tuple[tuple[int, ...], str], str] = field(default_factory=dict)
    twice: list[tuple[str, str, int]] = field(default_factory=list)

    def add(self, tensor: TensorFacts, array: Any) -> None:  # noqa: ANN401 - numpy is optional here
        if tensor.size_bytes < _TWICE_FROM:
            return
        key = (tensor.shape, _digest(array))
        turned = tensor.shape[::-1]
        other = self.known.get(key)
        flat = len(tensor.shape) == 2 and tensor.size_bytes <= _TURNED_UP_TO  # noqa: PLR2004
        if other is None and flat and any(shape == turned for shape, _ in self.known):
            transposed = array.reshape(tensor.shape).T.copy().reshape(-1)
            other = self.known.get((turned, _digest(transposed)))
        if other is None:
            self.known[key] = tensor.name
        else:
            self.twice.append((other, tensor.name, tensor.size_bytes))


def _digest(array: Any) -> str:  # noqa: ANN401 - as above
    return hashlib.sha256(memoryview(array).cast("B")).hexdigest()


def look_at_weights(path: Path, facts: ModelFacts) -> WeightsSeen | None:
    """Count what is in the weights of a model; None where numpy is not installed."""
    try:
        import numpy as np
    except ImportError:
        return None
    tensors: list[TensorSeen] = []
    unread: list[str] = []
    digests = _Digests()
    with ExitStack() as open_files:
        maps: dict[str, mmap.mmap | None] = {}
        for tensor in facts.weights():
            kind = _NUMPY.get(tensor.dtype)
            if kind is None or tensor.elements == 0:
                continue
            array = _array(np, open_files, maps, path, tensor, kind)
            if array is None:
                unread.append(tensor.name)
                continue
            tensors.append(_count(np, tensor, array))
            digests.add(tensor, array)
            del array  # it holds the map open
    return WeightsSeen(tuple(tensors), tuple(digests.twice), tuple(unread))


def _array(
    np: ModuleType,
    open_files: ExitStack,
    maps: dict[str, mmap.mmap | None],
    path: Path,
    tensor: TensorFacts,
    kind: str,
) -> Any:  # noqa: ANN401 - as above
    """Return a weight's values, mapped where they are large; None if they cannot be had."""
    if tensor.values is not None:
        return np.array(tensor.values, dtype=kind).reshape(-1)
    where = tensor.external
    name, at = (path.name, tensor.at) if where is None else (where.location, None)
    if where is not None:
        at = (where.offset, tensor.size_bytes)
    if at is None or Path(name).name != name or at[1] < tensor.size_bytes:
        return None
    if name not in maps:
        maps[name] = _mapped(open_files, path.parent / name)
    data = maps[name]
    if data is None or at[0] + tensor.size_bytes > len(data):
        return None
    return np.frombuffer(data, dtype=kind, count=tensor.elements, offset=at[0])


def _mapped(open_files: ExitStack, file: Path) -> mmap.mmap | None:
    if file.is_symlink() or not file.is_file() or file.stat().st_size == 0:
        return None
    stream = open_files.enter_context(file.open("rb"))
    # Not closed here: an array may still look into it; it goes with the last of them.
    return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


def _count(np: ModuleType, tensor: TensorFacts, array: Any) -> TensorSeen:  # noqa: ANN401 - as above
    counts = dict.fromkeys(("nan", "infinite", "denormal", "beyond_half", "below_half"), 0)
    largest = 0.0
    for piece in _pieces(array):
        with np.errstate(invalid="ignore"):  # a NaN may be a signalling one
            size = np.abs(piece.astype(np.float64))
        finite = np.isfinite(size)
        nan = np.isnan(size)
        counts["nan"] += int(nan.sum())
        counts["infinite"] += int(size.size - finite.sum() - nan.sum())
        size = size[finite]
        some = size > 0
        counts["denormal"] += int((some & (size < _LEAST_NORMAL[tensor.dtype])).sum())
        counts["beyond_half"] += int((size > _MOST_HALF).sum())
        counts["below_half"] += int((some & (size < _LEAST_HALF)).sum())
        largest = max(largest, float(size.max(initial=0.0)))
    return TensorSeen(tensor.name, tensor.dtype, tensor.elements, **counts, largest=largest)


def _pieces(array: Any) -> Iterator[Any]:  # noqa: ANN401 - as above
    for start in range(0, array.size, _PIECE // 8):
        yield array[start : start + _PIECE // 8]
