"""What a runtime's words mean: tables from texts to code, cause, cure and blame, as data. Pure.

The first row that matches decides, so the special stands before the general. A text that no row
knows is handed on as it is, under the code the caller chooses.
"""

from __future__ import annotations

import re

from enginefarm.errors import JobFailed
from enginefarm.state import Blame
from enginefarm.target import Target
from workers.diagnosis import (
    llm_rows,
    machine_rows,
    onnx_rows,
    parser_rows,
    tensorrt_rows,
)
from workers.diagnosis.row import Row, Runtime

__all__ = [
    "TABLE",
    "Row",
    "Runtime",
    "diagnose",
    "failure_of",
    "refuse_node_fault",
    "runtime_of",
    "shorten",
]

TABLE: tuple[Row, ...] = (
    *machine_rows.ROWS,
    *parser_rows.ROWS,
    *tensorrt_rows.ROWS,
    *onnx_rows.ROWS,
    *llm_rows.ROWS,
)


def diagnose(text: str, runtime: Runtime) -> Row | None:
    """Return the first row that knows ``text``, or None."""
    for row in TABLE:
        if row.runtime in (runtime, Runtime.ANY) and re.search(row.pattern, text, re.DOTALL):
            return row
    return None


def failure_of(texts: list[str], runtime: Runtime, *, code: str, message: str) -> JobFailed:
    """Make the failure for what a runtime said: the first text that the table knows decides.

    ``code`` is used when no row knows any of the texts; the runtime's own words are then the why.
    """
    for text in texts:
        row = diagnose(text, runtime)
        if row is not None:
            return JobFailed(
                message,
                blame=row.blame,
                code=row.code,
                why=row.why,
                fix=row.fix,
                said=shorten(text),
            )
    said = shorten(" | ".join(texts)) if texts else "It gave no reason."
    return JobFailed(
        message,
        blame=Blame.PERSON if texts else Blame.NODE,
        code=code,
        why=f"The runtime said: {said}",
        fix="Read the job's log for the words before; try the model in the runtime by itself.",
        said=said,
    )


def runtime_of(target: Target) -> Runtime:
    """Return whose words those are that an engine of a target says."""
    return Runtime.TENSORRT if target.backend.startswith("tensorrt") else Runtime.ONNXRUNTIME


def refuse_node_fault(text: str, runtime: Runtime, target: Target) -> None:
    """Keep what a node lacks from being told as a finding about the model.

    Raises:
        JobFailed: the table knows the text, and the model is not to blame for it.
    """
    row = diagnose(text, runtime)
    if row is not None and row.blame is not Blame.PERSON:
        message = f"The model could not be run for {target}."
        raise failure_of([text], runtime, code=row.code, message=message)


def shorten(text: str, limit: int = 600) -> str:
    """Return a text on one line, without NUL (no database keeps it), cut in the middle if long."""
    line = " ".join(text.replace("\0", "").split())
    if len(line) <= limit:
        return line
    return f"{line[: limit * 2 // 3]} … {line[-limit // 3 :]}"
