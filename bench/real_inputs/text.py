"""Pictures of lines of words, drawn with letters of five by seven dots, dark on light paper."""

from __future__ import annotations

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

_SPACES = 0.15
"""How often a word ends."""


def _line(rng: np.random.Generator, width: int, scale: int) -> Array:
    """Return a line of words, ink as 1, as wide as is asked for."""
    line = np.zeros((7 * scale, width))
    left = int(rng.integers(2, 12))
    while left + 6 * scale < width:
        if rng.random() < _SPACES:
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


def gray(number: int, height: int, width: int, *, scale: int) -> Array:
    """Return a picture of one line of words in a single channel, from -1 to 1."""
    picture: Array = page(number, height, width, scale=scale, lines=1).mean(axis=0, keepdims=True)
    return picture.astype(np.float32)
