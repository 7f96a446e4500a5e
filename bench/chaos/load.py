"""Who submits: a few tenants at once, through the public client, as long as the killing lasts.

Each asks for one of a few models with one of a few seeds, and now and then for the same again at
once: so some builds are new, some join what is in flight and some are answered from the cache.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from onnx import TensorProto, helper

from bench.chaos.farm import Say
from enginefarm.client import FarmClient
from enginefarm.errors import FarmError, Unavailable
from enginefarm.spec import BenchmarkOptions, BuildSpec, StageOptions
from enginefarm.state import Scope
from localfarm.folder import Folder, read_client_file
from storage import access
from storage.database import Database

MODELS, SEEDS, AGAIN = 3, 8, 0.3
TARGET = "onnxruntime@cpu"
_QUICK = BenchmarkOptions(warmup_ms=0, min_iterations=10, min_duration_ms=1, max_duration_ms=100)
_PATIENCE_S = 240.0
_AHEAD = 0.1
Answer = TypeVar("Answer")


@dataclass
class Load:
    """What was asked, and what the farm has accepted: idempotency keys and build ids."""

    url: str
    tenants: dict[str, str]
    models: Sequence[Path]
    builds: int
    seed: int
    pace: Callable[[], float]
    say: Say
    asked: set[str] = field(default_factory=set)
    accepted: set[str] = field(default_factory=set)
    away: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def start(self) -> list[threading.Thread]:
        """Let every tenant submit its part of the builds, in a thread of its own."""
        each = {name: self.builds // len(self.tenants) for name in self.tenants}
        for name in list(each)[: self.builds % len(self.tenants)]:
            each[name] += 1
        threads = [
            threading.Thread(target=self._submit_all, args=(name, count), name=name, daemon=True)
            for name, count in each.items()
        ]
        for thread in threads:
            thread.start()
        return threads

    def _submit_all(self, tenant: str, count: int) -> None:
        rng = random.Random(f"{self.seed} {tenant}")  # noqa: S311 - to be repeated, not secret
        with FarmClient(self.url, self.tenants[tenant]) as farm:
            models = [self._persist(lambda row=row: farm.models.upload(row)) for row in self.models]  # type: ignore[misc]
            spec = None
            for number in range(count):
                while number > count * (self.pace() + _AHEAD):
                    time.sleep(0.1)
                if spec is None or rng.random() > AGAIN:
                    model = rng.choice([row for row in models if row is not None])
                    spec = _spec(model.digest, rng.randrange(SEEDS))
                self._submit(farm, spec)

    def _submit(self, farm: FarmClient, spec: BuildSpec) -> None:
        key = uuid.uuid4().hex
        self.asked.add(key)
        answer = self._persist(lambda: farm.builds.submit(spec, key))
        if answer is not None:
            self.accepted.add(answer[0].id)

    def _persist(self, ask: Callable[[], Answer]) -> Answer | None:
        """Ask until there is an answer, as whoever uses a farm whose parts come and go must."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return ask()
            except Unavailable as error:
                self.away[error.code] += 1
                late = time.monotonic() > deadline
            except FarmError as error:
                # Nothing that was asked here is wrong: to be refused is a finding.
                self.refused[error.code] += 1
                self.say(f"  refused: [{error.code}] {error} {error.why or ''}")
                late = time.monotonic() > deadline
            if late:
                return None
            time.sleep(0.3)


def make_tenants(folder: Folder, database: Database, number: int) -> dict[str, str]:
    """Return an access key for each of a few tenants; the farm's own is the first."""
    keys = {"local": read_client_file(folder)["key"]}
    for index in range(1, number):
        name = f"tenant-{index}"
        with database.transaction() as session:
            tenant = access.ensure_tenant(session, name)
            keys[name] = access.create_key(session, tenant.id, "bench", [Scope.SUBMIT])[1]
    return keys


def make_models(folder: Path) -> list[Path]:
    """Write a few models of one layer, each like no other."""
    paths = []
    for number in range(MODELS):
        weight = helper.make_tensor("w", TensorProto.FLOAT, [4], [float(number)] * 4)
        graph = helper.make_graph(
            [helper.make_node("Add", ["x", "w"], ["y"])],
            "added",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
            [weight],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        path = folder / f"added-{number}.onnx"
        path.write_bytes(model.SerializeToString())
        paths.append(path)
    return paths


def _spec(model: str, seed: int) -> BuildSpec:
    options = StageOptions(benchmark=_QUICK).model_dump(mode="json")
    return BuildSpec.model_validate(
        {
            "model": model,
            "targets": [TARGET],
            "options": options,
            "seed": seed,
            # The one node is away now and then; who can wait says so, and is not refused.
            "wait_for_node": 3600,
        }
    )
