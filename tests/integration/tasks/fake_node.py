"""A node without a machine: it says what a node says, and uploads real bytes to the bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from enginefarm.digest import digest_of
from enginefarm.errors import Failure
from enginefarm.manifest import (
    CHECK_TYPE,
    ENGINE_TYPES,
    LOG_TYPE,
    MODEL_TYPE,
    PRECISION_TYPE,
    REPAIR_TYPE,
)
from enginefarm.report import Machine
from enginefarm.state import PRECISION_STAGES, Blame, JobState, Stage
from enginefarm.target import Target
from storage.models import Job
from tasks import claim, enrol, finish, heartbeat, uploads
from tasks.farm import Farm
from tasks.messages import (
    Assignment,
    BackendDescription,
    ClaimReply,
    ClaimRequest,
    Device,
    EnrolRequest,
    FinishRequest,
    LeaseBeat,
    LeaseBeatReply,
    NodeBeat,
    NodeBeatReply,
    NodeDescription,
    OutputFile,
    Progress,
    UploadSlot,
    UploadsRequest,
)
from tasks.routing import NODE_STAGES
from tests.integration.tasks.fake_facts import (
    LATENCY,
    VERSION,
    accuracy,
    at_each,
    compared_facts,
    paired_facts,
    precision_facts,
    repair_facts,
    trust,
)

ALREADY_THERE = 412


def backend(
    version: str = VERSION, *, name: str = "onnxruntime", arch: str = "cpu", measures: bool = True
) -> BackendDescription:
    return BackendDescription(
        name=name, version=version, builds=[arch], measures=[arch] if measures else []
    )


def description(*backends: BackendDescription, slots: int = 1) -> NodeDescription:
    return NodeDescription(
        hostname="rack-1",
        cpu="EPYC",
        cores=8,
        memory_bytes=1 << 34,
        devices=[],
        backends=list(backends),
        stages=list(NODE_STAGES),
        slots=slots,
        reads_refined_targets=True,
        farm_version="0.1.0",
        compares=True,
    )


@dataclass
class FakeNode:
    """One enrolled node, and what its backends answer."""

    farm: Farm
    name: str
    backends: list[BackendDescription] = field(default_factory=lambda: [backend()])
    cosine: float = 0.9999
    speedup: float = 1.5
    """How much faster an engine in another precision is than its twin."""
    engine: bytes | None = None
    repaired: bytes | None = None
    precise: bytes = b"the model in another precision"
    labels: list[str] = field(default_factory=list)
    tainted: list[str] = field(default_factory=list)
    """What speaks against all times that it measures."""
    slots: int = 1
    memory_bytes: int = 1 << 34
    job_memory_bytes: int | None = None
    gpus: list[str] = field(default_factory=list)
    """The names of its GPUs, which are of the architecture sm_89; ``fault``: why all are out."""
    fault: str | None = None
    took: Mapping[Stage, int] = field(default_factory=dict)
    node_id: str = ""
    credential: str | None = None

    def __post_init__(self) -> None:
        """Enrol, and prove that the credential works."""
        self.start_again()

    def start_again(self) -> None:
        """Enrol as a node does when its process starts."""
        request = EnrolRequest(
            name=self.name, description=self.described(), previous=self.credential
        )
        reply = enrol.enrol(self.farm, request)
        assert enrol.authenticate(self.farm, reply.credential) == reply.node_id
        self.node_id, self.credential = reply.node_id, reply.credential

    def described(self) -> NodeDescription:
        gpus = [Device(arch="sm_89", name=name, fault=self.fault) for name in self.gpus]
        memory = {"memory_bytes": self.memory_bytes, "job_memory_bytes": self.job_memory_bytes}
        told = memory | {"devices": gpus}
        return description(*self.backends, slots=self.slots).model_copy(update=told)

    def alive(self, *, draining: bool = False, running: Sequence[Assignment] = ()) -> NodeBeatReply:
        ids = [work.job_id for work in running]
        return enrol.beat(self.farm, self.node_id, NodeBeat(draining=draining, running=ids))

    def ask(self, job: Job, claim_id: str | None = None) -> ClaimReply:
        request = ClaimRequest(job_id=job.id, attempt=job.attempt, claim_id=claim_id)
        return claim.claim(self.farm, self.node_id, request)

    def take(self, job: Job) -> Assignment:
        reply = self.ask(job)
        assert reply.assignment is not None, f"declined: {reply.declined}"
        return reply.assignment

    def beat(self, work: Assignment, *, log: str = "") -> LeaseBeatReply:
        message = LeaseBeat(
            attempt=work.attempt,
            lease_token=work.lease_token,
            progress=Progress(fraction=0.5, phase="tactics"),
            log_tail=log,
        )
        return heartbeat.beat(self.farm, self.node_id, work.job_id, message)

    def places(self, work: Assignment, *files: OutputFile) -> list[UploadSlot]:
        request = UploadsRequest(
            attempt=work.attempt, lease_token=work.lease_token, files=list(files)
        )
        return uploads.slots(self.farm, self.node_id, work.job_id, request).files

    def upload(self, work: Assignment, made: list[tuple[OutputFile, bytes]]) -> None:
        for slot, (_, data) in zip(self.places(work, *(f for f, _ in made)), made, strict=True):
            if slot.url is not None:
                answer = httpx.put(slot.url, content=data, headers=slot.headers)
                assert answer.is_success or answer.status_code == ALREADY_THERE, answer.text

    def done(self, work: Assignment, *, upload: bool = True) -> FinishRequest:
        """Do the work and upload it, or only ask where; return the message not sent yet."""
        made = self.made(work)
        log = (_file("log", "job.log", LOG_TYPE, b"built"), b"built")
        if upload:
            self.upload(work, [*made, log])
        else:
            self.places(work, *(file for file, _ in made))
        return FinishRequest(
            attempt=work.attempt,
            lease_token=work.lease_token,
            state=JobState.SUCCEEDED,
            outputs=[file for file, _ in made],
            facts=self.found(work, len(made[0][1]) if made else 0),
            log=log[0] if upload else None,
            peak_memory_bytes=self.took.get(work.stage),
            machine=self.machine() if self.gpus and work.stage is Stage.BENCHMARK else None,
        )

    def machine(self) -> Machine:
        """Return what it says it measured on: the first of its GPUs."""
        return Machine(
            hostname=self.name,
            cpu="EPYC",
            cores=8,
            memory_bytes=self.memory_bytes,
            device=self.gpus[0],
            driver="580.1",
        )

    def tell(self, work: Assignment, message: FinishRequest) -> JobState:
        return finish.finish(self.farm, self.node_id, work.job_id, message).state

    def fail(self, work: Assignment, code: str, blame: Blame) -> JobState:
        failure = Failure(code=code, blame=blame, message="It did not work.")
        return self.tell(
            work,
            FinishRequest(
                attempt=work.attempt,
                lease_token=work.lease_token,
                state=JobState.FAILED,
                failure=failure,
            ),
        )

    def end(self, work: Assignment, state: JobState) -> JobState:
        message = FinishRequest(attempt=work.attempt, lease_token=work.lease_token, state=state)
        return self.tell(work, message)

    def made(self, work: Assignment) -> list[tuple[OutputFile, bytes]]:
        if work.stage is Stage.REPAIR:
            data = b'{"changed": false}'
            made = [(_file("repair", "repair.json", REPAIR_TYPE, data), data)]
            if self.repaired is not None:
                file = _file("model", "model.onnx", MODEL_TYPE, self.repaired)
                made.append((file, self.repaired))
            return made
        if work.stage in PRECISION_STAGES:
            told = b'{"changed": 1}'
            data = self.precise
            return [
                (_file("model", "model.onnx", MODEL_TYPE, data), data),
                (_file("precision", "precision.json", PRECISION_TYPE, told), told),
            ]
        if work.stage is Stage.CHECK:
            data = b'{"findings": []}'
            return [(_file("check", "check.json", CHECK_TYPE, data), data)]
        if work.stage is Stage.COMPILE:
            data = self.engine or f"engine of {work.job_id} by {self.name}".encode()
            kind = ENGINE_TYPES[Target.parse(str(work.target)).backend]
            return [(_file("engine", "model.onnx", kind, data), data)]
        return []

    def found(self, work: Assignment, size: int) -> dict[str, Any]:
        """Return what the stage found; of two engines to compare, which is faster."""
        if "compare" in work.recipe:
            return at_each(work.recipe, compared_facts(self.speedup))
        told = self.facts(work.stage, size) | self.beside(work)
        return at_each(work.recipe, told) if work.stage is Stage.BENCHMARK else told

    def beside(self, work: Assignment) -> dict[str, Any]:
        """Return what it measured beside a twin, if one came with the job."""
        return paired_facts(self.speedup, self.tainted) if "twin" in work.recipe else {}

    def facts(self, stage: Stage, size: int) -> dict[str, Any]:
        if stage is Stage.REPAIR:
            return repair_facts(changed=self.repaired is not None)
        if stage in PRECISION_STAGES:
            return precision_facts(stage, labels=self.labels)
        if stage is Stage.CHECK:
            return {"findings": []}
        if stage is Stage.COMPILE:
            report = {"seconds": 1.5, "engine_bytes": size, "peak_memory_bytes": 1 << 20}
            return {"compile": report, "versions": {"onnxruntime": VERSION}}
        latency = LATENCY | {"trust": trust(self.tainted)}
        return {"latency": [latency], "accuracy": accuracy(self.cosine), "versions": {}}


def _file(role: str, name: str, media_type: str, data: bytes) -> OutputFile:
    return OutputFile(
        role=role, name=name, digest=digest_of(data), size=len(data), media_type=media_type
    )
