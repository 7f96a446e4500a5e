"""Sound that resembles speech: a voice with formants, noise for consonants, pauses between words.

A voice is the sum of the harmonics of a falling pitch; how loud each is follows from how near it
lies to the resonances of a mouth that says one vowel after another.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from workers.backends.base import Array

RATE = 16_000
WINDOW, CONTEXT = 512, 64
"""What a detector of speech takes at once, and what it keeps of the window before."""
_VOWELS = (
    (730, 1090, 2440),
    (270, 2290, 3010),
    (300, 870, 2240),
    (530, 1840, 2480),
    (570, 840, 2410),
)
"""The first three resonances in Hz of the vowels in: father, see, too, bed, saw."""
_WIDTHS = (80.0, 100.0, 140.0)
_LOUD = (1.0, 0.6, 0.3)
_HARMONICS = 30
_PEAK = 0.4


@lru_cache(maxsize=8)
def utterance(number: int) -> Array:
    """Return about four seconds of one voice, from -1 to 1, with a quiet noise behind it."""
    rng = np.random.default_rng(1000 + number)
    pitch = float(rng.uniform(95, 220))
    parts = [np.zeros(RATE // 4)]
    for _ in range(int(rng.integers(4, 7))):
        parts += [_syllable(rng, pitch) for _ in range(int(rng.integers(1, 4)))]
        parts.append(np.zeros(int(rng.uniform(0.06, 0.25) * RATE)))
        pitch *= 0.97
    sound = np.concatenate(parts)
    sound *= _PEAK / max(float(np.abs(sound).max()), 1e-9)
    return (sound + rng.normal(0, 0.003, sound.size)).astype(np.float32)


def _syllable(rng: np.random.Generator, pitch: float) -> Array:
    hiss = np.diff(rng.normal(0, 0.05, int(rng.uniform(0.03, 0.09) * RATE)))
    hiss *= np.hanning(hiss.size)
    return np.concatenate([hiss, _vowel(rng, pitch)])


def _vowel(rng: np.random.Generator, pitch: float) -> Array:
    """Return a vowel that glides into another."""
    count = int(rng.uniform(0.12, 0.24) * RATE)
    along = np.linspace(0, 1, count)
    first, last = (np.array(_VOWELS[int(each)], float) for each in rng.integers(0, len(_VOWELS), 2))
    hertz = pitch * (1.05 - 0.1 * along) * (1 + 0.01 * np.sin(2 * np.pi * 5 * along))
    phase = 2 * np.pi * np.cumsum(hertz) / RATE
    sound = np.zeros(count)
    for harmonic in range(1, _HARMONICS + 1):
        at = harmonic * hertz
        loud = np.zeros(count)
        for start, end, width, gain in zip(first, last, _WIDTHS, _LOUD, strict=True):
            resonance = start + (end - start) * along
            loud += gain / (1 + ((at - resonance) / width) ** 2)
        sound += np.where(at < RATE / 2, loud, 0) * np.sin(harmonic * phase) / harmonic**0.5
    rise = np.minimum(1, np.minimum(along, 1 - along) * 8)
    made: Array = sound * rise
    return made


def windows(number: int) -> list[Array]:
    """Return an utterance in the windows of a detector: what came before, and what is new."""
    sound = np.concatenate([np.zeros(CONTEXT, np.float32), utterance(number)])
    return [
        sound[start : start + CONTEXT + WINDOW]
        for start in range(0, sound.size - CONTEXT - WINDOW, WINDOW)
    ]
