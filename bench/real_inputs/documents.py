"""What is in files, and sentences as the numbers of their words."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import numpy as np

from workers.backends.base import Array


def file_bytes(number: int) -> Array:
    """Return the beginning and the end of a file, as a detector of kinds of files wants them."""
    rng = np.random.default_rng(7000 + number)
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    data = files[int(rng.integers(len(files)))].read_bytes()
    cut = int(rng.integers(0, max(1, len(data) - 1024)))
    first, last = data[cut : cut + 1024], data[-1024:]
    row = np.full(2048, 256, np.int32)
    row[: len(first)] = list(first)
    row[2048 - len(last) :] = list(last)
    return row


def tokens(number: int, length: int = 64) -> tuple[Array, Array]:
    """Return token ids that fall off as words do, and which of them are there."""
    rng = np.random.default_rng(7000 + number)
    count = int(rng.integers(6, length))
    ids, there = np.zeros(length, np.int64), np.zeros(length, np.int64)
    ids[0], ids[count - 1], there[:count] = 101, 102, 1
    ids[1 : count - 1] = 1996 + np.minimum((rng.pareto(0.7, count - 2) * 60).astype(int), 20_000)
    return ids, there
