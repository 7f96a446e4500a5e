"""The flags of a trtexec command line that say which shapes an engine is built for."""

from __future__ import annotations

from enginefarm.errors import InvalidRequest

_SHAPES = {"minShapes": "min", "optShapes": "opt", "maxShapes": "max"}
_ENDS = ("min", "opt", "max")
PROFILED = {*_SHAPES, "profile", "shapes"}
"""Flags that do."""


class Profiles:
    """The shapes as they come: ``--profile=1`` begins the next, ``--shapes`` is all three ends."""

    def __init__(self) -> None:
        """Begin without any."""
        self._rows: list[dict[str, dict[str, list[int]]]] = []

    def take(self, name: str, value: str, word: str) -> None:
        """Take one flag."""
        if name == "profile":
            if value != str(len(self._rows)):
                raise unreadable(word)
            self._rows.append({})
            return
        if not self._rows:
            self._rows.append({})
        ends = [_SHAPES[name]] if name in _SHAPES else list(_ENDS)
        for part in value.split(","):
            tensor, colon, shape = part.rpartition(":")
            if not colon or not tensor:
                raise unreadable(word)
            row = self._rows[-1].setdefault(tensor.strip("'"), {})
            for end in ends:
                if end in row:
                    raise unreadable(word)
                row[end] = _dims(shape, word)

    def whole(self) -> list[dict[str, dict[str, list[int]]]]:
        """Return the profiles, ends that are not given taken from others, as trtexec does."""
        return [{name: _filled(ends) for name, ends in row.items()} for row in self._rows if row]


def _filled(ends: dict[str, list[int]]) -> dict[str, list[int]]:
    usual = next(ends[end] for end in ("opt", "max", "min") if end in ends)
    return {end: ends.get(end, usual) for end in _ENDS}


def _dims(text: str, word: str) -> list[int]:
    try:
        return [int(dim) for dim in text.split("x")]
    except ValueError as error:
        raise unreadable(word) from error


def unreadable(word: str) -> InvalidRequest:
    """Return the refusal of a flag whose value makes no sense."""
    return InvalidRequest(
        f"{word[:80]!r} of --trtexec cannot be read.",
        code="invalid_argument",
        fix='Write it like --trtexec "--minShapes=x:1x16 --maxShapes=x:8x16'
        ' --builderOptimizationLevel=4".',
    )
