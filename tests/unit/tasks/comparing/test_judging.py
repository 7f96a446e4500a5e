"""Which of two is faster, by statistics: what is alike is not told apart, what differs is found."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from enginefarm.comparison_report import ComparedAt, ComparedRuns, ComparisonVerdict, SideRuns
from enginefarm.spec import BenchmarkOptions
from enginefarm.trust_record import TrustRecord
from tasks.comparing.judging import judged_at, overall
from workers.measurement.latency import kept_runs, summarize
from workers.measurement.side_by_side import take_turns

OPTIONS = BenchmarkOptions(warmup_ms=0)
SEEDS = range(40)
FASTER, SLOWER = ComparisonVerdict.FASTER, ComparisonVerdict.SLOWER
ALIKE, UNKNOWN = ComparisonVerdict.ALIKE, ComparisonVerdict.CANNOT_TELL


@dataclass
class Machine:
    """A machine whose runs vary, now and then by much, and which becomes slower and faster."""

    seed: int
    spread: float = 0.03
    drift: float = 0.2
    now: float = 0.0
    stopping: bool = False
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        """Begin the series of its seed."""
        self._random = random.Random(self.seed)  # noqa: S311 - a simulation

    def engine(self, ms: float) -> Callable[[], None]:
        def run() -> None:
            noise = math.exp(self._random.gauss(0, self.spread))
            spike = 4.0 if self._random.random() < 0.01 else 1.0
            slowed = 1 + self.drift * math.sin(2 * math.pi * self.now / 1.5)
            self.now += ms * noise * spike * slowed / 1000

        return run

    def clock(self) -> float:
        return self.now

    def report(self, fraction: float | None, phase: str, detail: str = "") -> None:
        """Nobody listens."""


def trust(*tainted: str) -> TrustRecord:
    return TrustRecord(exclusive=True, exclusive_proof="by the test", tainted=list(tainted))


def measured(seed: int, a_ms: float, b_ms: float, spread: float = 0.03) -> ComparedAt:
    """Return what is said of two engines that take so long on a machine like that."""
    it = Machine(seed, spread)
    found = take_turns(it.engine(a_ms), it.engine(b_ms), OPTIONS, it.clock, it)
    sides = [
        SideRuns(end_to_end_ms=summarize(runs), runs_ms=kept_runs(runs))
        for runs in (found.first, found.second)
    ]
    return judged_at(
        ComparedRuns(
            shapes={"x": [1]},
            batch=1,
            first=sides[0],
            second=sides[1],
            ratios=found.ratios,
            trust=trust(),
        )
    )


def row(*ratios: float, tainted: tuple[str, ...] = (), shape: int = 1) -> ComparedRuns:
    """Return a measurement whose pairs have these ratios."""
    runs = [1.0, 1.0]
    a = SideRuns(end_to_end_ms=summarize(runs), runs_ms=runs)
    b_runs = [1 / ratios[0]] * 2
    b = SideRuns(end_to_end_ms=summarize(b_runs), runs_ms=b_runs)
    return ComparedRuns(
        shapes={"x": [shape]},
        batch=shape,
        first=a,
        second=b,
        ratios=list(ratios),
        trust=trust(*tainted),
    )


def test_an_engine_held_against_itself_is_alike_in_95_of_100_measurements_at_least() -> None:
    said = [measured(seed, 2.0, 2.0).verdict for seed in SEEDS]
    assert said.count(ALIKE) >= 0.95 * len(said)
    assert FASTER not in said
    assert SLOWER not in said


@pytest.mark.parametrize(("a_ms", "b_ms", "verdict"), [(2.1, 2.0, FASTER), (2.0, 2.1, SLOWER)])
def test_a_difference_of_5_percent_is_found_on_a_machine_that_drifts_by_20(
    a_ms: float, b_ms: float, verdict: ComparisonVerdict
) -> None:
    said = [measured(seed, a_ms, b_ms) for seed in SEEDS]
    assert [row.verdict for row in said].count(verdict) >= 0.95 * len(said)
    inside = [(row.low or 0) <= a_ms / b_ms <= (row.high or 0) for row in said]
    assert inside.count(True) >= 0.95 * len(said)


def test_on_a_machine_that_is_not_quiet_nothing_is_made_up() -> None:
    said = {measured(seed, 2.0, 2.0, spread=0.6).verdict for seed in SEEDS}
    assert said <= {UNKNOWN, ALIKE}
    assert UNKNOWN in said


def test_a_tainted_measurement_says_nothing_however_clear_it_is() -> None:
    told = judged_at(row(*[2.0] * 31, tainted=("clocks were held down: thermal",)))
    assert told.verdict is UNKNOWN
    assert "thermal" in told.why
    assert told.speedup == 2.0


def test_too_few_pairs_say_nothing() -> None:
    told = judged_at(row(*[2.0] * 5))
    assert (told.verdict, told.low) == (UNKNOWN, None)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.02] * 31, ALIKE),  # surely faster, by less than matters
        ([1.06] * 31, FASTER),
        ([0.94] * 31, SLOWER),
        ([1.02] * 15 + [1.05] * 16, FASTER),
        ([1.01] * 10 + [1.02] * 8 + [1.05] * 13, UNKNOWN),  # surely faster; enough to matter?
        ([0.99] * 12 + [1.03] * 7 + [1.06] * 12, UNKNOWN),  # it may matter, or not
    ],
)
def test_the_interval_decides(ratios: list[float], verdict: ComparisonVerdict) -> None:
    told = judged_at(row(*reversed(ratios)))
    assert told.verdict is verdict, told.why


def test_single_runs_that_point_the_other_way_take_the_verdict_back() -> None:
    other_way = row(*[1.06] * 31).model_copy(update={"second": row(0.9).second})
    assert judged_at(other_way).verdict is UNKNOWN


def test_of_several_shapes_the_worst_decides_and_a_contradiction_is_told() -> None:
    alike, faster = judged_at(row(*[1.0] * 31)), judged_at(row(*[1.5] * 31, shape=2))
    slower, tainted = judged_at(row(*[0.5] * 31, shape=4)), judged_at(row(1.0, tainted=("x",)))
    assert overall([alike])[0] is ALIKE
    assert overall([alike, faster])[0] is FASTER
    assert overall([alike, slower])[0] is SLOWER
    verdict, reason = overall([faster, slower])
    assert verdict is UNKNOWN
    assert "it depends on the shape: faster at x 2" in reason
    assert overall([faster, tainted])[0] is UNKNOWN
