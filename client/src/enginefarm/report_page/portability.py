"""The part of a report's page about one engine on several SKUs."""

from __future__ import annotations

from enginefarm.portability_rows import sku_rows, summary
from enginefarm.report import BuildReport
from enginefarm.report_page.markup import NONE, Markup, number, table, tag

HEADS = ("SKU", "driver", "shapes", "gates", "in doubt, or absent, since")
NUMBERS = ("P50 ms", "P99", "per second", "ratio", "cosine", "max error")


def portability(report: BuildReport) -> Markup:
    """Return what the engine does on each SKU that was asked for."""
    told = report.portability
    if told is None:
        return Markup()
    rows = [
        [
            *(row.sku, row.driver or NONE, row.shapes or NONE, row.gates, row.doubt),
            *map(number, (row.p50_ms, row.p99_ms, row.qps, row.ratio, row.cosine, row.max_error)),
        ]
        for row in sku_rows(told)
    ]
    shown = table([*HEADS, *NUMBERS], rows, left=len(HEADS))
    return tag("section", tag("h2", "On several SKUs"), tag("p", summary(told)), shown)
