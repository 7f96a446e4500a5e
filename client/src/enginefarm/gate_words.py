"""Why some measured numbers are no metric of a gate, and which one to write instead. Pure.

People ask for them by the names that reports and trtexec have, and the nearest metric by its
letters would be a wrong one.
"""

from __future__ import annotations

import re

_LATENCY = "Write latency_p50_ms or latency_p99_ms"
_INSTEAD = (
    (
        re.compile(r"gpu|device|compute|h2d|d2h|enqueue|cuda"),
        (
            "Times of the device itself are in the report of what was measured on a GPU"
            " (latency[].device); a processor has none, and no gate looks at them."
        ),
        f"{_LATENCY}: how long a caller waits, on any target.",
    ),
    (
        re.compile(r"energy|power|watt|clock|temperature|throttl|utili[sz]ation"),
        (
            "Energy, power, clocks and temperature are the conditions under which a GPU was"
            " measured (latency[].trust); a processor has no such record, and no gate bounds them."
        ),
        f"{_LATENCY}: such a gate is not met where those conditions speak against the number.",
    ),
    (
        re.compile(r"throughput|qps|per_second"),
        "Runs per second are in the report (latency[].throughput_qps), and no gate looks at them.",
        f"{_LATENCY}: one run at a time takes so long.",
    ),
)


def no_metric(name: str) -> tuple[str, str] | None:
    """Return why a number that reports have is no metric of gates, and what to write instead."""
    found = (row for row in _INSTEAD if row[0].search(name.lower()))
    return next(((why, fix) for _, why, fix in found), None)
