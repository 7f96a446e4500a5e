"""Inputs of the kind that the shipped models are made for, from what is on every machine.

Words are drawn with letters of five by seven dots; bytes are those of Python's own sources.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

import numpy as np

from workers.backends.base import Array

# Each letter in seven rows of five dots.
_LETTERS = {
    "A": "01110 10001 10001 11111 10001 10001 10001",
    "C": "01111 10000 10000 10000 10000 10000 01111",
    "E": "11111 10000 10000 11110 10000 10000 11111",
    "H": "10001 10001 10001 11111 10001 10001 10001",
    "I": "01110 00100 00100 00100 00100 00100 01110",
    "L": "10000 10000 10000 10000 10000 10000 11111",
    "N": "10001 11001 10101 10101 10011 10001 10001",
    "O": "01110 10001 10001 10001 10001 10001 01110",
    "R": "11110 10001 10001 11110 10100 10010 10001",
    "S": "01111 10000 10000 01110 00001 00001 11110",
    "T": "11111 00100 00100 00100 00100 00100 00100",
    "2": "01110 10001 00001 00110 01000 10000 11111",
    "7": "11111 00001 00010 00100 01000 01000 01000",
}


def _line(rng: np.random.Generator, width: int, scale: int) -> Array:
    """Return a line of words, ink as 1, as wide as is asked for."""
    line = np.zeros((7 * scale, width))
    left = int(rng.integers(2, 12))
    while left + 6 * scale < width:
        if rng.random() < 0.15:
            left += 4 * scale
            continue
        rows = _LETTERS[str(rng.choice(list(_LETTERS)))].split()
        dots = np.array([[float(dot) for dot in row] for row in rows])
        line[:, left : left + 5 * scale] = np.kron(dots, np.ones((scale, scale)))
        left += 6 * scale
    return line


def page(number: int, height: int, width: int, *, scale: int, lines: int) -> Array:
    """Return a picture of lines of words, channels first, from -1 to 1."""
    rng = np.random.default_rng(7000 + number)
    ink = np.zeros((height, width))
    for each in range(lines):
        line = _line(rng, width, scale)
        top = height * each // lines + max(0, (height // lines - line.shape[0]) // 2)
        ink[top : top + line.shape[0]] = np.maximum(ink[top : top + line.shape[0]], line)
    paper = int(rng.integers(190, 256)) - np.array([0, 12, 20])
    dark = rng.integers(0, 90, 3)
    shown = paper[:, None, None] * (1 - ink) + dark[:, None, None] * ink
    shown = np.clip(shown + rng.normal(0, 4, shown.shape), 0, 255)
    return ((shown / 255 - 0.5) / 0.5).astype(np.float32)


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


def samples(model: str, first: int, count: int) -> dict[str, Array]:
    """Return so many samples of what a shipped model is given."""
    numbers = range(first, first + count)
    if model == "rapidocr-det":
        return {"x": np.stack([page(n, 320, 480, scale=3, lines=5) for n in numbers])}
    if model == "rapidocr-rec":
        return {"x": np.stack([page(n, 48, 320, scale=4, lines=1) for n in numbers])}
    if model == "magika":
        return {"bytes": np.stack([file_bytes(n) for n in numbers])}
    rows = [tokens(n) for n in numbers]
    return {
        "input_ids": np.stack([ids for ids, _ in rows]),
        "attention_mask": np.stack([there for _, there in rows]),
    }
