"""Say how many there are of something: ``1 error``, ``2 errors``. Pure."""

from __future__ import annotations


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a count and what is counted; ``many`` is for what does not end in s.

    A verb may follow the noun in both: ``counted(n, "weight holds", "weights hold")``.
    """
    return f"{count} {one if count == 1 else many or f'{one}s'}"
