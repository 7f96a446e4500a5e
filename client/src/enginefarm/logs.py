"""How the farm's own processes log: one JSON object a line on stderr.

For the API, the control loops and nodes, which import nothing else in common. It needs structlog
(``enginefarm[farm]``); nothing that people use imports it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TypeVar

import structlog
from pydantic import BaseModel, ValidationError
from structlog.tracebacks import ExceptionDictTransformer

Told = TypeVar("Told", bound=BaseModel)
PREFIX, WRONG_SETTINGS_STATUS = "ENGINEFARM_", 2

# Without the values of variables: they hold keys, tokens and whole requests.
_TRACEBACKS = ExceptionDictTransformer(show_locals=False, max_frames=20)


def configure() -> None:
    """Set up structlog, and let the standard library's loggers speak the same form.

    What is bound to the context (a request, a build, a job, an attempt) is in every line of it. A
    library's line has the event ``library_message``: its text is not ours to search by.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(_TRACEBACKS),
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer(sort_keys=True)],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.EventRenamer("message"),
                _name_event,
                structlog.processors.JSONRenderer(sort_keys=True),
            ],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def settings_or_leave(read: Callable[[], Told]) -> Told:
    """Return what a process was told; if that cannot be used, say which variables, and end it.

    What they were set to is not said: it holds passwords and tokens.
    """
    try:
        return read()
    except ValidationError as error:
        rows = error.errors(include_url=False, include_context=False, include_input=False)
        wrong = {f"{PREFIX}{str(row['loc'][0]).upper()}": row["msg"] for row in rows if row["loc"]}
        structlog.get_logger(__name__).error(
            "settings_refused",
            code="invalid_setting",
            settings=wrong,
            fix="Set these variables; docs/operate/settings.md says what each means.",
        )
        sys.exit(WRONG_SETTINGS_STATUS)


def _name_event(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    event["event"] = "library_message"
    return event
