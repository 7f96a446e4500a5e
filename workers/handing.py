"""What a child is handed: ``job.json``, with all that the job may use on this node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks.messages import Assignment
from workers.childjob import JOB_FILE, ChildInput, ChildJob, write_document
from workers.gpu.need import need_of
from workers.room import room_of
from workers.workshop import Workshop


@dataclass(frozen=True)
class Given:
    """What lies in the job's scratch folder already: its inputs, and libraries by backend."""

    inputs: list[ChildInput]
    plugins: dict[str, list[Path]]


def hand(
    shop: Workshop, job: Assignment, given: Given, scratch: Path, memory_bytes: int | None
) -> None:
    """Write what a child is to do; ``memory_bytes``: the most that it may have.

    Raises:
        JobFailed: the GPUs that would do are out of service (code ``device_busy``), or there is
            none of the SKU (``not_measurable_here``).
    """
    out = scratch / "out"
    out.mkdir()
    child = ChildJob(
        stage=job.stage,
        target=job.target,
        recipe=job.recipe,
        inputs=given.inputs,
        out=out,
        room=room_of(job, shop.devices, memory_bytes),
        pythons=dict(shop.pythons),
        plugins=given.plugins,
        device=need_of(job.stage, job.target, shop.devices, shop.gpus, job.sku),
        timed=job.timing_cache is not None,
    )
    write_document(scratch / JOB_FILE, child)
