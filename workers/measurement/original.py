"""The original model, seen through the engine's interface.

What was fixed is no input of the engine: the original is fed with it here. Inputs that were fixed
in shape have that shape. What the model does not take (any more) is not fed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from enginefarm.fixed import shape_of, with_fixed
from enginefarm.spec import FixedInput
from workers.backends.base import Array, Runner
from workers.measurement.inputs import numpy_dtype


class Original:
    """See :class:`workers.backends.base.Runner`; ``inputs`` are those that are left to be given."""

    def __init__(self, runner: Runner, fixed: Mapping[str, FixedInput]) -> None:
        """Make the arrays of what is fixed to a value, once."""
        known = {view.name for view in runner.inputs}
        fixed = {name: row for name, row in fixed.items() if name in known}
        self._runner = runner
        self.threads = runner.threads
        self.outputs = runner.outputs
        self.inputs = with_fixed(runner.inputs, fixed)
        self._constant: dict[str, Array] = {
            view.name: np.full(
                shape_of(view, fixed[view.name]), fixed[view.name].value, numpy_dtype(view.dtype)
            )
            for view in runner.inputs
            if view.name in fixed and fixed[view.name].value is not None
        }

    def run(self, feeds: Mapping[str, Array]) -> list[Array | None]:
        """Run once on the given inputs and on what is fixed."""
        return self._runner.run({**feeds, **self._constant})
