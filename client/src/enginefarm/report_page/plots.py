"""Plots as inline SVG: bars of a histogram, a measurement over time, the error of each output."""

from __future__ import annotations

import math
from collections.abc import Sequence

from enginefarm.report import Histogram, Moment, OutputAccuracy
from enginefarm.report_page.markup import Markup, join, number, tag
from enginefarm.streams_report import StreamsReport

WIDTH, HEIGHT = 560.0, 170.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 12.0, 10.0, 34.0
ROW = 20.0
NAME_WIDTH = 190.0
MAX_ROWS = 40
LETTERS = 26
SLOW_OVER_MEDIAN = 3.0


def histogram(told: Histogram, unit: str, *, logarithmic: bool) -> Markup:
    """Return the bars of a histogram; ``logarithmic``: its bins are decades, its counts, too."""
    inner, floor = WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM
    width = inner / len(told.counts)
    most = max([1, *told.counts])
    heights = [_share(count, most, logarithmic=logarithmic) for count in told.counts]
    bars = [
        tag(
            "rect",
            x=place(LEFT + at * width),
            y=place(floor - share * (floor - TOP)),
            width=place(max(width - 1, 0.5)),
            height=place(share * (floor - TOP)),
            class_="bar",
        )
        for at, share in enumerate(heights)
    ]
    ticks = [
        label(LEFT + inner * part, floor + 14, number(_edge(told.edges, part)), anchor)
        for part, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end"))
    ]
    axis = [
        label(LEFT - 6, TOP + 8, number(float(most)), "end"),
        label(LEFT - 6, floor, "0", "end"),
    ]
    name = label(LEFT + inner / 2, HEIGHT - 4, unit, "middle")
    frame = tag("line", x1=place(LEFT), y1=place(floor), x2=place(WIDTH - RIGHT), y2=place(floor))
    what = f"Histogram: {sum(told.counts)} values from {number(told.edges[0])} to"
    return drawing(
        f"{what} {number(told.edges[-1])}, {unit}", HEIGHT, *bars, frame, *ticks, *axis, name
    )


def over_time(moments: Sequence[Moment]) -> Markup:
    """Return a measurement over time: the median of each stretch, and its slowest run.

    What is far slower than the rest is drawn at the upper edge.
    """
    inner, floor = WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM
    last = max(moments[-1].at_ms, 1e-9)
    usual = sorted(moment.p50 for moment in moments)[len(moments) // 2]
    slowest = min(max(moment.max for moment in moments), usual * SLOW_OVER_MEDIAN)
    top = max([slowest, *(moment.p50 for moment in moments)]) or 1.0

    def line(values: Sequence[float], kind: str) -> Markup:
        points = " ".join(
            f"{place(LEFT + inner * moment.at_ms / last)},"
            f"{place(floor - (floor - TOP) * min(value / top, 1.0))}"
            for moment, value in zip(moments, values, strict=True)
        )
        return tag("polyline", points=Markup(points), class_=kind)

    lines = [
        line([moment.max for moment in moments], "slow"),
        line([moment.p50 for moment in moments], "mid"),
    ]
    marks = [
        label(LEFT - 6, TOP + 8, number(top), "end"),
        label(LEFT - 6, floor, "0", "end"),
        label(LEFT, floor + 14, "0", "start"),
        label(WIDTH - RIGHT, floor + 14, f"{number(last / 1000)} s", "end"),
        label(LEFT + inner / 2, HEIGHT - 4, "ms over time: median, and slowest (thin)", "middle"),
    ]
    frame = tag("line", x1=place(LEFT), y1=place(floor), x2=place(WIDTH - RIGHT), y2=place(floor))
    return drawing("Latency over time", HEIGHT, *lines, frame, *marks)


def throughput(rows: Sequence[StreamsReport]) -> Markup:
    """Return runs per second against how many run at a time; the best has a dot."""
    inner, floor = WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM
    shown = sorted(rows, key=lambda row: row.streams)
    most = max(row.throughput_qps for row in shown)
    last = max(row.streams for row in shown)

    def at(row: StreamsReport) -> tuple[str, str]:
        height = (floor - TOP) * row.throughput_qps / most
        return place(LEFT + inner * row.streams / last), place(floor - height)

    points = Markup(" ".join(",".join(at(row)) for row in shown))
    dots = [
        tag("circle", cx=x, cy=y, r="4", class_="mean")
        for row in shown
        if row.best
        for x, y in (at(row),)
    ]
    marks = [
        label(LEFT - 6, TOP + 8, number(most), "end"),
        label(LEFT - 6, floor, "0", "end"),
        *(
            label(LEFT + inner * row.streams / last, floor + 14, str(row.streams), "middle")
            for row in shown
        ),
        label(LEFT + inner / 2, HEIGHT - 4, "runs per second by streams; best (dot)", "middle"),
    ]
    frame = tag("line", x1=place(LEFT), y1=place(floor), x2=place(WIDTH - RIGHT), y2=place(floor))
    line = tag("polyline", points=points, class_="mid")
    return drawing("Throughput by streams", HEIGHT, line, *dots, frame, *marks)


def errors(rows: Sequence[OutputAccuracy]) -> Markup | None:
    """Return the largest and the mean error of each output on one scale of decades."""
    shown = [row for row in rows if row.max_abs_error > 0][:MAX_ROWS]
    if not shown:
        return None
    sizes = [size for row in shown for size in (row.max_abs_error, row.mean_abs_error) if size > 0]
    low, high = math.floor(math.log10(min(sizes))), math.ceil(math.log10(max(sizes)))
    span, inner = max(high - low, 1), WIDTH - NAME_WIDTH - RIGHT

    def at(size: float) -> float:
        part = (math.log10(size) - low) / span if size > 0 else 0.0
        return NAME_WIDTH + inner * min(max(part, 0.0), 1.0)

    parts: list[Markup] = []
    for line, row in enumerate(shown):
        y = TOP + line * ROW
        name = row.output if len(row.output) <= LETTERS else f"{row.output[:LETTERS]}…"
        width = place(at(row.max_abs_error) - NAME_WIDTH)
        parts += [
            label(NAME_WIDTH - 6, y + 13, name, "end"),
            tag(
                "rect", x=place(NAME_WIDTH), y=place(y + 4), width=width, height="10", class_="bar"
            ),
            tag("circle", cx=place(at(row.mean_abs_error)), cy=place(y + 9), r="4", class_="mean"),
        ]
    height = TOP + len(shown) * ROW + BOTTOM
    parts += [
        label(NAME_WIDTH, height - 18, f"1e{low}", "start"),
        label(WIDTH - RIGHT, height - 18, f"1e{low + span}", "end"),
        label(WIDTH / 2, height - 4, "largest |error| (bar) and mean (dot)", "middle"),
    ]
    return drawing("Error of each output", height, *parts)


def _share(count: int, most: int, *, logarithmic: bool) -> float:
    return math.log1p(count) / math.log1p(most) if logarithmic else count / most


def _edge(edges: Sequence[float], part: float) -> float:
    return edges[round((len(edges) - 1) * part)]


def label(x: float, y: float, words: str, anchor: str) -> Markup:
    """Return words at a place of a drawing; ``anchor`` says which end of them stands there."""
    return tag("text", words, x=place(x), y=place(y), text_anchor=anchor)


def place(value: float) -> str:
    """Return a length or a place in a drawing as it is written."""
    return f"{value:.1f}"


def drawing(title: str, height: float, *parts: Markup) -> Markup:
    """Return a drawing of the usual width."""
    box = f"0 0 {place(WIDTH)} {place(height)}"
    size = {"width": place(WIDTH), "height": place(height)}
    return tag("svg", tag("title", title), join(*parts), viewBox=box, role="img", **size)
