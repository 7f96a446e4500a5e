"""Turn TensorRT's tree of phases into one fraction that never falls, and carry a cancel into it.

Phases nest, repeat and may finish early; callbacks may come on any thread.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from workers.backends.base import ProgressSink


@dataclass
class _Phase:
    parent: str | None
    steps: int
    done: int = 0


class PhaseTree:
    """The pure part: which phases run, and how far the whole is."""

    def __init__(self) -> None:
        self._phases: dict[str, _Phase] = {}
        self._best = 0.0

    def start(self, name: str, parent: str | None, steps: int) -> float:
        """Open a phase under its parent."""
        self._phases[name] = _Phase(parent, max(steps, 1))
        return self._raise_to(name)

    def step(self, name: str, step: int) -> float:
        """Count a step of a phase; unknown phases are ignored."""
        phase = self._phases.get(name)
        if phase is not None:
            phase.done = min(max(phase.done, step + 1), phase.steps)
        return self._raise_to(name)

    def finish(self, name: str) -> float:
        """Close a phase; it may not have made all its steps."""
        fraction = self._raise_to(name)
        self._phases.pop(name, None)
        return fraction

    def _raise_to(self, name: str) -> float:
        within, current, seen = 0.0, name, set[str]()
        while current in self._phases and current not in seen:
            seen.add(current)
            phase = self._phases[current]
            within = min((phase.done + within) / phase.steps, 1.0)
            if phase.parent is None:
                self._best = max(self._best, within)
                break
            current = phase.parent
        return self._best


def make_monitor(trt: ModuleType, sink: ProgressSink) -> Any:  # noqa: ANN401 - the runtime's class
    """Return an ``IProgressMonitor`` that reports to ``sink`` and stops when it says so."""
    tree = PhaseTree()
    lock = threading.Lock()

    class Monitor(trt.IProgressMonitor):  # type: ignore[name-defined,misc]  # a class of a module handed over
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            with lock:
                sink.report(tree.start(phase_name, parent_phase, num_steps), phase_name)

        def step_complete(self, phase_name: str, step: int) -> bool:
            with lock:
                sink.report(tree.step(phase_name, step), phase_name)
            # An exception here would be printed and taken for a cancel; False is the honest way.
            return not sink.stopping

        def phase_finish(self, phase_name: str) -> None:
            with lock:
                sink.report(tree.finish(phase_name), phase_name)

    return Monitor()
