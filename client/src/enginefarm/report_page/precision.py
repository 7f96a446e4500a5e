"""What was done to a model's precision, on the page of a report."""

from __future__ import annotations

from enginefarm.precision_report import PrecisionRecipe, PrecisionReport
from enginefarm.report import BuildReport
from enginefarm.report_page.markup import Markup, join, number, table, tag
from enginefarm.report_page.sections import MAX_ROWS


def precision(report: BuildReport) -> Markup:
    """Return the recipe, the accuracy of the model file, and what was found of the data."""
    told = report.precision
    if told is None:
        return Markup("")
    named = [
        ["precision", _recipe(told.recipe)],
        ["changed", f"{told.changed} of {told.nodes} nodes"],
    ]
    named += [["model file", f"{told.model_bytes} bytes"]]
    if told.data is not None:
        named.append(["calibrated", f"on {told.data.samples} samples, {told.recipe.calibration}"])
    named += [["label", label] for label in told.labels]
    facts = tag("dl", *(join(tag("dt", name), tag("dd", value)) for name, value in named))
    return tag(
        "section", tag("h2", "Precision"), facts, _of_the_file(told), _data(told), _kept(told)
    )


def _recipe(recipe: PrecisionRecipe) -> str:
    made = f"{recipe.kind} by {recipe.tool} {recipe.tool_version}"
    if recipe.method is None:
        return made
    upto = f" {recipe.percentile:g}" if recipe.percentile is not None else ""
    return f"{made}, {recipe.method}{upto}"


def _of_the_file(told: PrecisionReport) -> Markup:
    if told.model_accuracy is None:
        return tag(
            "p", f"The accuracy of the model file is not known: {told.model_accuracy_reason}"
        )
    rows = [
        [row.output, *map(number, (row.cosine, row.cosine_worst, row.max_abs_error, row.snr_db))]
        for row in told.model_accuracy.outputs[:MAX_ROWS]
    ]
    return table(["model file", "cosine", "worst cosine", "max error", "SNR dB"], rows)


def _data(told: PrecisionReport) -> Markup:
    rows = [[str(row.severity), row.code, row.message, row.fix or ""] for row in told.findings]
    return table(["", "code", "of the data", "fix"], rows, left=4) if rows else Markup("")


def _kept(told: PrecisionReport) -> Markup:
    if not told.kept:
        return Markup("")
    rows = [[row.operator, row.node, row.why] for row in told.kept[:MAX_ROWS]]
    more = told.kept_count - len(rows)
    rest = [tag("p", f"{more} more stay as they came.", class_="note")] if more > 0 else []
    return join(table(["operator", "stays as it came", "why"], rows, left=3), *rest)
