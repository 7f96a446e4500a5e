"""One attempt at one job: claim, fetch, run the child, store, finish.

The executor never imports a runtime. Whatever happens it says how the attempt ended, unless the
lease is no longer its own: then it says nothing, and the farm's reaper has the word. A node that is
told to leave hands the job back at whatever step it is.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import structlog

from enginefarm.errors import Failure, FarmError, JobFailed, LeaseLost
from enginefarm.manifest import LOG_TYPE
from enginefarm.report import Machine
from enginefarm.state import JobState
from tasks.fault_points import reach
from tasks.messages import Assignment, ClaimRequest, FinishRequest, OutputFile
from tasks.routing import plugins_of
from workers import alone, ends, handing, hardware, offering, sandbox, transfer, verdict
from workers.childjob import RESULT_FILE, ChildOutput, ChildResult
from workers.fetching import fetch
from workers.gpu.need import need_of
from workers.joblog import JobLog
from workers.lease import Lease
from workers.measurement import machine
from workers.plugins.copying import copied
from workers.settings import child_environment
from workers.storing import store, tell_end
from workers.workshop import Workshop as Workshop  # noqa: PLC0414 - what an attempt is made with

LOG_NAME = "log.txt"
CANCELLED_LOG_S = 5.0
"""How long the slot of a cancelled job waits for the bucket to take its log."""
LEAST_PATIENCE_S = 5.0
HAND_BACK_PATIENCE_S = 3.0
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _End:
    state: JobState
    outputs: tuple[ChildOutput, ...] = ()
    result: ChildResult = field(default_factory=ChildResult)
    failure: Failure | None = None
    machine: Machine | None = None
    peak_memory_bytes: int | None = None


def attempt(workshop: Workshop, job_id: str, number: int) -> str:
    """Try to claim an attempt and, if it is ours, carry it out; return how it went, in a word."""
    with structlog.contextvars.bound_contextvars(job=job_id, attempt=number):
        reach("node.heard")
        reply = workshop.api.claim(ClaimRequest(job_id=job_id, attempt=number))
        assignment = reply.assignment
        if assignment is None:
            log.info("claim_declined", reason=reply.declined)
            return f"declined: {reply.declined}"
        with structlog.contextvars.bound_contextvars(
            build=assignment.build_id, stage=str(assignment.stage), target=str(assignment.target)
        ):
            log.info("job_claimed", lease_s=assignment.lease_s)
            reach("node.claimed")
            return _Attempt(workshop, assignment).carry_out()


def _over(deadline: float) -> str | None:
    return "too late" if time.monotonic() > deadline else None


class _Attempt:
    def __init__(self, workshop: Workshop, assignment: Assignment) -> None:
        self._shop = workshop
        self._job = assignment
        self._log = JobLog(workshop.job_log_bytes)
        self._lease = Lease(workshop.api, assignment, self._log)
        told = assignment.limits
        memory = told.memory_bytes or workshop.job_memory_bytes
        self._limits = sandbox.Limits(told.running_s, told.silent_s, memory)

    def carry_out(self) -> str:
        try:
            with self._lease:
                return self._in_scratch()
        except LeaseLost as error:
            log.warning("lease_lost", code=error.code)
            return "lease lost"

    def _in_scratch(self) -> str:
        try:
            self._shop.scratch.mkdir(parents=True, exist_ok=True)
            prefix = f"{self._job.job_id}-{self._job.attempt}-"
            scratch = Path(tempfile.mkdtemp(prefix=prefix, dir=self._shop.scratch))
            try:
                return self._tell(scratch, self._work(scratch))
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        except FarmError:
            raise
        except Exception as error:
            # Nothing more can be kept here, so the end goes without files.
            log.exception("attempt_broken")
            self._end_without_files(JobState.FAILED, ends.failure_of(error))
            return "failed"
        except BaseException:
            # The worker is being shut down: the child is dead by now; hand the job back.
            log.warning("job_handed_back")
            self._end_without_files(JobState.QUEUED, ends.handed_back())
            raise

    def _work(self, scratch: Path) -> _End:
        load_before = hardware.load_average()
        try:
            # The cheapest first: without them nothing need be fetched.
            plugins = copied(plugins_of(self._job.recipe), self._shop.plugins, scratch, self._stop)
            inputs = fetch(self._job, scratch / "inputs", self._stop)
            inputs += offering.begin(self._job, scratch, self._log, self._stop)
            reach("node.fetched")
            end = self._run_child(scratch, handing.Given(inputs, plugins))
            offering.conclude(self._road(scratch), inputs, end.result.timing)
        except transfer.TransferStopped:
            return self._stopped()
        except FarmError as error:
            return _End(JobState.FAILED, failure=error.as_failure())
        found = machine.of_job(self._job, self._shop.devices, load_before, end.result.device_uuid)
        return replace(end, machine=found)

    def _road(self, scratch: Path) -> offering.NodeRoad:
        job, shop, said, stop = self._job, self._shop, self._log, self._stop
        need = partial(need_of, job.stage, job.target, shop.devices, shop.gpus)
        mine = (shop.api, job, scratch, self._limits, need)
        return offering.NodeRoad(*mine, said, stop, self._patience)

    def _run_child(self, scratch: Path, given: handing.Given) -> _End:
        handing.hand(self._shop, self._job, given, scratch, self._limits.memory_bytes)
        outcome = sandbox.run(
            sandbox.child_command(scratch),
            cwd=scratch,
            environment=child_environment(scratch),
            limits=self._limits,
            log=self._log,
            on_progress=lambda said: self._shop.on_progress(self._job, self._lease.progress(said)),
            stop=self._stop,
        )
        reach("node.child_ended")
        log.info(
            "child_ended",
            ending=str(outcome.ending),
            returncode=outcome.returncode,
            seconds=round(outcome.seconds, 3),
            peak_memory_bytes=outcome.peak_memory_bytes,
        )
        if outcome.ending is sandbox.Ending.STOPPED:
            return self._stopped()
        end = self._judge(outcome, scratch)
        # The tree is looked at now and then; the kernel counted every moment of the child itself.
        most = max(outcome.peak_memory_bytes, end.result.peak_memory_bytes)
        return replace(end, peak_memory_bytes=most)

    def _judge(self, outcome: sandbox.Outcome, scratch: Path) -> _End:
        failure = verdict.failure_of(outcome, self._limits)
        path = scratch / RESULT_FILE
        if failure is None and not path.exists():
            failure = verdict.no_result(outcome)
        if failure is not None:
            words = self._log.render().decode(errors="replace")
            failure = verdict.with_last_words(failure, words)
            self._log.say(f"{failure.message} {failure.why} {failure.fix}")
            result = alone.measured(scratch, failure)
        else:
            result = ChildResult.model_validate_json(path.read_bytes())
            if result.failure is not None:
                self._log.say(f"{result.failure.message} {result.failure.why}")
        state = JobState.SUCCEEDED if result.failure is None else JobState.FAILED
        return _End(state, tuple(result.outputs), result, result.failure)

    def _stop(self) -> str | None:
        return self._lease.stop_reason

    def _stopped(self) -> _End:
        self._log.say(f"stopped: {self._lease.stop_reason}")
        return _End(JobState.CANCELLED)

    def _tell(self, scratch: Path, end: _End) -> str:
        if not self._lease.held:
            log.warning("attempt_abandoned", reason=self._lease.stop_reason)
            return f"abandoned: {self._lease.stop_reason}"
        written = scratch / LOG_NAME
        written.write_bytes(self._log.render())
        log_output = ChildOutput(role="log", name=LOG_NAME, path=written, media_type=LOG_TYPE)
        try:
            end, outputs = self._store_all(end, log_output)
        except JobFailed as error:
            end, outputs = _End(JobState.FAILED, failure=error.as_failure()), []
        reach("node.stored")
        finished = FinishRequest(
            attempt=self._job.attempt,
            lease_token=self._job.lease_token,
            state=end.state,
            outputs=outputs[:-1],
            facts=end.result.facts,
            machine=end.machine,
            peak_memory_bytes=end.peak_memory_bytes,
            failure=end.failure,
            log=outputs[-1] if outputs else None,
        )
        reply = tell_end(self._shop.api, self._job.job_id, finished, self._patience)
        reach("node.finished")
        log.info("job_finished", state=str(end.state), job_state=str(reply.state))
        return str(end.state)

    def _store_all(self, end: _End, log_output: ChildOutput) -> tuple[_End, list[OutputFile]]:
        """Store what was made and the log; of a job that is cancelled meanwhile, the log alone."""
        try:
            if self._stop() is None:
                return end, self._store([*end.outputs, log_output], self._stop)
        except transfer.TransferStopped:
            log.info("storing_stopped", reason=self._stop())
        stored: list[OutputFile] = []
        deadline = time.monotonic() + CANCELLED_LOG_S
        try:
            stored = self._store([log_output], lambda: self._lost() or _over(deadline))
        except transfer.TransferStopped:
            if not self._lease.held:
                raise LeaseLost("The lease was lost while storing.", code="lease_lost") from None
        return _End(JobState.CANCELLED, machine=end.machine), stored

    def _store(self, files: Sequence[ChildOutput], stop: transfer.Stop) -> list[OutputFile]:
        return store(self._shop.api, self._job, files, stop, self._patience)

    def _lost(self) -> str | None:
        """A cancelled job still stores its log; a lost one stops."""
        return None if self._lease.held else self._lease.stop_reason

    def _patience(self) -> float:
        return max(self._lease.report_s, LEAST_PATIENCE_S)

    def _end_without_files(self, state: JobState, failure: Failure) -> None:
        """Say how the attempt ended; one that has ended already stays as it is."""
        end = FinishRequest(
            attempt=self._job.attempt,
            lease_token=self._job.lease_token,
            state=state,
            failure=failure,
        )
        patience = HAND_BACK_PATIENCE_S if state is JobState.QUEUED else self._patience()
        try:
            self._shop.api.finish(self._job.job_id, end, patience_s=patience)
        except FarmError as error:
            log.warning("end_not_told", code=error.code, why=error.why)
