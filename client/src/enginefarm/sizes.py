"""Datasets with samples of several sizes: ``x/0``, ``x/1``, … hold those of the input ``x``. Pure.

The numbers run from 0 without a gap, and each has an array for every input. Where an array has the
very name of an input no number is seen in any name.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_NUMBERED = re.compile(r"(?P<name>.+)/(?P<number>0|[1-9][0-9]{0,2})", re.DOTALL)


def by_size(arrays: Collection[str], inputs: Collection[str] = ()) -> list[dict[str, str]]:
    """Return, for each size, the names of the arrays by what they are of.

    There is one size, and each array is what it is called, where they are not numbered as they
    should be.
    """
    plain = [{name: name for name in arrays}]
    sizes: dict[int, dict[str, str]] = {}
    for name in arrays:
        found = _NUMBERED.fullmatch(name)
        if found is None or name in inputs:
            return plain
        sizes.setdefault(int(found["number"]), {})[found["name"]] = name
    rows = [sizes[number] for number in sorted(sizes)]
    whole = sorted(sizes) == list(range(len(sizes)))
    alike = all(row.keys() == rows[0].keys() for row in rows)
    return rows if rows and whole and alike else plain


def is_numbered(name: str) -> bool:
    """Return whether an array's name ends as those of several sizes do."""
    return _NUMBERED.fullmatch(name) is not None
