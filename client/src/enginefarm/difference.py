"""How two artifacts differ, from their reports: recipe, size, latency, accuracy. Pure.

Latency has a verdict only where both were measured on the same kind of device, at the same shapes,
and nothing tainted either.
Two things must hold for "slower" or "faster": the ranks of the kept runs say that they differ (p
below 0.01), and the medians differ by at least 3 %. The first alone finds differences that matter
to nobody, the second alone finds noise. Two measurements are two moments of a machine, which no
test of their runs can see: where it counts, measure again.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from enginefarm.built_with import built_with
from enginefarm.comparable import (
    data_differ,
    machines_differ,
    metrics_differ,
    runs_differ,
    side_by_side,
    which_tainted,
)
from enginefarm.rank_test import rank_test
from enginefarm.report import AccuracyReport, BuildReport, LatencyReport, OutputAccuracy

SIGNIFICANT = 0.01
NOTICEABLE = 0.03
WORSE_DECIBELS = 1.0
LEAST_RUNS = 20
ACCURACIES = (
    *("cosine", "cosine_worst", "snr_db", "psnr_db", "max_abs_error", "mean_abs_error"),
    *("top1_agreement", "top5_agreement", "nonfinite_engine"),
)


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Verdict(StrEnum):
    """What is said of B, compared with A."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    NOT_COMPARABLE = "not-comparable"


class Changed(_Data):
    """A part of how they were built that is not the same."""

    what: str
    a: JsonValue
    b: JsonValue


class Number(_Data):
    """One number of both."""

    name: str
    a: float | None
    b: float | None


class LatencyDifference(_Data):
    """The latency at one shape."""

    shapes: dict[str, list[int]]
    verdict: Verdict
    why: str
    numbers: list[Number] = []
    percent: float | None = Field(default=None, description="Change of the median.")
    p_value: float | None = None
    b_takes_longer: float | None = Field(
        default=None, description="Probability that a run of B takes longer than one of A."
    )
    runs: list[int] = Field(default=[], description="How many runs of A and of B were compared.")


class OutputDifference(_Data):
    """The accuracy of one output, each against its own original."""

    output: str
    numbers: list[Number]
    worse: bool


class Difference(_Data):
    """All of it. ``worse`` says in words in what B is worse than A; empty: in nothing."""

    a: str
    b: str
    recipe: list[Changed]
    engine_bytes: Number
    latency: list[LatencyDifference]
    accuracy: list[OutputDifference]
    accuracy_reason: str | None = Field(default=None, description="Why it is not compared.")
    model_accuracy: list[OutputDifference] = Field(
        default=[], description="Of the model files in their precisions."
    )
    model_accuracy_reason: str | None = Field(default=None, description="Why it is not compared.")
    verdict: Changed | None = Field(
        default=None, description="What is said of each one's precision, if it differs."
    )
    metric: Number | None = None
    metric_reason: str | None = None
    worse: list[str]

    @property
    def compared(self) -> bool:
        """Whether anything but sizes could be compared: else nothing can be said of B."""
        judged = any(row.verdict is not Verdict.NOT_COMPARABLE for row in self.latency)
        return judged or bool(self.accuracy or self.model_accuracy) or self.metric is not None


def difference(a: tuple[str, BuildReport], b: tuple[str, BuildReport]) -> Difference:
    """Compare two artifacts, each by its name and its report."""
    left, right = a[1], b[1]
    latency = list(_latencies(left, right))
    reason, outputs = _accuracy(left, right)
    metric, metric_reason, metric_worse = _metric(left, right)
    worse = [f"slower at {_shapes(row)}" for row in latency if row.verdict is Verdict.SLOWER]
    worse += [f"output {row.output} is less accurate" for row in outputs if row.worse]
    file_reason, files = _files(left, right)
    worse += [
        f"output {row.output} of the model file is less accurate" for row in files if row.worse
    ]
    worse += [metric_worse] if metric_worse else []
    size = _number("engine_bytes", left.compile.engine_bytes, right.compile.engine_bytes)
    return Difference(
        a=a[0],
        b=b[0],
        recipe=list(_recipe(left, right)),
        engine_bytes=size,
        latency=latency,
        accuracy=outputs,
        accuracy_reason=reason,
        model_accuracy=files,
        model_accuracy_reason=file_reason,
        verdict=_verdicts(left, right),
        metric=metric,
        metric_reason=metric_reason,
        worse=worse,
    )


def _recipe(a: BuildReport, b: BuildReport) -> Iterator[Changed]:
    """Yield what decides an engine and differs, in the order in which one asks."""
    sides = [built_with(report) for report in (a, b)]
    for what in dict.fromkeys([*sides[0], *sides[1]]):
        one, other = (side.get(what) for side in sides)
        if one != other:
            yield Changed(what=what, a=one, b=other)


def _latencies(a: BuildReport, b: BuildReport) -> Iterator[LatencyDifference]:
    machines = machines_differ(a.measure_machine, b.measure_machine)
    for row, other in side_by_side(a.latency, b.latency):
        if other is None:
            yield _not_comparable(row, "B was not measured at these shapes")
        else:
            yield _latency(
                row, other, machines or runs_differ(row, other) or which_tainted(row, other)
            )
    known = [row.shapes for row in a.latency]
    for row in b.latency:
        if row.shapes not in known:
            yield _not_comparable(row, "A was not measured at these shapes")


def _not_comparable(row: LatencyReport, why: str) -> LatencyDifference:
    return LatencyDifference(shapes=row.shapes, verdict=Verdict.NOT_COMPARABLE, why=why)


def _latency(a: LatencyReport, b: LatencyReport, why_not: str | None) -> LatencyDifference:
    few = min(len(a.runs_ms), len(b.runs_ms)) < LEAST_RUNS
    if why_not is None and few:
        why_not = f"fewer than {LEAST_RUNS} runs were kept of one of them; measure it again"
    found = LatencyDifference(
        shapes=a.shapes,
        verdict=Verdict.NOT_COMPARABLE,
        why=why_not or "",
        numbers=list(_percentiles(a, b)),
    )
    if why_not is not None:
        return found
    test = rank_test(a.runs_ms, b.runs_ms)
    before, after = a.end_to_end_ms.p50, b.end_to_end_ms.p50
    change = (after - before) / before if before else 0.0
    verdict, why = _verdict(change, test.p_value, test.above)
    return found.model_copy(
        update={
            "verdict": verdict,
            "why": why,
            "percent": 100 * change,
            "p_value": test.p_value,
            "b_takes_longer": test.above,
            "runs": [len(a.runs_ms), len(b.runs_ms)],
        }
    )


def _verdict(change: float, p_value: float, above: float) -> tuple[Verdict, str]:
    said = f"median {change:+.1%}, p {p_value:.2g}"
    if p_value >= SIGNIFICANT:
        return Verdict.SAME, f"{said}: no more than chance would do"
    if abs(change) < NOTICEABLE:
        return Verdict.SAME, f"{said}: less than {NOTICEABLE:.0%} matters to nobody"
    if (above > 0.5) is not (change > 0):  # noqa: PLR2004 - as often longer as shorter
        return Verdict.SAME, f"{said}: median and runs point different ways"
    verdict = Verdict.SLOWER if change > 0 else Verdict.FASTER
    return verdict, f"{said}; a run of B takes longer than one of A with probability {above:.2f}"


def _percentiles(a: LatencyReport, b: LatencyReport) -> Iterator[Number]:
    for name in ("p50", "p90", "p99"):
        yield _number(name, getattr(a.end_to_end_ms, name), getattr(b.end_to_end_ms, name))


def _accuracy(a: BuildReport, b: BuildReport) -> tuple[str | None, list[OutputDifference]]:
    for side, report in (("A", a), ("B", b)):
        if report.accuracy is None:
            why = report.reason or report.accuracy_reason or "no reason given"
            return f"of {side} it was not measured: {why}", []
    if a.accuracy is None or b.accuracy is None:
        return "it was not measured", []
    reason = data_differ(a.accuracy, b.accuracy)
    return reason, [] if reason else list(_outputs(a.accuracy, b.accuracy))


def _files(a: BuildReport, b: BuildReport) -> tuple[str | None, list[OutputDifference]]:
    """Compare the model files, where one of them has another precision than the model."""
    left, right = (row.precision.model_accuracy if row.precision else None for row in (a, b))
    if a.precision is None and b.precision is None:
        return None, []
    if left is None or right is None:
        return "only one of them has a precision whose model file was measured", []
    reason = data_differ(left, right)
    return reason, [] if reason else list(_outputs(left, right))


def _verdicts(a: BuildReport, b: BuildReport) -> Changed | None:
    told = (row.precision_verdict for row in (a, b))
    one, other = (None if row is None else row.verdict for row in told)
    return None if one == other else Changed(what="precision verdict", a=one, b=other)


def _outputs(a: AccuracyReport, b: AccuracyReport) -> Iterator[OutputDifference]:
    others = {row.output: row for row in b.outputs}
    for row in a.outputs:
        other = others.get(row.output)
        if other is not None:
            numbers = [
                _number(name, getattr(row, name), getattr(other, name)) for name in ACCURACIES
            ]
            yield OutputDifference(
                output=row.output,
                numbers=[number for number in numbers if (number.a, number.b) != (None, None)],
                worse=_less_accurate(row, other),
            )


def _less_accurate(a: OutputAccuracy, b: OutputAccuracy) -> bool:
    """Tell whether B is worse by more than two equally good engines may differ."""
    if b.nonfinite_engine > a.nonfinite_engine or (a.exact and not b.exact):
        return True
    if a.top1_agreement is not None and (b.top1_agreement or 0.0) < a.top1_agreement:
        return True
    if a.snr_db is None or b.snr_db is None:
        return False
    return a.snr_db - b.snr_db > WORSE_DECIBELS


def _metric(a: BuildReport, b: BuildReport) -> tuple[Number | None, str | None, str | None]:
    one = a.accuracy.metric if a.accuracy else None
    other = b.accuracy.metric if b.accuracy else None
    if one is None and other is None:
        return None, None, None
    if one is None or other is None or a.accuracy is None or b.accuracy is None:
        return None, "only one of them was judged by labels", None
    why = metrics_differ(one, other) or data_differ(a.accuracy, b.accuracy)
    if why is not None or one.engine is None or other.engine is None:
        return None, why, None
    lost = one.engine - other.engine if one.name.more_is_better else other.engine - one.engine
    said = f"{one.name} of {one.output} is worse by {lost:.4g}" if lost > 0 else None
    return _number(str(one.name), one.engine, other.engine), None, said


def _number(name: str, a: float | None, b: float | None) -> Number:
    return Number(name=name, a=a, b=b)


def _shapes(row: LatencyDifference) -> str:
    return ", ".join(f"{name} {'x'.join(map(str, it))}" for name, it in row.shapes.items())
