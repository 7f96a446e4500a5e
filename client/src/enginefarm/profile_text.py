"""Shapes and profiles as people write them: ``x=1x3x160x160:1x3x320x480:4x3x960x960``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from enginefarm.counted import counted
from enginefarm.errors import InvalidProfile
from enginefarm.spec import Profile, ShapeRange

MAX_DIM = 2**31 - 1
_DIM = r"[0-9]{1,10}"
_SHAPE = re.compile(rf"{_DIM}(?:x{_DIM})*", re.ASCII)
_RANGE_PARTS = 3


def parse_shape_range(text: str) -> ShapeRange:
    """Read ``MIN:OPT:MAX``, or one shape for all three; each like ``1x3x224x224``.

    Raises:
        InvalidProfile: it is neither (code ``profile_syntax``).
    """
    parts = text.strip().split(":")
    if len(parts) == 1:
        parts *= _RANGE_PARTS
    if len(parts) != _RANGE_PARTS:
        raise _refusal(text, f"It has {counted(len(parts), 'part')} between colons.")
    low, usual, high = (_shape(text, part) for part in parts)
    return ShapeRange(min=low, opt=usual, max=high)


def as_flags(profile: Profile) -> str:
    """Return a profile as one ``--profile`` flag, quoted for a shell, ready to be pasted."""
    text = ",".join(
        f"{name}={':'.join(_text(each) for each in (shapes.min, shapes.opt, shapes.max))}"
        for name, shapes in profile.items()
    )
    return f"--profile {shlex.quote(text)}"


def shape_text(shape: Sequence[int | str | None]) -> str:
    """Return a shape for people: ``[batch, 3, ?]``."""
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


def _shape(text: str, part: str) -> list[int]:
    shape = part.strip().lower()
    if _SHAPE.fullmatch(shape) is None:
        raise _refusal(text, f"{part[:60]!r} is not a shape.")
    dims = [int(dim) for dim in shape.split("x")]
    if max(dims) > MAX_DIM:
        raise _refusal(text, f"No dimension can be above {MAX_DIM}.")
    return dims


def _text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _refusal(text: str, why: str) -> InvalidProfile:
    return InvalidProfile(
        f"{text[:120]!r} is not a range of shapes.",
        code="profile_syntax",
        why=why,
        fix="Write MIN:OPT:MAX, for example 1x3x160x160:1x3x320x480:4x3x960x960, or one shape "
        "for all three.",
    )
