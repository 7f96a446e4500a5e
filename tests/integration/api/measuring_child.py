"""``python -m tests.integration.api.measuring_child``: a job's child on GPUs that are recordings.

ONNX Runtime does the measuring, on the processor; the driver, and which GPU is where, are told. One
of them computes wrongly, as a device of the same architecture may.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from enginefarm.target import Target
from tests.contract.nvml.recorded import RecordedNvml, State, recorded
from workers.backends import onnxruntime
from workers.backends.base import Array
from workers.backends.onnxruntime import OnnxRuntime
from workers.backends.ort_session import SessionRunner
from workers.child import main
from workers.gpu import nvml, taken

GPUS = {"GPU-l4": "NVIDIA L4", "GPU-rtx": "NVIDIA GeForce RTX 4090"}
WRONG = "GPU-rtx"
SHOWN: list[str | None] = []
"""The GPU that this process has let its runtime see."""


class Wrong(SessionRunner):
    """An engine as a device runs it that rounds where it must not."""

    def run(self, feeds: Mapping[str, Array]) -> list[Array | None]:
        """Return what is not quite right."""
        return [None if row is None else row.round() for row in super().run(feeds)]


class OnProcessor(OnnxRuntime):
    """Runs on the processor what is for a GPU."""

    def load(self, engine: Path, target: Target, threads: int, *_: object) -> SessionRunner:
        """Open an engine for the GPU that this process has taken."""
        runner = super().load(engine, Target(backend=target.backend, arch="cpu"), threads)
        return Wrong(runner._session, runner.threads) if WRONG in SHOWN else runner


@contextmanager
def told() -> Iterator[RecordedNvml]:
    """Give a driver that names the GPUs, each idle."""
    (one,) = recorded("one_card").states.values()
    yield RecordedNvml(
        [
            State(replace(one.gpu, uuid=uuid, name=name, arch="sm_89"), one.readings[:1])
            for uuid, name in GPUS.items()
        ]
    )


if __name__ == "__main__":
    onnxruntime.open_backend = OnProcessor
    nvml.opened = told  # type: ignore[assignment]  # another driver behind the same port
    vars(taken)["show_gpu"] = SHOWN.append  # nothing here looks for a real one
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
