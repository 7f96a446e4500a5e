"""Searches on the real database: a node that answers by what a candidate keeps in fp32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from enginefarm.digest import canonical_json, digest_of
from enginefarm.search import SearchSpec
from enginefarm.state import PRECISION_STAGES, JobState, Stage
from storage import jobs, searches
from storage.models import Candidate, Job, Search
from tasks.messages import Assignment, FinishRequest
from tasks.search import advance, begin
from tasks.submit import Requester
from tests.integration.tasks.fake_facts import accuracy
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import CPU, Scene
from tests.integration.tasks.test_precisions import dataset

LAYERS = [f"layer-{n}" for n in range(8)]


@dataclass
class Answering(FakeNode):
    """A node whose int8 models meet 0.99 if ``needed`` of their layers are kept."""

    needed: int = 3
    work: Assignment | None = None
    models: dict[str, Any] = field(default_factory=dict)
    engines: dict[str, Any] = field(default_factory=dict)

    def done(self, work: Assignment, *, upload: bool = True) -> FinishRequest:
        self.work = work
        if work.stage in PRECISION_STAGES:
            self.precise = canonical_json(work.recipe["precision"])
            told = {"digest": digest_of(self.precise), "name": "model.onnx"}
            listed = {"files": [told | {"size": len(self.precise)}]}
            self.models[digest_of(canonical_json(listed))] = work.recipe["precision"]
        if work.stage is Stage.COMPILE:
            model: Any = work.recipe["model"]
            asked = self.models.get(model["digest"])
            self.engine = f"engine of {model['digest']}".encode() + b"." * self.weight(asked)
            self.engines[digest_of(self.engine)] = asked
        return super().done(work, upload=upload)

    def weight(self, asked: Any) -> int:  # noqa: ANN401 - a recipe
        if asked is None:
            return 400
        return len(asked["exclude"]) if asked["kind"] == "int8" else 200

    def facts(self, stage: Stage, size: int) -> dict[str, Any]:
        told = super().facts(stage, size)
        assert self.work is not None
        if stage is Stage.CALIBRATE:
            asked: Any = self.work.recipe["precision"]
            if "sensitivity" in asked:
                told["precision"]["sensitivity"] = costs()
        if stage is Stage.BENCHMARK:
            engine: Any = self.work.recipe["engine"]
            told["accuracy"] = accuracy(self.near(self.engines.get(engine["digest"])))
        return told

    def near(self, asked: Any) -> float:  # noqa: ANN401 - a recipe
        if asked is None or asked["kind"] != "int8":
            return 0.99999
        kept = len(asked["exclude"])
        return 0.991 if kept >= self.needed else 0.9 + kept / 1000


def costs() -> dict[str, Any]:
    rows = [{"node": name, "operator": "Conv", "cosine_loss": 0.01} for name in LAYERS]
    steps = [{"kept": 0, "cosine": 0.9}, {"kept": 8, "cosine": 1.0}]
    counts = {"layers_count": 8, "tried": 8, "estimate_samples": 9, "trial_samples": 4}
    return {"how": "as a test wants it", "layers": rows, "steps": steps} | counts


@dataclass
class Searching:
    """One search, and how its candidates are worked on."""

    scene: Scene
    id: str

    @classmethod
    def begun(cls, scene: Scene, key: str | None = None, **more: object) -> Searching:
        with scene.farm.database.transaction() as session:
            requester = Requester(scene.tenant_id, None, key)
            return cls(scene, begin.begin(session, requester, asked(scene, **more)).search.id)

    def step(self) -> None:
        advance.advance_due(self.scene.farm)

    def row(self) -> Search:
        with self.scene.farm.database.transaction() as session:
            return searches.get(session, self.scene.tenant_id, self.id)

    def candidates(self) -> Sequence[Candidate]:
        with self.scene.farm.database.transaction() as session:
            return searches.candidates(session, self.id)

    def builds(self) -> list[str]:
        return [row.build_id for row in self.candidates() if row.build_id is not None]

    def queued(self) -> list[Job]:
        found = []
        with self.scene.farm.database.transaction() as session:
            for build_id in self.builds():
                found += jobs.of_build(session, self.scene.tenant_id, build_id)
        return [row for row in found if row.state is JobState.QUEUED and row.joined_to is None]

    def work(self, node: FakeNode) -> None:
        """Let a node do all that is queued, and publish what comes of it."""
        while queued := self.queued():
            for job in queued:
                work = node.take(job)
                assert node.tell(work, node.done(work)) is JobState.UPLOADED
                self.scene.settle()
        self.scene.publish()

    def run(self, node: FakeNode) -> Search:
        for _ in range(40):
            self.step()
            if self.row().state.terminal:
                return self.row()
            self.work(node)
        raise AssertionError(self.row().verdict)


def asked(scene: Scene, **more: object) -> SearchSpec:
    body: dict[str, Any] = {
        "build": {
            "model": scene.model,
            "targets": [CPU],
            "evaluation": dataset(scene, "held out"),
        },
        "calibration": dataset(scene, "calibration"),
        "require": [{"metric": "cosine", "at_least": 0.99}],
        "prefer": "size",
        "space": {"kinds": ["int8", "fp16"], "methods": ["minmax"]},
    }
    return SearchSpec.model_validate(body | more)
