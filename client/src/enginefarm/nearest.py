"""Name the right words that are near to a misspelt one; what is not near is no guess. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_NEAR, _AS_NEAR, _BEGINNING = 0.66, 0.06, 3
_MOST_NEAR, _MOST_KNOWN, _LONGEST = 4, 20, 120


def near(word: str, choices: Iterable[str]) -> list[str]:
    """Return the choices that are near to ``word``, the nearest first; none if none is.

    Those are named that are about as near as the nearest. Where nothing is spelt alike, what begins
    with ``word`` is near: ``latency`` is the beginning of two metrics.
    """
    # A member of an enum is shown as the word that it stands for.
    known = sorted(set(map(str, choices)))
    said = word.lower()
    alike = {each: _alike(said, each.lower()) for each in known}
    best = max(alike.values(), default=0.0)
    if best >= _NEAR:
        found = [each for each in known if alike[each] >= max(_NEAR, best - _AS_NEAR)]
        return sorted(found, key=lambda each: -alike[each])[:_MOST_NEAR]
    if len(said) < _BEGINNING:
        return []
    return [each for each in known if each.lower().startswith(said)][:_MOST_NEAR]


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return a sentence that names what is near, else what is known as far as one reads it."""
    known = sorted(set(map(str, choices)))
    guesses = near(word, known)
    if guesses:
        return f"Did you mean {_either(guesses)}?"
    more = f" and {len(known) - _MOST_KNOWN} more" if len(known) > _MOST_KNOWN else ""
    return f"Known: {', '.join(known[:_MOST_KNOWN])}{more}."


def _alike(one: str, other: str) -> float:
    if one == other:
        return 1.0
    # The matcher looks longer for long words, and a name of a model may have thousands of letters.
    matcher = difflib.SequenceMatcher(None, one[:_LONGEST], other[:_LONGEST], autojunk=False)
    if matcher.real_quick_ratio() < _NEAR or matcher.quick_ratio() < _NEAR:
        return 0.0
    return matcher.ratio()


def _either(words: list[str]) -> str:
    quoted = [repr(each) for each in words]
    return " or ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))
