"""Pictures that resemble photographs: large forms over a soft ground, detail that falls off."""

from __future__ import annotations

import numpy as np

from workers.backends.base import Array

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""How classifiers of photographs want their three channels."""


def scene(number: int, size: int = 224) -> Array:
    """Return a picture, channels first, prepared as for classifiers of photographs."""
    rng = np.random.default_rng(7000 + number)
    rows, columns = np.mgrid[0:size, 0:size] / size
    picture = np.stack([_soft(rng, size) for _ in range(3)]) * 0.15
    picture += rng.uniform(0.2, 0.7, (3, 1, 1)) + rng.uniform(-0.2, 0.2, (3, 1, 1)) * rows
    for _ in range(int(rng.integers(2, 6))):
        middle, radius = rng.uniform(0.1, 0.9, 2), rng.uniform(0.05, 0.3, 2)
        inside = ((rows - middle[0]) / radius[0]) ** 2 + ((columns - middle[1]) / radius[1]) ** 2
        picture = np.where(inside < 1, rng.uniform(0, 1, (3, 1, 1)) * (1 - inside / 3), picture)
    shown = np.clip(picture + rng.normal(0, 0.01, picture.shape), 0, 1)
    mean, std = (np.array(each)[:, None, None] for each in (_MEAN, _STD))
    prepared: Array = ((shown - mean) / std).astype(np.float32)
    return prepared


def _soft(rng: np.random.Generator, size: int) -> Array:
    """Return noise whose power falls off with the square of the frequency, as in photographs."""
    rows, columns = np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None]
    distance = np.hypot(rows, columns)
    distance[0, 0] = np.inf
    wave = rng.normal(size=distance.shape) + 1j * rng.normal(size=distance.shape)
    ground = np.fft.irfft2(wave / distance, s=(size, size))
    soft: Array = ground / ground.std()
    return soft


def flower(number: int) -> Array:
    """Return the length and the width of a leaf of an iris, in cm."""
    rng = np.random.default_rng(7000 + number)
    length = rng.normal(*((5.0, 0.35), (5.9, 0.5), (6.6, 0.6))[number % 3])
    return np.array([length, rng.normal(3.05, 0.4)], np.float32)
