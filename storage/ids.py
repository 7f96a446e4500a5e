"""Names of rows: a prefix and 26 characters that sort by time, to the millisecond."""

from __future__ import annotations

import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_CHARS = 10
_RANDOM_CHARS = 16


def new_id(prefix: str) -> str:
    """Return a new name such as ``bld_01hq…``; later names sort after earlier ones."""
    stamp = time.time_ns() // 1_000_000
    head = "".join(_ALPHABET[(stamp >> (5 * place)) & 31] for place in range(_TIME_CHARS))
    tail = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_CHARS))
    return f"{prefix}_{head[::-1]}{tail}"
