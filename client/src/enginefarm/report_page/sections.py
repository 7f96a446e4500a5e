"""The parts of a report's page; each is absent where the report has nothing of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from enginefarm.counted import counted
from enginefarm.report import (
    AccuracyReport,
    BuildRecipe,
    BuildReport,
    CompileReport,
    LatencyReport,
    Machine,
    MetricReport,
    OutputAccuracy,
)
from enginefarm.report_page import plots
from enginefarm.report_page.markup import NONE, Markup, join, number, table, tag

MAX_ROWS = 200
MAX_HISTOGRAMS = 12


def head(report: BuildReport) -> Markup:
    """Return what was built, and whether it met its gates."""
    unmet = [verdict for verdict in report.gates if not verdict.met]
    if not report.gates:
        said, kind = "It had no gates to meet.", "none"
    elif unmet:
        said, kind = f"It missed {len(unmet)} of {counted(len(report.gates), 'gate')}.", "bad"
    else:
        every = "its gate" if len(report.gates) == 1 else f"all {len(report.gates)} gates"
        said, kind = f"It met {every}.", "good"
    rows = [
        ["target", str(report.target)],
        ["backend", f"{report.target.backend} {report.backend_version}"],
        ["model", f"{report.model_name or ''} {report.model}".strip()],
        ["built from", report.repaired_model or "the original"],
        ["precision", _precision(report)],
        ["build", report.build or NONE],
        ["engine", f"{report.compile.engine_bytes} bytes in {report.compile.seconds:.1f} s"],
        ["device memory", _device_memory(report.compile)],
        *([["timings", report.compile.timings.said]] if report.compile.timings else []),
        *(
            [["plugins", _plugins(report.recipe)]]
            if report.recipe and report.recipe.plugins
            else []
        ),
        ["recipe", report.recipe.key if report.recipe else NONE],
    ]
    lost = [] if report.why_lost is None else [f"Not to be relied on: {report.why_lost}."]
    loud = join(*(tag("p", each, class_="bad") for each in lost))
    title = tag("h1", f"Engine for {report.target}")
    return join(title, loud, tag("p", said, class_=kind), facts(rows))


def _plugins(recipe: BuildRecipe) -> str:
    return "; ".join(f"{name} {', '.join(each)}" for name, each in recipe.plugins.items())


def _precision(report: BuildReport) -> str:
    if report.precision is None:
        return "as the model came"
    told = report.precision_verdict
    said = (told.verdict or "no verdict") if told is not None else "no verdict"
    return f"{report.precision.recipe.kind}, {said}"


def _device_memory(told: CompileReport) -> str:
    if told.device_memory_bytes is None:
        return told.inspection_reason or NONE
    return f"{told.device_memory_bytes} bytes beside the weights"


def gates(report: BuildReport) -> Markup:
    """Return the verdict on each gate."""
    rows = [
        [
            row.gate,
            "met" if row.met else "missed",
            row.reason or "",
            *map(number, (row.value, row.missed_by)),
        ]
        for row in report.gates[:MAX_ROWS]
    ]
    return _section(
        "Gates", table(["gate", "", "reason", "value", "missed by"], rows, left=3), rows
    )


def accuracy(report: BuildReport) -> Markup:
    """Return how near the outputs are to the original's, or why that is not known."""
    told = report.accuracy
    if told is None:
        why = report.reason or report.accuracy_reason or "no reason given"
        return tag("section", tag("h2", "Accuracy"), tag("p", f"Not measured: {why}"))
    parts = [
        tag("h2", "Accuracy"),
        tag("p", f"Against {told.reference}, on {told.data}, {told.samples} samples."),
        outputs(told.outputs),
        *([_metric(told.metric)] if told.metric else []),
        plots.errors(told.outputs) or tag("p", "Every output is exactly equal."),
        *_histograms(told.outputs),
        *_worst(told),
        *(tag("p", note, class_="note") for note in told.notes[:MAX_ROWS]),
    ]
    return tag("section", *parts)


def outputs(rows: Sequence[OutputAccuracy]) -> Markup:
    """Return a table of the accuracy of each output."""
    heads = ["output", "cosine", "worst cosine", "max error", "mean error", "SNR dB", "PSNR dB"]
    heads += ["top-1", "top-5", "not finite"]
    cells = [
        [
            row.output,
            *map(number, (row.cosine, row.cosine_worst, row.max_abs_error, row.mean_abs_error)),
            *map(number, (row.snr_db, row.psnr_db, row.top1_agreement, row.top5_agreement)),
            number(row.nonfinite_engine),
        ]
        for row in rows[:MAX_ROWS]
    ]
    return join(table(heads, cells), _more(len(rows)))


def _metric(told: MetricReport) -> Markup:
    name = f"{told.name} of {told.output} by {told.labels}"
    values = [number(each) for each in (told.original, told.engine, told.loss, told.counted)]
    heads = ["metric", "why not", "original", "engine", "loss", "of"]
    return table(heads, [[name, told.reason or "", *values]], left=2)


def _histograms(rows: Sequence[OutputAccuracy]) -> Iterator[Markup]:
    for row in [row for row in rows if row.errors is not None][:MAX_HISTOGRAMS]:
        if row.errors is not None:
            equal = f"Errors of {row.output}; {row.zero_errors} elements have none."
            drawn = plots.histogram(row.errors, "|error|, counts by logarithm", logarithmic=True)
            yield tag("figure", tag("figcaption", equal), drawn)


def _worst(told: AccuracyReport) -> Iterator[Markup]:
    rows = [
        [
            row.output,
            number(each.sample),
            number(each.together),
            *map(number, (each.max_abs_error, each.cosine)),
        ]
        for row in told.outputs
        for each in row.worst
    ]
    if rows:
        yield tag("h3", "Samples to look at first")
        heads = ["output", "sample", "of so many", "max error", "cosine"]
        yield join(table(heads, rows[:MAX_ROWS]), _more(len(rows)))


def latency(report: BuildReport) -> Markup:
    """Return how long runs take at each shape, or why that is not known."""
    if not report.latency:
        why = report.reason or "no reason given"
        return tag("section", tag("h2", "Latency"), tag("p", f"Not measured: {why}"))
    heads = ["shapes", "P50 ms", "P90", "P95", "P99", "min", "max", "runs", "per second", "stable"]
    rows = []
    for row in report.latency:
        ms = row.end_to_end_ms
        numbers = (ms.p50, ms.p90, ms.p95, ms.p99, ms.min, ms.max, ms.count, row.throughput_qps)
        rows.append([_shapes(row), *map(number, numbers), "yes" if row.stable else "no"])
    return tag(
        "section",
        tag("h2", "Latency"),
        table(heads, rows),
        *(part for row in report.latency for part in _measured(row)),
    )


def _measured(row: LatencyReport) -> Iterator[Markup]:
    if row.histogram is not None:
        drawn = plots.histogram(row.histogram, "ms", logarithmic=False)
        yield tag("figure", tag("figcaption", f"Runs at {_shapes(row)}"), drawn)
    if row.over_time:
        caption = tag("figcaption", f"Over time at {_shapes(row)}")
        yield tag("figure", caption, plots.over_time(row.over_time))
    yield from (tag("p", note, class_="note") for note in row.notes)


def changes(report: BuildReport) -> Markup:
    """Return what was repaired before it was built."""
    if report.repair is None:
        why = report.repair_reason or "no reason given"
        return tag("section", tag("h2", "Repairs"), tag("p", f"Not tried: {why}"))
    rows = [
        [
            row.name,
            str(row.outcome),
            row.why,
            number(row.proof.max_abs_error if row.proof else None),
        ]
        for row in report.repair.passes
    ]
    return _section("Repairs", table(["repair", "outcome", "why", "max error"], rows, left=3), rows)


def findings(report: BuildReport) -> Markup:
    """Return what the check and the compiler warned of."""
    rows = [
        [str(row.severity), row.code, row.message, row.where or "", row.fix or ""]
        for row in report.findings[:MAX_ROWS]
    ]
    rows += [["warning", "", warning, "compile", ""] for warning in report.compile.warnings]
    return _section("Findings", table(["", "code", "what", "where", "fix"], rows, left=5), rows)


def machines(report: BuildReport) -> Markup:
    """Return where it was built and measured, with what."""
    named = {"built on": report.compile_machine, "measured on": report.measure_machine}
    rows = [[name, _machine(machine)] for name, machine in named.items() if machine is not None]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(report.versions.items()))
    return tag("section", tag("h2", "Machines"), facts([*rows, ["versions", versions]]))


def origin(report: BuildReport) -> Markup:
    """Return what vouches for this page."""
    words = (
        "This page was made from report.json, which lies beside it in the artifact, by the farm's"
        " control plane. The artifact's manifest names both by their sha256, and the farm has"
        " signed that: enginefarm verify FOLDER proves, offline, that neither was changed. Anybody"
        " can make the page again: enginefarm report DIGEST --html FILE."
    )
    schema = (
        f"Schema {report.schema_version} of the report. The page loads nothing and runs nothing."
    )
    return tag("section", tag("h2", "Where this comes from"), tag("p", words), tag("p", schema))


def _machine(machine: Machine) -> str:
    parts = [machine.hostname, machine.device, machine.cpu, f"{machine.cores} cores"]
    parts += [f"driver {machine.driver}"] if machine.driver else []
    parts += [f"CUDA {machine.cuda}"] if machine.cuda else []
    parts += [f"governor {machine.governor}"] if machine.governor else []
    if machine.load_before is not None and machine.load_after is not None:
        parts.append(f"load {machine.load_before:.1f} before and {machine.load_after:.1f} after")
    return ", ".join(parts)


def _shapes(row: LatencyReport) -> str:
    return ", ".join(f"{name} {'x'.join(map(str, it))}" for name, it in row.shapes.items()) or NONE


def facts(rows: Sequence[Sequence[str]]) -> Markup:
    """Return names and what is said of each."""
    pairs = (join(tag("dt", name), tag("dd", value)) for name, value in rows)
    return tag("dl", *pairs)


def _section(name: str, shown: Markup, rows: Sequence[object]) -> Markup:
    return tag("section", tag("h2", name), shown if rows else tag("p", "None."))


def _more(count: int) -> Markup:
    if count <= MAX_ROWS:
        return Markup()
    return tag("p", f"{count - MAX_ROWS} more are in report.json.", class_="note")
