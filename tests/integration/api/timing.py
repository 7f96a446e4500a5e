"""Nodes whose GPU exists in words only: they build over the real API, their timings are sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from enginefarm.digest import digest_of
from enginefarm.state import Stage
from storage.models import Job
from tasks.messages import (
    Assignment,
    BackendDescription,
    ClaimReply,
    Device,
    NodeDescription,
    OutputFile,
    TimingOffer,
    TimingReply,
    UploadsReply,
)
from tests.integration.api.served import Served
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene
from tests.timing_sets import VERSION, SetCaches, names_in, packed
from workers.offering import offer
from workers.timing import ChildTiming, merge_files

TARGET = "tensorrt@sm_89"
GPU = "NVIDIA L4"


@dataclass
class GpuNode(FakeNode):
    """A node that builds TensorRT engines; ``gpu`` and ``version`` part its caches from others'."""

    gpu: str = GPU
    version: str = VERSION
    cuda: str | None = "13"
    caches: SetCaches = field(default_factory=SetCaches)

    def described(self) -> NodeDescription:
        backend = BackendDescription(
            name="tensorrt", version=self.version, builds=["sm_89"], measures=[], cuda=self.cuda
        )
        device = Device(arch="sm_89", name=self.gpu)
        told = {"backends": [backend], "devices": [device]}
        return super().described().model_copy(update=told)


@dataclass
class HttpRoad:
    """The way of one attempt to the farm, as :class:`workers.offering.Road`."""

    api: Served
    credential: str | None
    work: Assignment
    caches: SetCaches
    folder: Path
    refused: list[str] = field(default_factory=list)

    def send(self, path: Path) -> OutputFile:
        data = path.read_bytes()
        file = OutputFile(
            role="timing-cache",
            name="timing.cache",
            digest=digest_of(data),
            size=len(data),
            media_type="application/octet-stream",
        )
        reply = UploadsReply.model_validate(
            self.post("uploads", files=[file.model_dump(mode="json")]).json()
        )
        slot = reply.files[0]
        if slot.url is not None:
            answer = httpx.put(slot.url, content=data, headers=slot.headers)
            assert answer.status_code in {200, 412}, answer.text
        return file

    def merge(self, file: OutputFile, base: int, left: ChildTiming) -> TimingReply:
        answer = self.post(
            "timing-cache",
            base=base,
            digest=file.digest,
            size=file.size,
            entries=left.entries,
            hits=left.hits,
        )
        assert answer.status_code == 200, answer.text
        return TimingReply.model_validate(answer.json())

    def refuse(self, digest: str, why: str) -> TimingReply:
        self.refused.append(digest)
        answer = self.post("timing-cache/refusals", digest=digest, why=why)
        assert answer.status_code == 200, answer.text
        return TimingReply.model_validate(answer.json())

    def join(self, mine: Path, newest: TimingOffer) -> ChildTiming:
        assert newest.newest is not None
        theirs = self.folder / "theirs"
        theirs.write_bytes(httpx.get(newest.newest.url).content)
        return merge_files(self.caches, mine, theirs, self.folder)

    def post(self, path: str, **message: object) -> httpx.Response:
        told = {"attempt": self.work.attempt, "lease_token": self.work.lease_token, **message}
        with self.api.with_text(self.credential) as client:
            return client.post(f"/worker/v1/jobs/{self.work.job_id}/{path}", json=told)


@dataclass
class Building:
    """A compile job that a node has claimed over the API."""

    road: HttpRoad
    given: TimingOffer

    def build(self, *timed: str) -> str:
        """Time what is asked for, beside what the snapshot has, and offer it."""
        begun, refused = packed(), None
        if self.given.newest is not None:
            begun = httpx.get(self.given.newest.url).content
            if self.road.caches.entries(begun) is None:
                begun, refused = packed(), "timing cache header mismatch"
        data = packed(*names_in(begun), *timed)
        path = self.road.folder / "timing.cache"
        path.write_bytes(data)
        hits = len(names_in(begun))
        left = ChildTiming(path=path, entries=len(names_in(data)), hits=hits, refused=refused)
        return offer(self.road, self.given, left, began_with_it=refused is None)


def compiling(scene: Scene, node: FakeNode, number: int = 0, **options: object) -> Job:
    """Submit a build whose key is its own, and bring it to its compile stage."""
    body = {"compile": {"workspace_mib": number + 1, **options}, "repair": {"mode": "none"}}
    build_id = scene.submit(TARGET, options=body)
    scene.do(node, build_id, Stage.CHECK, TARGET)
    return scene.job(build_id, Stage.COMPILE, TARGET)


def claimed(api: Served, node: GpuNode, job: Job, folder: Path) -> Building:
    """Claim a compile job over the API."""
    with api.with_text(node.credential) as client:
        answer = client.post("/worker/v1/claims", json={"job_id": job.id, "attempt": job.attempt})
    work = ClaimReply.model_validate(answer.json()).assignment
    assert work is not None, answer.text
    assert work.timing_cache is not None, "the claim came without a timing cache"
    folder.mkdir()
    return Building(HttpRoad(api, node.credential, work, node.caches, folder), work.timing_cache)


def lost(kept: set[str], timed: Iterable[str]) -> set[str]:
    """Return what was timed and is not kept."""
    return set(timed) - kept
