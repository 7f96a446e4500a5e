"""Read gates and metrics as a person writes them, and write them as they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import JsonValue

from enginefarm.cli.arguments import digest, refusal, synthetic
from enginefarm.errors import InvalidRequest
from enginefarm.gate import EvaluationMetric, Gate, Metric, MetricName, Tainted, Unmeasured
from enginefarm.gate_words import no_metric
from enginefarm.nearest import did_you_mean
from enginefarm.target import Target

_GATE = re.compile(
    r"^(?:(?P<target>[^\s:]+@[^\s:]+(?::[a-z0-9-]+(?:\+\w+)?)?):)?"
    r"(?P<metric>[A-Za-z0-9_.]+)(?:\[(?P<output>[^\]]+)\])?"
    r"\s*(?P<sign>>=|<=)\s*(?P<bound>[^\s]+)$"
)
_METRIC = re.compile(
    r"^(?P<name>[A-Za-z0-9_]+)\[(?P<output>[^\]]+)\]\s*=\s*(?P<labels>[^,]+)"
    r"(?P<rest>(?:,\s*(?:blank|padding)=-?\d+)*)$"
)
_CHANGE = re.compile(r"^[+-](?P<number>\d[\d.eE+-]*)(?P<percent>%?)$")
_AGAINST_EXAMPLE = "latency_p99_ms<=+10%@sha256:… or cosine>=-0.001@sha256:…"
_METRIC_EXAMPLE = "'accuracy[logits]=labels' or 'ctc_error_rate[output]=text,blank=0,padding=-1'"


@dataclass(frozen=True)
class Ifs:
    """What gates do when nothing can measure their metric, and when a number is tainted."""

    unmeasured: Unmeasured = Unmeasured.FAIL
    tainted: Tainted = Tainted.FAIL


def judged(
    texts: Iterable[str], ifs: Ifs, by: str | None, made_up: Iterable[str]
) -> dict[str, JsonValue]:
    """Return how a build is judged, as it stands in a body: gates, metric, made-up inputs."""
    return {
        "gates": gates(texts, ifs),
        "evaluation_metric": None if by is None else metric(by),
        "synthetic": synthetic(made_up),
    }


def gates(texts: Iterable[str], ifs: Ifs) -> list[JsonValue]:
    """Read ``cosine>=0.999``, also ``cosine[output]>=0.999`` and ``target:latency_p99_ms<=5``.

    ``latency_p99_ms<=+10%@sha256:…`` is held against a published artifact.
    """
    return [_gate(text.strip(), ifs) for text in texts]


def gate_text(gate: Gate) -> str:
    """Return a gate as it is written."""
    place = f"{gate.target}:" if gate.target else ""
    name = f"{gate.metric}[{gate.output}]" if gate.output else str(gate.metric)
    bounds = ((">=", gate.at_least), ("<=", gate.at_most))
    said = [(sign, _plain(bound)) for sign, bound in bounds if bound is not None]
    if gate.against is not None:
        sign = ">=-" if gate.metric.more_is_better else "<=+"
        percent = gate.worse_by_percent is not None
        allowed = (gate.worse_by_percent if percent else gate.worse_by) or 0.0
        said.append((sign, f"{_plain(allowed)}{'%' * percent}@{gate.against}"))
    return " ".join(f"{place}{name}{sign}{bound}" for sign, bound in said)


def _plain(number: float) -> str:
    return repr(number).removesuffix(".0")


def metric(text: str) -> JsonValue:
    """Read ``accuracy[logits]=labels``, also with ``,blank=0`` and ``,padding=-1``."""
    match = _METRIC.match(text.strip())
    if match is None:
        raise refusal("--metric", text, _METRIC_EXAMPLE)
    if match["name"] not in set(MetricName):
        raise _unknown(match["name"], set(MetricName))
    told: dict[str, JsonValue] = {part: match[part] for part in ("name", "output", "labels")}
    for part in match["rest"].split(",")[1:]:
        name, _, value = part.strip().partition("=")
        told[name] = int(value)
    return told


def metric_text(asked: EvaluationMetric) -> str:
    """Return a metric as it is written."""
    rest = "" if asked.padding == -1 else f",padding={asked.padding}"
    rest += f",blank={asked.blank}" if asked.name is MetricName.CTC_ERROR_RATE else ""
    return f"{asked.name}[{asked.output}]={asked.labels}{rest}"


def _gate(text: str, ifs: Ifs) -> JsonValue:
    match = _GATE.match(text)
    if match is None:
        raise refusal("--gate", text, "cosine>=0.999 or onnxruntime@cpu:latency_p99_ms<=5")
    metric = match["metric"]
    if metric not in set(Metric):
        raise _unknown(metric, set(Metric), no_metric(metric[:80]))
    gate: dict[str, JsonValue] = {"metric": metric, "if_unmeasured": ifs.unmeasured}
    gate["if_tainted"] = ifs.tainted
    gate |= _bound(text, Metric(metric), match["sign"], match["bound"])
    if match["output"]:
        gate["output"] = match["output"]
    if match["target"]:
        gate["target"] = str(Target.parse(match["target"]))
    return gate


def _bound(text: str, metric: Metric, sign: str, bound: str) -> dict[str, JsonValue]:
    """Read ``0.999`` as a bound, ``+10%@sha256:…`` as one on how much worse it may be."""
    change, at, named = bound.partition("@")
    try:
        if not at:
            return {"at_least" if sign == ">=" else "at_most": float(bound)}
        allowed = _CHANGE.match(change)
        wanted = {True: (">=", "-"), False: ("<=", "+")}.get(metric.more_is_better is True)
        either = metric.more_is_better is None and (sign, change[:1]) in {(">=", "-"), ("<=", "+")}
        if allowed is None or not (either or (sign, change[0]) == wanted):
            raise refusal("--gate", text, _AGAINST_EXAMPLE)
        name = "worse_by_percent" if allowed["percent"] else "worse_by"
        return {"against": digest(named), name: float(allowed["number"])}
    except ValueError as error:
        raise refusal("--gate", text, "cosine>=0.999") from error


def _unknown(
    name: str, known: Iterable[str], told: tuple[str, str] | None = None
) -> InvalidRequest:
    why, fix = told or ("", did_you_mean(name, known))
    return InvalidRequest(
        f"There is no metric {name[:40]!r}.", code="unknown_metric", why=why, fix=fix
    )
