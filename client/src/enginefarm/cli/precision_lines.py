"""How a precision is asked for on the command line, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import JsonValue

from enginefarm.cli.figures import size
from enginefarm.finding import Severity
from enginefarm.precision import Precision, PrecisionKind
from enginefarm.precision_report import PrecisionRecipe, PrecisionReport
from enginefarm.shapes_text import shapes_text
from enginefarm.verdict_report import PrecisionVerdict, VerdictReport

_SHOWN = 5


def precision_asked(kind: PrecisionKind, finer: JsonValue) -> JsonValue:
    """Add what ``--option precision.…`` asks for to a kind; lists are separated by commas."""
    given = finer if isinstance(finer, dict) else {}
    read: dict[str, JsonValue] = {"kind": str(kind)}
    for name, value in given.items():
        many = name in {"op_types", "exclude"} and isinstance(value, str)
        read[name] = [part.strip() for part in str(value).split(",")] if many else value
    return read


def precision_text(asked: Precision) -> Iterator[str]:
    """Yield what was asked for, as it is written; nothing where the model is built as it is."""
    told = asked.model_dump(mode="json", exclude_defaults=True)
    if "kind" not in told:
        return
    words = [f"--precision {told.pop('kind')}"]
    calibration = told.pop("calibration", None)
    words += [f"--calibration {calibration}"] if calibration else []
    for name, value in told.items():
        text = ",".join(value) if isinstance(value, list) else json.dumps(value).strip('"')
        words.append(f"--option precision.{name}={text}")
    yield " ".join(words)


def precision_line(told: PrecisionReport | None) -> str:
    """Return the precision in one line."""
    if told is None:
        return "as the model came"
    share = f"{told.changed} of {told.nodes} nodes"
    made = f"{size(told.model_bytes)}, in {told.seconds:.1f} s"
    return f"{told.recipe.kind} by {_tool(told.recipe)}: {share}, {made}"


def verdict_line(told: VerdictReport | None) -> Iterator[str]:
    """Yield what is said of the precision, with the numbers."""
    if told is None:
        return
    released = ", released all the same" if told.verdict and not told.held_back else ""
    released = "" if told.verdict is PrecisionVerdict.ACCEPT else released
    yield f"precision {told.verdict or 'has no verdict'}{released}: {told.reason}"


def verdict_notes(told: VerdictReport | None) -> Iterator[str]:
    """Yield the verdict, and what it was held against."""
    yield from verdict_line(told)
    if told is not None and told.twin is not None:
        yield f"precision twin {told.twin.precision}: {told.twin.why}"
    for row in told.speed if told is not None else []:
        for reason in row.trust.tainted if row.trust is not None else []:
            yield f"precision beside its twin at {shapes_text(row.shapes)}, tainted: {reason}"


def _tool(recipe: PrecisionRecipe) -> str:
    if recipe.method is None:
        return str(recipe.tool)
    upto = f" {recipe.percentile:g}" if recipe.percentile is not None else ""
    upto += f" in blocks of {recipe.block_size}" if recipe.block_size is not None else ""
    return f"{recipe.tool} {recipe.tool_version}, {recipe.method}{upto}"


def precision_warnings(told: PrecisionReport | None) -> Iterator[str]:
    """Yield what may be the cause of a verdict: what the precision warned of."""
    for row in told.findings if told is not None else []:
        if row.severity is Severity.WARNING:
            yield f"precision warning: {row.message} {row.fix}"


def precision_notes(told: PrecisionReport | None) -> Iterator[str]:
    """Yield what to know before the precision is relied on."""
    if told is None:
        return
    if told.data is not None:
        sizes = f" of {told.data.sizes} sizes" if told.data.sizes > 1 else ""
        samples = f"{told.data.samples} samples{sizes}"
        yield f"precision calibrated on {samples} ({told.recipe.calibration})"
    if told.model_accuracy is None:
        yield f"precision of the model file is not known: {told.model_accuracy_reason}"
    yield from (f"precision {row.severity}: {row.message} {row.fix}" for row in told.findings)
    yield from (f"precision is labelled {label}" for label in told.labels)
    for row in told.kept[:_SHOWN]:
        yield f"precision {row.operator} {row.node} stays as it was: {row.why}"
    if told.kept_count > _SHOWN:
        yield f"precision leaves {told.kept_count} nodes in all as they were"
