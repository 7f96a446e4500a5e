"""A node that says over HTTP what a real one says, and makes engines of a few bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from enginefarm.digest import digest_of
from enginefarm.manifest import ENGINE_TYPES
from enginefarm.repair_report import RepairReport
from enginefarm.report import AccuracyReport, CompileReport, LatencyReport, Percentiles
from enginefarm.state import JobState, Stage
from storage import jobs
from tasks.messages import (
    Assignment,
    BackendDescription,
    ClaimReply,
    Device,
    EnrolReply,
    FinishReply,
    LeaseBeatReply,
    NodeDescription,
    UploadsReply,
)
from tasks.routing import NODE_STAGES
from tests.integration.api.served import TOKEN, Served
from tests.integration.tasks.fake_facts import compared_facts

ENGINE = b"an engine of a few bytes"
VERSION = "1.32.0"


def description(*backends: BackendDescription) -> NodeDescription:
    """Return what a small CPU node says of itself."""
    return NodeDescription(
        hostname="host",
        cpu="A processor",
        cores=2,
        memory_bytes=1 << 30,
        devices=[Device(arch="cpu", name="A processor")],
        backends=list(backends)
        or [
            BackendDescription(
                name="onnxruntime", version=VERSION, builds=["cpu"], measures=["cpu"]
            )
        ],
        stages=list(NODE_STAGES),
        reads_refined_targets=True,
        farm_version="0.1.0",
        compares=True,
    )


def enrol(
    api: Served,
    name: str = "node-1",
    *backends: BackendDescription,
    previous: Node | None = None,
    devices: Sequence[Device] | None = None,
) -> Node:
    """Join the farm, or come back as the node that was ``previous``."""
    said = description(*backends).model_dump(mode="json")
    if devices is not None:
        said["devices"] = [device.model_dump(mode="json") for device in devices]
    message = {
        "name": name,
        "description": said,
        "previous": previous.enrolled.credential if previous else None,
    }
    with api.with_text(TOKEN) as client:
        answer = client.post("/worker/v1/enrol", json=message)
    assert answer.status_code == 200, answer.text
    reply = EnrolReply.model_validate(answer.json())
    return Node(api, api.with_text(reply.credential), reply)


@dataclass
class Node:
    """A node that has enrolled."""

    api: Served
    client: httpx.Client
    enrolled: EnrolReply

    def post(self, path: str, message: dict[str, Any]) -> httpx.Response:
        """Say something to the farm."""
        return self.client.post(f"/worker/v1/{path}", json=message)

    def claim(self, job_id: str, attempt: int = 1) -> Assignment:
        """Claim a job that is ours to have."""
        answer = self.post("claims", {"job_id": job_id, "attempt": attempt})
        assert answer.status_code == 200, answer.text
        reply = ClaimReply.model_validate(answer.json())
        assert reply.assignment is not None, reply.declined
        return reply.assignment

    def next_job(self) -> str | None:
        """Return the oldest job that is queued."""
        with self.api.farm.database.transaction() as session:
            found = jobs.ids_in_state(session, JobState.QUEUED, limit=1)
        return found[0] if found else None

    def beat(self, work: Assignment, **rest: object) -> httpx.Response:
        """Keep the lease, and tell how far the job is."""
        message = {"attempt": work.attempt, "lease_token": work.lease_token, **rest}
        return self.post(f"jobs/{work.job_id}/beat", message)

    def finish(self, work: Assignment, **rest: object) -> FinishReply:
        """End an attempt."""
        message = {"attempt": work.attempt, "lease_token": work.lease_token, **rest}
        answer = self.post(f"jobs/{work.job_id}/finish", message)
        assert answer.status_code == 200, answer.text
        return FinishReply.model_validate(answer.json())

    def upload(self, work: Assignment, role: str, name: str, data: bytes, kind: str) -> Any:  # noqa: ANN401 - JSON
        """Put a file where the farm says, and return how it is called in the result."""
        file = {
            "role": role,
            "name": name,
            "digest": digest_of(data),
            "size": len(data),
            "media_type": kind,
        }
        message = {"attempt": work.attempt, "lease_token": work.lease_token, "files": [file]}
        answer = self.post(f"jobs/{work.job_id}/uploads", message)
        assert answer.status_code == 200, answer.text
        slot = UploadsReply.model_validate(answer.json()).files[0]
        if slot.url is not None:
            put = httpx.put(slot.url, content=data, headers=slot.headers)
            assert put.status_code in (200, 412), put.text
        return file

    def work(self, job_id: str) -> Assignment:
        """Do a whole job: claim it, beat once, upload, finish."""
        work = self.claim(job_id)
        for file in work.inputs:
            assert digest_of(httpx.get(file.url).content) == file.digest
        progress = {"fraction": 0.5, "phase": str(work.stage)}
        answer = self.beat(work, progress=progress, log_tail=f"working on {work.stage}\n")
        assert LeaseBeatReply.model_validate(answer.json()).cancel is False
        outputs = []
        if work.stage is Stage.COMPILE:
            kind = ENGINE_TYPES["onnxruntime"]
            outputs.append(self.upload(work, "engine", "model.onnx", ENGINE, kind))
        log = self.upload(
            work, "log", "job.log", f"all of {work.stage}\n".encode(), "text/plain; charset=utf-8"
        )
        self.finish(
            work,
            state="succeeded",
            outputs=outputs,
            facts=compared_facts(1.5) if "compare" in work.recipe else facts(work.stage),
            log=log,
            machine=_MACHINE,
        )
        return work


def facts(stage: Stage) -> dict[str, Any]:
    """Return what a stage reports when all is well."""
    versions = {"onnxruntime": VERSION}
    if stage is Stage.REPAIR:
        report = RepairReport(passes=[], changed=False, nodes_before=1, nodes_after=1, seconds=0)
        return {"repair": report.model_dump(), "versions": versions}
    if stage is Stage.COMPILE:
        made = CompileReport(seconds=0.1, engine_bytes=len(ENGINE), peak_memory_bytes=1)
        return {"compile": made.model_dump(), "versions": versions}
    if stage is Stage.BENCHMARK:
        accuracy = AccuracyReport(
            reference="the model itself",
            data="synthetic, seed 0",
            synthetic=True,
            samples=1,
            outputs=[],
            not_compared=["y"],
        )
        return {
            "latency": [_latency().model_dump()],
            "accuracy": accuracy.model_dump(),
            "versions": versions,
        }
    return {"findings": []}


def _latency() -> LatencyReport:
    times = Percentiles(
        count=50, min=1.0, max=1.0, mean=1.0, std=0.0, cov=0.0, p50=1.0, p90=1.0, p95=1.0, p99=1.0
    )
    return LatencyReport(
        shapes={"x": [1, 4]},
        batch=1,
        end_to_end_ms=times,
        throughput_qps=1000.0,
        warmup_iterations=1,
        warmup_ms=1.0,
        stable=True,
        load_ms=1.0,
        peak_memory_bytes=1,
        threads=1,
    )


_MACHINE = {
    "hostname": "host",
    "cpu": "A processor",
    "cores": 2,
    "memory_bytes": 1 << 30,
    "device": "cpu",
}
