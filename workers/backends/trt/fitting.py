"""Which of an engine's profiles a run is made under: a context begins with the first, and stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Shapes = Mapping[str, Sequence[int]]


def fitting(engine: Any, shapes: Shapes) -> int:  # noqa: ANN401 - the runtime's class
    """Return the profile that is best at these shapes, else the first that allows them.

    Where none allows them it is the first: the runtime says what is wrong.
    """
    many = range(int(engine.num_optimization_profiles))
    for wanted in (_is_best_at, _allows):
        for number in many:
            if wanted(engine, number, shapes):
                return number
    return 0


def _is_best_at(engine: Any, number: int, shapes: Shapes) -> bool:  # noqa: ANN401 - as above
    return all(
        tuple(engine.get_tensor_profile_shape(name, number)[1]) == tuple(shape)
        for name, shape in shapes.items()
    )


def _allows(engine: Any, number: int, shapes: Shapes) -> bool:  # noqa: ANN401 - as above
    for name, shape in shapes.items():
        low, _, high = engine.get_tensor_profile_shape(name, number)
        ends = zip(low, shape, high, strict=False)
        if not all(least <= dim <= most for least, dim, most in ends):
            return False
    return True
