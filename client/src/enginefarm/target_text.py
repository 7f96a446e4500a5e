"""The text of a target, taken apart: ``backend@arch[+arch…][:sku][+portability]``. Pure.

What may stand there, and for which backend, is said in ``target``; here is only the shape, so that
also a reader that is older than a name can tell its parts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

_SHAPE = re.compile(
    r"(?P<backend>[^@\s]+)@(?P<archs>[^@\s:]+)(?::(?P<sku>[^@\s:+]+)(?P<tail>(?:\+[^@\s:+]+)*))?"
)
_AMPERE = 80


class Portability(StrEnum):
    """On which other GPUs an engine runs than on those of the model that it was built on."""

    AMPERE_PLUS = "ampere_plus"
    SAME_COMPUTE_CAPABILITY = "same_compute_capability"


@dataclass(frozen=True)
class Parts:
    """What a target's text says, known or not. ``archs`` has at least one."""

    backend: str
    archs: tuple[str, ...]
    sku: str | None = None
    marks: tuple[str, ...] = ()
    """What stands behind and is no architecture: one that can be is a portability."""

    @property
    def text(self) -> str:
        """The target in its one form."""
        sku = f":{self.sku}" if self.sku else ""
        return f"{self.backend}@{'+'.join(self.archs)}{sku}{''.join(f'+{m}' for m in self.marks)}"


def read_parts(text: str) -> Parts | None:
    """Return the parts of a target's text, architectures in their order; None if it has none."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        return None
    first, *more = match["archs"].split("+")
    tail = (match["tail"] or "").split("+")[1:]
    words = [*more, *tail]
    if not (first and all(words)):
        return None
    archs = [first, *(word for word in words if _is_arch(word))]
    marks = tuple(word for word in words if not _is_arch(word))
    return Parts(match["backend"], in_order(archs), match["sku"], marks)


def _is_arch(word: str) -> bool:
    return word == "cpu" or word.startswith("sm")


def in_order(archs: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """Return architectures as a target names them: the oldest first, whoever wrote them."""
    return tuple(sorted(archs, key=lambda arch: (number_of(arch), arch)))


def number_of(arch: str) -> int:
    """Return 89 for ``sm_89``, and 0 for what is no GPU's architecture."""
    digits = arch.removeprefix("sm_")
    return int(digits) if digits.isdecimal() and digits.isascii() else 0


def runs_on(
    archs: tuple[str, ...], sku: str | None, portability: Portability | None, arch: str, here: str
) -> bool:
    """Tell whether an engine of a target is for a GPU of ``arch`` whose SKU is ``here``.

    Without a portability one for a SKU is for that SKU; which GPU of its architecture another one
    was built on, its target does not say.
    """
    if portability is Portability.AMPERE_PLUS:
        return number_of(arch) >= _AMPERE
    return arch in archs and (portability is not None or sku in {None, here})


def takes_ampere_plus(arch: str) -> bool:
    """Tell whether an engine that runs on Ampere and newer can be built on an architecture."""
    return number_of(arch) >= _AMPERE
