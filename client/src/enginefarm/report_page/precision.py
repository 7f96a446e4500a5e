"""The parts of a report's page that tell of its precision; absent where none was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from enginefarm.precision_report import PrecisionReport
from enginefarm.report import BuildReport
from enginefarm.report_page.markup import NONE, Markup, join, number, table, tag
from enginefarm.report_page.sections import MAX_ROWS, facts, outputs
from enginefarm.rounding import rounded
from enginefarm.shapes_text import shapes_text
from enginefarm.verdict_report import PrecisionVerdict, VerdictReport


def verdict(report: BuildReport) -> Markup:
    """Return whether the precision is worth it, with the numbers."""
    told = report.precision_verdict
    if told is None:
        return Markup()
    kind = {None: "none", PrecisionVerdict.ACCEPT: "good"}.get(told.verdict, "bad")
    said = f"{told.verdict or 'No verdict'}: {told.reason}."
    return tag(
        "section",
        tag("h2", "Verdict on the precision"),
        tag("p", said, class_=kind),
        *([_speed(told)] if told.speed else []),
        facts(list(_held_against(told))),
    )


def _speed(told: VerdictReport) -> Markup:
    heads = ["beside the twin at", "faster", "engine ms", "twin ms", "times as fast"]
    heads += ["from", "to", "sure", "pairs", "runs of both"]
    rows = [
        [
            shapes_text(row.shapes) or NONE,
            "yes" if row.faster else "no",
            *map(number, (row.engine_p50_ms, row.twin_p50_ms, row.speedup, row.low, row.high)),
            NONE if row.confidence is None else f"{row.confidence:.1%}",
            number(len(row.ratios)),
            f"{row.engine_runs}, {row.twin_runs}",
        ]
        for row in told.speed[:MAX_ROWS]
    ]
    return join(table(heads, rows, left=2), *_doubts(told))


def _doubts(told: VerdictReport) -> Iterator[Markup]:
    """Yield what speaks against the times beside the twin."""
    for row in told.speed[:MAX_ROWS]:
        for reason in row.trust.tainted if row.trust is not None else []:
            yield tag("p", f"Tainted at {shapes_text(row.shapes)}: {reason}", class_="bad")


def _held_against(told: VerdictReport) -> Iterator[list[str]]:
    if told.twin is not None:
        yield ["twin", f"{told.twin.precision}: {told.twin.why}"]
        yield ["twin's engine", told.twin.engine or NONE]
    if told.speed_reason is not None:
        yield ["speed", f"not known: {told.speed_reason}"]
    if told.floor_reason is not None:
        yield ["accuracy", f"not judged: {told.floor_reason}"]
    if told.floor is not None:
        at = f"{told.floor.metric} {rounded(told.floor.value)}, at least {told.floor.least:g}"
        yield ["accuracy", f"{told.floor.of}, output {told.floor.output}: {at}"]
    yield ["where it is slower", str(told.on_slower)]


def precision(report: BuildReport) -> Markup:
    """Return how the model got its precision, what stayed as it was, how good the file is."""
    told = report.precision
    if told is None:
        return Markup()
    return tag(
        "section", tag("h2", "Precision"), facts(list(_made(told))), *_kept(told), *_file(told)
    )


def _made(told: PrecisionReport) -> Iterator[list[str]]:
    asked = told.recipe
    yield ["kind", str(asked.kind)]
    yield ["tool", f"{asked.tool} {asked.tool_version}"]
    if asked.method is not None:
        upto = f" {asked.percentile:g}" if asked.percentile is not None else ""
        yield ["method", f"{asked.method}{upto}"]
    if asked.calibration is not None:
        count = "" if told.data is None else f", {told.data.samples} samples"
        yield ["calibration", f"{asked.calibration}{count}"]
    yield ["changed", f"{told.changed} of {told.nodes} nodes"]
    yield ["kept", f"{told.kept_count} nodes"]
    if told.labels:
        yield ["labels", ", ".join(told.labels)]


def _kept(told: PrecisionReport) -> Iterator[Markup]:
    rows = [[row.node, row.operator, row.why] for row in told.kept[:MAX_ROWS]]
    if rows:
        yield tag("h3", "Nodes that stayed as they were")
        yield table(["node", "operator", "why"], rows, left=3)
    yield from (
        tag("p", f"{row.severity}: {row.message}", class_="note")
        for row in told.findings[:MAX_ROWS]
    )


def _file(told: PrecisionReport) -> Iterator[Markup]:
    yield tag("h3", "The model file against the model as it came")
    if told.model_accuracy is None:
        yield tag("p", f"Not measured: {told.model_accuracy_reason or 'no reason given'}")
        return
    on = f"On {told.model_accuracy.data}, {told.model_accuracy.samples} samples."
    yield tag("p", on)
    yield outputs(told.model_accuracy.outputs)
