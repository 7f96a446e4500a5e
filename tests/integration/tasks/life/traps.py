"""Traps: what happens at one point of a step. The process ends, a part is away, or others act."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NoReturn, cast

from enginefarm.errors import Unavailable
from storage.database import Database, Session
from storage.signing import StatementSigner
from tasks.farm import Farm


class Killed(BaseException):
    """The process ends here: nothing of it runs on, not even what mends errors."""


ENDS: dict[str, Callable[[], BaseException]] = {
    "killed": lambda: Killed("the process ended"),
    "away": lambda: Unavailable("A part of the farm does not answer.", code="database_away"),
    "bug": lambda: ValueError("a bug"),
}


@dataclass
class Trap:
    """Set before a step, sprung at its n-th point; a step that has fewer points is not harmed.

    If ``_only`` is a name, points of other names are not counted.

    What others do is done only where the step holds no transaction open: they are other processes,
    and would wait for its locks for ever.
    """

    _left: int = 0
    _act: Callable[[], None] | None = None
    _outside: bool = False
    _only: str = ""
    _open: int = 0
    commits: int = 0
    error: BaseException | None = None
    sprung: str = ""

    def point(self, name: str) -> None:
        if self._act is None or (self._outside and self._open) or self._only not in {"", name}:
            return
        self._left -= 1
        if self._left <= 0:
            act, self._act, self.sprung = self._act, None, name
            act()

    @contextmanager
    def ending(self, at: int, how: str, only: str = "") -> Iterator[None]:
        """Let the step within end at its point ``at``; only that very error is let pass."""
        self.error = None

        def end() -> NoReturn:
            self.error = ENDS[how]()
            raise self.error

        with self._set(at, end, outside=False, only=only):
            try:
                yield
            except BaseException as error:
                if error is not self.error:
                    raise

    @contextmanager
    def meanwhile(self, at: int, others: Callable[[], None]) -> Iterator[None]:
        """Let others act at point ``at`` of the step within."""
        with self._set(at, others, outside=True, only=""):
            yield

    @contextmanager
    def _set(self, at: int, act: Callable[[], None], *, outside: bool, only: str) -> Iterator[None]:
        self._left, self._act, self._outside, self._only = at, act, outside, only
        self.commits, self.sprung = 0, ""
        try:
            yield
        finally:
            self._act = None

    @contextmanager
    def transaction(self, real: Database) -> Iterator[Session]:
        self.point("before a transaction")
        self._open += 1
        try:
            with real.transaction() as session:
                yield session
                self.point("before a commit")
        finally:
            self._open -= 1
        self.commits += 1
        self.point("after a commit")


class _Database:
    def __init__(self, real: Database, trap: Trap) -> None:
        self._real, self._trap = real, trap

    def transaction(self) -> Any:  # noqa: ANN401 - the real one's
        return self._trap.transaction(self._real)


class _Points:
    """Passes everything on to a part of the farm; its named calls are points of the trap."""

    def __init__(self, real: object, trap: Trap, *names: str) -> None:
        self._real, self._trap, self._names = real, trap, names

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the real one has
        value = getattr(self._real, name)
        if name not in self._names:
            return value

        def call(*args: object, **named: object) -> Any:  # noqa: ANN401 - as the real one answers
            self._trap.point(f"before {name}")
            answer = value(*args, **named)
            self._trap.point(f"after {name}")
            return answer

        return call


def trapped(farm: Farm, trap: Trap) -> Farm:
    """Return the same farm with a trap at every step it takes outside its own memory."""
    objects: Any = _Points(farm.objects, trap, "put_bytes", "confirm", "remove", "head")
    objects.staging = _Points(farm.objects.staging, trap, "find", "remove")
    objects.parts = _Points(farm.objects.parts, trap, "promote")
    return replace(
        farm,
        database=cast("Database", _Database(farm.database, trap)),
        objects=objects,
        progress=cast("Any", _Points(farm.progress, trap, "wake", "publish")),
        signer=cast("StatementSigner", _Points(farm.signer, trap, "sign")),
    )
