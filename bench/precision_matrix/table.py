"""The matrix in words: two Markdown tables, int8 and fp16. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.precision_matrix.speed import Ratio
from enginefarm.precision import PrecisionKind

TARGETS = ("onnxruntime@cpu", "tensorrt-rtx@sm_86", "tensorrt-rtx@sm_89")
KINDS = (PrecisionKind.INT8, PrecisionKind.FP16)
NONE = "\N{EN DASH}"
"""Where there is no number."""
FLAT = 1e-6
"""A reference whose values differ by less tells nothing of a model: every cosine with it is 1."""


@dataclass
class Built:
    """What became of one model in one precision. ``targets``: None where built, else the reason.

    ``precision`` is the report of the stage that made it, if it made it.
    """

    targets: dict[str, str | None] = field(default_factory=dict)
    precision: dict[str, Any] | None = None
    speed: Ratio | None = None


@dataclass
class Row:
    """One model. ``asked``: options of its build; ``counts``: samples to calibrate and held out.

    ``flat`` says that it answers the same to everything, so that its cosine proves nothing.
    """

    model: str
    asked: str
    counts: tuple[int, int]
    kinds: dict[PrecisionKind, Built] = field(default_factory=dict)
    flat: bool = False
    seconds: float = 0.0


def cosine(report: Mapping[str, Any] | None) -> float | None:
    """Return the cosine of the worst output of a model file, on the held-out data."""
    told = (report or {}).get("model_accuracy") or {}
    found = [row["cosine"] for row in told.get("outputs", []) if row["cosine"] is not None]
    return min(found, default=None)


def tables(rows: Sequence[Row]) -> str:
    """Return both tables, each with its sum of what was built."""
    return "\n".join(_table(kind, rows) for kind in KINDS)


def _table(kind: PrecisionKind, rows: Sequence[Row]) -> str:
    heads = ["model", "samples", f"in {kind}", "kept", "cosine of the file"]
    heads += ["percentile"] if kind is PrecisionKind.INT8 else []
    heads += [*TARGETS, f"CPU: {kind} / fp32"]
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    lines += [f"| {' | '.join(_cells(kind, row))} |" for row in rows]
    sums = [
        f"{sum(row.kinds[kind].targets.get(name, '') is None for row in rows)} for {name}"
        for name in TARGETS
    ]
    return "\n".join([*lines, "", f"Built in {kind}, of {len(rows)}: {', '.join(sums)}.", ""])


def _cells(kind: PrecisionKind, row: Row) -> list[str]:
    built = row.kinds[kind]
    told = built.precision or {}
    found = cosine(built.precision)
    flat = " (flat)" if row.flat and found is not None else ""
    cells = [
        f"{row.model} `{row.asked}`" if row.asked else row.model,
        f"{row.counts[0]} + {row.counts[1]}",
        f"{told['changed']} of {told['nodes']}" if told else NONE,
        _kept(told),
        NONE if found is None else f"{found:.6f}{flat}",
    ]
    if kind is PrecisionKind.INT8:
        percentile = told.get("recipe", {}).get("percentile")
        cells.append(NONE if percentile is None else f"{percentile:g}")
    cells += [_outcome(built.targets.get(name, "not tried")) for name in TARGETS]
    return [*cells, speed_cell(built.speed)]


def _outcome(reason: str | None) -> str:
    return "built" if reason is None else reason


def _kept(told: Mapping[str, Any]) -> str:
    """Return how many nodes stayed as they were, and of which operators most of them are."""
    if not told.get("kept_count"):
        return NONE if not told else "0"
    most = Counter(row["operator"] for row in told["kept"]).most_common(3)
    more = ", …" if len({row["operator"] for row in told["kept"]}) > len(most) else ""
    names = ", ".join(f"{name} {count}" for name, count in most)
    return f"{told['kept_count']}: {names}{more}"


def speed_cell(found: Ratio | None) -> str:
    """Return the ratio with its quartiles, and what to call it."""
    if found is None:
        return NONE
    label = found.label
    shown = f"**{label}**" if label == "slower" else label
    return f"{found.middle:.2f} ({found.low:.2f} to {found.high:.2f}) {shown}"
