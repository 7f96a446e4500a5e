"""The flags of a trtexec command line that say which shapes an engine is built for."""

from __future__ import annotations

from enginefarm.errors import InvalidRequest

_SHAPES = {"minShapes": "min", "optShapes": "opt", "maxShapes": "max"}
_ENDS = ("min", "opt", "max")
PROFILED = {*_SHAPES, "profile", "shapes"}
"""Flags that do."""


class Profiles:
    """The shapes as they come: ``--profile=1`` begins the next.

    ``--shapes`` is where a profile is run: of an input that has no ends of its own, all three.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self._rows: list[dict[str, dict[str, list[int]]]] = []
        self._run_at: list[dict[str, list[int]]] = []

    def take(self, name: str, value: str, word: str) -> None:
        """Take one flag."""
        if name == "profile":
            if value != str(len(self._rows)):
                raise unreadable(word)
            self._begin()
            return
        if not self._rows:
            self._begin()
        for part in value.split(","):
            tensor, colon, shape = part.rpartition(":")
            if not colon or not tensor:
                raise unreadable(word)
            tensor, end = tensor.strip("'"), _SHAPES.get(name)
            row = self._run_at[-1] if end is None else self._rows[-1].setdefault(tensor, {})
            key = end or tensor
            if key in row:
                raise unreadable(word)
            row[key] = _dims(shape, word)

    def _begin(self) -> None:
        self._rows.append({})
        self._run_at.append({})

    def whole(self) -> list[dict[str, dict[str, list[int]]]]:
        """Return the profiles, ends that are not given taken from others, as trtexec does."""
        rows = [
            {name: dict.fromkeys(_ENDS, dims) for name, dims in at.items()} | row
            for row, at in zip(self._rows, self._run_at, strict=True)
        ]
        return [{name: _filled(ends) for name, ends in row.items()} for row in rows if row]

    def run_at(self) -> list[dict[str, list[int]]]:
        """Return the shapes at which the profiles are run, if it is not at the opt of each."""
        pairs = zip(self._rows, self._run_at, strict=True)
        if not any(name in row for row, at in pairs for name in at):
            return []
        wanted = [at for row, at in zip(self._rows, self._run_at, strict=True) if row or at]
        return [
            {name: at.get(name, ends["opt"]) for name, ends in row.items()}
            for row, at in zip(self.whole(), wanted, strict=True)
        ]


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
