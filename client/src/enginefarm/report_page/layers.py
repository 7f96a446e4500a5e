"""What each layer of an int8 model costs: bars on the page of a report, the costliest first."""

from __future__ import annotations

import math

from enginefarm.report import BuildReport
from enginefarm.report_page.markup import Markup, join, number, table, tag
from enginefarm.report_page.plots import (
    BOTTOM,
    LETTERS,
    MAX_ROWS,
    NAME_WIDTH,
    RIGHT,
    ROW,
    TOP,
    WIDTH,
    drawing,
    label,
    place,
)
from enginefarm.sensitivity_report import LayerSensitivity, SensitivityReport

SMALLEST = 1e-8
"""A loss of cosine below which nothing can be told from rounding; the left edge of the bars."""


def layers(report: BuildReport) -> Markup:
    """Return what the layers cost; nothing where it was not asked for."""
    told = report.precision
    if told is None or (told.sensitivity is None and told.sensitivity_reason is None):
        return Markup("")
    if told.sensitivity is None:
        said = tag("p", f"Not measured: {told.sensitivity_reason}")
        return tag("section", tag("h2", "What layers cost in int8"), said)
    found = told.sensitivity
    counts = f"{found.tried} of {found.layers_count} layers were tried"
    samples = f"on {found.trial_samples} samples, estimated on {found.estimate_samples}"
    drawn = bars(found)
    return tag(
        "section",
        tag("h2", "What layers cost in int8"),
        tag("p", f"{counts} {samples}: {found.how}."),
        *([tag("figure", tag("figcaption", "Loss of cosine by layer"), drawn)] if drawn else []),
        _rows(found),
        _steps(found),
    )


def bars(found: SensitivityReport) -> Markup | None:
    """Return the loss of each layer that was tried, on one scale of decades."""
    shown = [row for row in found.layers if row.cosine_loss is not None][:MAX_ROWS]
    if not shown:
        return None
    sizes = [max(row.cosine_loss or 0.0, SMALLEST) for row in shown]
    low, high = math.floor(math.log10(SMALLEST)), math.ceil(math.log10(max(sizes)))
    span, inner = max(high - low, 1), WIDTH - NAME_WIDTH - RIGHT
    parts: list[Markup] = []
    for at, (row, size) in enumerate(zip(shown, sizes, strict=True)):
        y = TOP + at * ROW
        name = row.node if len(row.node) <= LETTERS else f"…{row.node[-LETTERS:]}"
        width = place(inner * (math.log10(size) - low) / span)
        parts += [
            label(NAME_WIDTH - 6, y + 13, name, "end"),
            tag(
                "rect", x=place(NAME_WIDTH), y=place(y + 4), width=width, height="10", class_="bar"
            ),
        ]
    height = TOP + len(shown) * ROW + BOTTOM
    parts += [
        label(NAME_WIDTH, height - 18, f"1e{low}", "start"),
        label(WIDTH - RIGHT, height - 18, f"1e{low + span}", "end"),
        label(WIDTH / 2, height - 4, "1 - cosine with only this layer in int8", "middle"),
    ]
    return drawing("Loss of cosine by layer", height, *parts)


def _rows(found: SensitivityReport) -> Markup:
    heads = ["layer", "operator", "loss of cosine", "output SNR dB", "estimate dB"]
    heads += ["weights dB", "reads dB", "writes dB"]
    cells = [_cells(row) for row in found.layers[:MAX_ROWS]]
    left = found.layers_count - len(cells)
    more = tag("p", f"{left} more are in report.json.", class_="note") if left > 0 else Markup("")
    return join(table(heads, cells, left=2), more)


def _cells(row: LayerSensitivity) -> list[str]:
    ratios = (row.sqnr_db, row.weight_sqnr_db, row.input_sqnr_db, row.output_sqnr_db)
    return [row.node, row.operator, *map(number, (row.cosine_loss, row.snr_db, *ratios))]


def _steps(found: SensitivityReport) -> Markup:
    rows = [[str(row.kept), number(row.cosine)] for row in found.steps]
    words = "If the costliest so many stay as they came, and all others are int8:"
    return join(tag("p", words), table(["kept", "cosine"], rows, left=0))
