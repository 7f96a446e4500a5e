"""``python -m workers.child SCRATCH``: run the one job in SCRATCH and leave, without teardown.

This process alone imports runtimes. What it prints is the job's log; what it found is in
``result.json``; a failure that is understood is a result, not a crash.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType

from enginefarm.confinement import die_with
from enginefarm.errors import Failure, FarmError
from enginefarm.state import Blame
from tasks.fault_points import reach
from tasks.messages import SCRATCH_FULL
from workers import ends
from workers.childjob import JOB_FILE, RESULT_FILE, ChildJob, ChildResult, write_document
from workers.reporting import PipeSink


def main(arguments: list[str]) -> int:
    """Run the job and write its result."""
    parser = argparse.ArgumentParser(prog="workers.child", description=__doc__)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--progress-fd", type=int)
    asked = parser.parse_args(arguments)
    die_with(asked.parent)
    faulthandler.enable()
    sink = PipeSink(asked.progress_fd)

    def on_sigterm(_number: int, _frame: FrameType | None) -> None:
        sink.stop()

    signal.signal(signal.SIGTERM, on_sigterm)
    job = ChildJob.model_validate_json((asked.scratch / JOB_FILE).read_text())
    reach("child.began")
    result = run(job, sink)
    reach("child.made")
    try:
        write_document(asked.scratch / RESULT_FILE, with_peak(result))
    except OSError as error:
        if ends.failure_of(error).code == SCRATCH_FULL:
            return ends.NO_ROOM_STATUS
        raise
    return 0


def run(job: ChildJob, sink: PipeSink) -> ChildResult:
    """Run a stage; whatever it raises becomes a failure with a blame."""
    from workers import stages

    try:
        return stages.run(job, sink)
    except FarmError as error:
        return ChildResult(failure=error.as_failure())
    except MemoryError:
        traceback.print_exc()
        return ChildResult(failure=_out_of_memory())
    except Exception as error:  # noqa: BLE001 - the last line of defence: said as what it is
        traceback.print_exc()
        return ChildResult(failure=ends.failure_of(error))


def with_peak(result: ChildResult) -> ChildResult:
    """Return a result with the most memory that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return result.model_copy(update={"peak_memory_bytes": peak})


def _out_of_memory() -> Failure:
    return Failure(
        code="out_of_memory",
        blame=Blame.NODE,
        message="The job ran out of memory.",
        why="An allocation was refused.",
        fix="Use a node with more memory, or reduce the profile's max.",
    )


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Runtimes may crash while they are torn down; the result is on disk, so leave at once.
    os._exit(code)
