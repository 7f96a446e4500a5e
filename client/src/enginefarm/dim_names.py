"""Names of dimensions: which mean one size, and which are an exporter's word for any. Pure."""

from __future__ import annotations

_ANY = frozenset({"none", "unk", "unknown", "nan", "any", "dynamic"})


def is_placeholder(name: str) -> bool:
    """Tell whether a dimension's name is what exporters write who mean "any size": ``?``, ``-1``.

    It is one without a letter, or one of a few words. Axes that have it in common need not have one
    size, whatever a compiler takes it for.
    """
    plain = name.strip().lower()
    return plain in _ANY or not any(letter.isalpha() for letter in plain)
