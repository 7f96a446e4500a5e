"""Every line that a process of the farm logs is one JSON object, whoever says it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

SAY = """
import logging
import structlog
from enginefarm import logs

logs.configure()
log = structlog.get_logger()
log.debug("never_shown")
with structlog.contextvars.bound_contextvars(build="bld_1"):
    log.info("job_started", stage="check")
    logging.getLogger("library").warning("slow %s\\nanswer", "broker")
    logging.getLogger("library").info("never shown")
    secret = "ef_" + "never_shown"
    try:
        {}["absent"]
    except KeyError:
        log.exception("job_failed")
"""


def lines() -> list[dict[str, Any]]:
    """Run a process that logs, as the farm's do; return its lines."""
    done = subprocess.run([sys.executable, "-c", SAY], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_our_events_and_a_librarys_words_have_one_form() -> None:
    started, slow, failed = lines()

    assert started.items() >= {"event": "job_started", "level": "info", "stage": "check"}.items()
    assert (slow["event"], slow["message"]) == ("library_message", "slow broker\nanswer")
    assert slow["level"] == "warning"
    assert failed["exception"][0]["exc_type"] == "KeyError"
    assert "ef_never_shown" not in json.dumps(failed), "a traceback tells the values of variables"
    for line in (started, slow, failed):
        assert line["build"] == "bld_1"
        assert line["timestamp"].endswith("Z")
