"""How ``enginefarm report`` shows one engine on several SKUs."""

from __future__ import annotations

from collections.abc import Iterator

from enginefarm.cli.grid import NONE, Column, Grid
from enginefarm.portability_rows import sku_rows, summary
from enginefarm.report import BuildReport
from enginefarm.rounding import rounded
from enginefarm.runtime_cache import first_start

_NUMBERS = ("median ms", "P99", "QPS", "ratio", "cosine", "max error")


def portability_grids(told: BuildReport) -> Iterator[Grid]:
    """Yield the table of SKUs, if the build named any."""
    if told.portability is None:
        return
    heads = (Column("SKU", head=True), Column("driver"), Column("shapes"))
    numbers = tuple(Column(name, right=True) for name in _NUMBERS)
    grid = Grid((*heads, *numbers, Column("gates")))
    for row in sku_rows(told.portability):
        figures = (row.p50_ms, row.p99_ms, row.qps, row.ratio, row.cosine, row.max_error)
        shown = (NONE if each is None else rounded(each) for each in figures)
        grid.add(row.sku, row.driver or NONE, row.shapes or NONE, *shown, row.gates)
    yield grid


def first_starts(told: BuildReport) -> Iterator[str]:
    """Yield how long first starts take, where a runtime cache can shorten them."""
    skus = [] if told.portability is None else told.portability.skus
    caches = [row.runtime_cache for row in skus] or [told.runtime_cache]
    yield from (first_start(cache) for cache in caches if cache is not None)


def portability_notes(told: BuildReport) -> Iterator[str]:
    """Yield what the ratios are to, and what of each SKU is absent or in doubt."""
    if told.portability is None:
        return
    yield summary(told.portability)
    for row in sku_rows(told.portability):
        if row.doubt:
            # Why one was not measured begins with its name.
            yield row.doubt if row.p50_ms is None else f"{row.sku} at {row.shapes}: {row.doubt}"
