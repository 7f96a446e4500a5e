"""A farm with several tenants and nodes, a broker that forgets and repeats, and a clock to push.

Nothing sleeps: time passes by moving every moment that the rows hold into the past. The clocks are
a hundred times slower than a farm's, so that how long the test itself takes decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import httpx
from celery import Celery
from sqlalchemy import select

from enginefarm.digest import digest_of
from enginefarm.manifest import CHECK_TYPE, ENGINE_TYPES, LOG_TYPE, REPAIR_TYPE
from enginefarm.report import Machine
from enginefarm.state import JobState, NodeState, Stage
from enginefarm.target import Target
from storage.models import Artifact, Attempt, Base, Build, Garbage, Job, Model, Node, Outbox
from storage.objects import Objects
from storage.signing import StatementSigner
from tasks import claim
from tasks.dispatcher import dispatch
from tasks.farm import Farm, Policy
from tasks.messages import (
    Assignment,
    ClaimReply,
    ClaimRequest,
    Device,
    FinishRequest,
    NodeDescription,
    OutputFile,
    Ring,
    UploadSlot,
)
from tests.integration.tasks.ageing import let_pass
from tests.integration.tasks.fake_node import ALREADY_THERE, FakeNode, backend
from tests.integration.tasks.life.bucket import AgeingBucket, clear
from tests.integration.tasks.life.traps import Trap, trapped
from tests.integration.tasks.scene import Scene, add_model

OK = 200
GPU, LATER = "onnxruntime@sm_89", "onnxruntime@sm_90"
GPUS = {"l4": "NVIDIA L4", "geforce-rtx-4090": "NVIDIA GeForce RTX 4090"}
"""Of the architecture of :data:`GPU`, by SKU."""
POLICY = Policy(
    lease_s=90_000,
    node_heartbeat_s=1_000,
    node_silent_s=45_000,
    retry_backoff_s=500,
    decline_pause_s=200,
    ring_again_s=1_500,
    rings_kept_s=8_640_000,
    publish_lease_s=12_000,
    sweep_every_s=0,
    garbage_grace_s=150_000,  # longer than what passes within a step
    pending_s=60_480_000,
)
MACHINE = Machine(hostname="rack-1", cpu="EPYC", cores=8, memory_bytes=1 << 34, device="cpu")
WINDOW_S = 300_000
PASSING = {"a pause": 2_600, "a silence": 50_000, "a lease": 100_000, "a window": 310_000}
A_GRACE = 160_000
_DATED = (Build, Job, Attempt, Outbox, Node, Garbage, Model, Artifact)


class Broker:
    """Keeps every ring that it was given, so that an old one may be heard again."""

    def __init__(self) -> None:
        self.rings: list[Ring] = []
        self.heard: list[Ring] = []
        self.fate = "kept"

    def send_task(self, _name: str, *, kwargs: dict[str, Any], **_: object) -> None:
        if self.fate == "away":
            message = "connection refused"
            raise OSError(message)
        copies = {"kept": 1, "lost": 0, "twice": 2}[self.fate]
        self.rings += [Ring(**kwargs)] * copies

    def take(self) -> Iterator[Ring]:
        """Give the rings that nobody has heard yet, the oldest first."""
        while self.rings:
            self.heard.append(self.rings.pop(0))
            yield self.heard[-1]


@dataclass
class Work:
    """What a node was given, and how far it is with it."""

    given: Assignment
    node: LifeNode
    message: FinishRequest | None = None
    asked: bool = False  # places for what it made
    ended: bool = False  # the farm has taken its end
    answer: JobState | None = None  # what it answered, unless that was lost

    @property
    def at(self) -> tuple[str, int]:
        return self.given.job_id, self.given.attempt


@dataclass
class LifeNode(FakeNode):
    """A node whose engines tell attempts apart, unless it makes the same one each time."""

    dead: bool = False
    draining: bool = False
    heard_at: int = 0
    skus: tuple[str, ...] = ()
    http: ClassVar[httpx.Client]

    def described(self) -> NodeDescription:
        devices = [
            Device(arch="sm_89", name=GPUS[sku], uuid=f"GPU-{self.name}-{sku}") for sku in self.skus
        ]
        return super().described().model_copy(update={"devices": devices})

    def hear(self, ring: Ring) -> ClaimReply:
        request = ClaimRequest(job_id=ring.job_id, attempt=ring.attempt)
        return claim.claim(self.farm, self.node_id, request)

    def upload(self, work: Assignment, made: list[tuple[OutputFile, bytes]]) -> None:
        slots = self.places(work, *(file for file, _ in made)) if made else []
        for slot, (_, data) in zip(slots, made, strict=True):
            answer = self.put(slot, data)
            assert answer in {None, OK, ALREADY_THERE}

    def put(self, slot: UploadSlot, data: bytes) -> int | None:
        """Send bytes to their slot, if they are to be sent; return the bucket's answer."""
        if slot.url is None:
            return None
        return self.http.put(slot.url, content=data, headers=slot.headers).status_code

    def made(self, work: Assignment) -> list[tuple[OutputFile, bytes]]:
        who = f"{work.job_id} {work.attempt}"
        if work.stage is Stage.REPAIR:
            return [_output("repair", "repair.json", REPAIR_TYPE, f'{{"by": "{who}"}}'.encode())]
        if work.stage is Stage.CHECK:
            return [_output("check", "check.json", CHECK_TYPE, f'{{"by": "{who}"}}'.encode())]
        if work.stage is Stage.COMPILE:
            kind = ENGINE_TYPES[Target.parse(str(work.target)).backend]
            data = self.engine or f"engine of {who} by {self.name}".encode()
            return [_output("engine", "model.onnx", kind, data)]
        return []

    def log(self, work: Assignment) -> list[tuple[OutputFile, bytes]]:
        """Return what is told of a compile, which is the one that tells anything."""
        said = f"how {self.name} did {work.job_id} {work.attempt}".encode()
        return [_output("log", "job.log", LOG_TYPE, said)] * (work.stage is Stage.COMPILE)

    def success(
        self, work: Assignment, outputs: list[OutputFile], log: OutputFile | None = None
    ) -> FinishRequest:
        size = outputs[0].size if outputs else 0
        gpu = GPUS.get(work.sku or "", "cpu")
        return FinishRequest(
            attempt=work.attempt,
            lease_token=work.lease_token,
            state=JobState.SUCCEEDED,
            outputs=outputs,
            facts=self.facts(work.stage, size),
            machine=MACHINE.model_copy(update={"device": gpu}),
            log=log,
        )


def _output(role: str, name: str, media_type: str, data: bytes) -> tuple[OutputFile, bytes]:
    digest = digest_of(data)
    row = OutputFile(role=role, name=name, digest=digest, size=len(data), media_type=media_type)
    return row, data


@dataclass
class World:
    """Everything of one schedule.

    ``farm`` is sound; steps are taken on ``brittle``, the same farm with a trap.
    """

    farm: Farm
    trap: Trap = field(default_factory=Trap)
    broker: Broker = field(default_factory=Broker)
    works: list[Work] = field(default_factory=list)
    brought: dict[str, bytes] = field(default_factory=dict)
    clock: int = 0

    def __post_init__(self) -> None:
        """Let tenants, their model and the first nodes come."""
        objects = cast("Objects", AgeingBucket(self.farm.objects, self))
        self.farm = replace(self.farm, policy=POLICY, objects=objects)
        self.brittle = trapped(self.farm, self.trap)
        self.tenants = [self._tenant(name) for name in ("acme", "rival")]
        self.nodes = [
            LifeNode(self.brittle, "node-a"),
            LifeNode(self.brittle, "node-b", slots=2, engine=b"the same engine each time"),
            LifeNode(self.brittle, "node-g", [backend(arch="sm_89")], cosine=0.5, skus=tuple(GPUS)),
        ]

    def _tenant(self, name: str) -> Scene:
        scene = Scene.on(self.brittle, name)
        self.bring(scene, b"a model that both tenants have")
        return scene

    def bring(self, owner: Scene, data: bytes) -> None:
        """Let a tenant upload a model, perhaps again; it asks for builds of this one from now."""
        owner.model = add_model(self.farm, owner.tenant_id, data)
        self.brought[owner.model] = data

    @property
    def app(self) -> Celery:
        return cast("Celery", self.broker)

    @property
    def signer(self) -> StatementSigner:
        return cast("StatementSigner", self.brittle.signer)

    def announce(self, fate: str = "kept") -> int:
        self.broker.fate = fate
        return dispatch(self.brittle, self.app)

    def living(self) -> list[LifeNode]:
        return [node for node in self.nodes if not node.dead]

    def newcomer(self, name: str, arch: str) -> LifeNode:
        before = next((row.credential for row in self.nodes if row.name == name), None)
        node = LifeNode(
            self.brittle,
            name,
            [backend(arch=arch)],
            heard_at=self.clock,
            credential=before,
            skus=tuple(GPUS) if arch == Target.parse(GPU).arch else (),
        )
        self.nodes = [row for row in self.nodes if row.name != name] + [node]
        return node

    def of(self, node: LifeNode) -> list[Work]:
        return [work for work in self.works if work.node is node and not work.ended]

    def time_passes(self, seconds: int) -> None:
        """Let everything that the rows tell of have been so much earlier."""
        self.clock += seconds
        tables = (Base.metadata.tables[row.__tablename__] for row in _DATED)
        let_pass(self.farm, seconds, tables)

    def measuring(self) -> set[str]:
        """Return the SKUs that active nodes have."""
        with self.farm.database.transaction() as session:
            query = select(Node.name).where(Node.state == NodeState.ACTIVE)
            active = set(session.scalars(query))
        return {sku for node in self.nodes if node.name in active for sku in node.skus}

    def serving(self, target: str) -> bool:
        """Tell whether an active node builds for a target."""
        arch = Target.parse(target).arch
        with self.farm.database.transaction() as session:
            query = select(Node.queues).where(Node.state == NodeState.ACTIVE)
            return any(f"compile.{arch}" in queues for queues in session.scalars(query))


def empty(farm: Farm) -> None:
    """Let no row and no object be left of an earlier schedule."""
    clear(farm.objects)
    with farm.database.transaction() as session:
        for table in reversed(Base.metadata.sorted_tables):
            session.execute(table.delete())
