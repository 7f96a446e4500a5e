"""A farm that exists only in words: it answers a search's candidates as it was told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from enginefarm.errors import Failure
from enginefarm.precision import Precision, PrecisionKind
from enginefarm.report import GateVerdict
from enginefarm.search import SearchSpec
from enginefarm.search_views import AccuracyOf, Outcome
from enginefarm.sensitivity_report import KeptStep
from enginefarm.state import ArtifactState, Blame
from tasks.search.strategy import Away, next_step, nothing_is_away
from tasks.search.tried import Step, Tried

DATA = "sha256:" + "1" * 64
ARTIFACT = "sha256:" + "a" * 64
MODEL = "sha256:" + "b" * 64
LAYERS = [f"layer-{n}" for n in range(40)]
KINDS = (PrecisionKind.INT8, PrecisionKind.FP16, PrecisionKind.BF16)
Answer = Callable[[Precision], Outcome]


def spec(bound: float = 0.99, target: str = "onnxruntime@cpu", **more: object) -> SearchSpec:
    body = {
        "build": {"model": MODEL, "targets": [target]},
        "calibration": DATA,
        "require": [{"metric": "cosine", "at_least": bound}],
        "space": {"tools": ["onnxruntime"]},
    }
    return SearchSpec.model_validate(body | more)


def outcome(cosine: float, *, bound: float = 0.99, **more: object) -> Outcome:
    met = cosine >= bound
    verdict = GateVerdict(
        gate=f"cosine >= {bound}", value=cosine, met=met, missed_by=None if met else bound - cosine
    )
    told: dict[str, object] = {
        "accuracy_of": AccuracyOf.ENGINE,
        "cosine": cosine,
        "latency_p99_ms": 5.0,
        "memory_bytes": 1000,
        "engine_bytes": 1000,
        "verdicts": [verdict],
        "met": met,
        "accurate": met,
        "artifact": ARTIFACT,
        "artifact_state": ArtifactState.PUBLISHED if met else ArtifactState.QUARANTINED,
    }
    return Outcome.model_validate(told | more)


def failed(code: str = "precision_not_loadable") -> Outcome:
    return Outcome(failure=Failure(code=code, blame=Blame.PERSON, message="It did not work."))


def needing(count: int, *, bound: float = 0.99, guess: int = 1, plain: float = 0.9) -> Answer:
    """Answer as a model that meets the bound if so many of its layers are kept.

    ``guess`` is what the trials on few samples say; ``plain``: the cosine if all are int8.
    """

    def answer(precision: Precision) -> Outcome:
        if precision.kind is not PrecisionKind.INT8:
            return outcome(0.99999, bound=bound, latency_p99_ms=9.0, engine_bytes=4000)
        kept = len(precision.exclude)
        cosine = bound + 1e-4 * (kept - count) if kept >= count else plain + kept * 1e-5
        steps = [KeptStep(kept=0, cosine=plain), KeptStep(kept=guess, cosine=1.0)]
        told = {"layers": LAYERS, "steps": steps} if precision.sensitivity else {}
        return outcome(cosine, bound=bound, latency_p99_ms=3 + kept * 0.1, **told)

    return answer


@dataclass
class Searched:
    """A search, step by step, by a farm that ends its candidates in the order of ``ends``."""

    spec: SearchSpec
    answer: Answer
    kinds: Sequence[PrecisionKind] = KINDS
    tried: list[Tried] = field(default_factory=list)
    most_at_once: int = 0
    away: Away = nothing_is_away

    def step(self, *, late: bool = False) -> Step:
        found = next_step(self.spec, self.kinds, self.tried, late=late, away=self.away)
        self.tried += [Tried(row.precision, None, row.profile) for row in found.proposals]
        under_way = sum(row.outcome is None for row in self.tried)
        self.most_at_once = max(self.most_at_once, under_way)
        return found

    def end(self, at: int) -> None:
        row = self.tried[at]
        self.tried[at] = Tried(row.precision, self.answer(row.precision), row.profile)

    def run(self) -> Step:
        """Let the youngest candidate end first, until the search is over."""
        found = self.run_while_it_goes_on()
        assert found.over, found
        return found

    def run_while_it_goes_on(self) -> Step:
        """Do as :meth:`run`, or until only a tool is waited for."""
        for _ in range(1000):
            found = self.step()
            if found.over or found.waits:
                return found
            self.end(max(at for at, row in enumerate(self.tried) if row.outcome is None))
        raise AssertionError(self.tried)

    def kept(self) -> list[int]:
        """Return how many layers each int8 candidate kept, in order."""
        return [
            len(row.precision.exclude)
            for row in self.tried
            if row.precision.kind is PrecisionKind.INT8 and row.profile is None
        ]
