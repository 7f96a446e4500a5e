"""Models of every kind that has hurt somebody, made on the spot, each with what must come of it."""

from __future__ import annotations

from bench.hostile import files, number_types, operators, sizes
from bench.hostile.made import Case

CASES: tuple[Case, ...] = (*files.CASES, *number_types.CASES, *operators.CASES, *sizes.CASES)
