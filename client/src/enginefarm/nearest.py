"""Name the nearest right word for a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice most like ``word``, or None if none is close."""
    found = difflib.get_close_matches(word.lower(), sorted(choices), n=1, cutoff=0.5)
    return found[0] if found else None


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return a sentence that names the nearest choice, else all of them."""
    # A member of an enum is shown as the word that it stands for.
    known = sorted(map(str, choices))
    guess = nearest(word, known)
    if guess is not None:
        return f"Did you mean {guess!r}?"
    return f"Known: {', '.join(known)}."
