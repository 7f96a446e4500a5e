"""What a node brings to every job: made once, by the process that hears of jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tasks.messages import Assignment, Device, Progress
from workers.farm_api import WorkerApi
from workers.gpu.need import GpuRules
from workers.plugins.copying import Shelf

OnProgress = Callable[[Assignment, Progress], None]


@dataclass(frozen=True)
class Workshop:
    """What a node brings to every job."""

    api: WorkerApi
    scratch: Path
    devices: Sequence[Device]
    job_log_bytes: int
    job_memory_bytes: int | None = None
    pythons: Mapping[str, Path] = field(default_factory=dict)
    gpus: GpuRules = field(default_factory=GpuRules)
    plugins: Shelf = field(default_factory=Shelf)
    on_progress: OnProgress = lambda _assignment, _progress: None
