"""The worker API as a node sees it: typed calls, retries with backoff, the farm's own errors.

A connection error or a 5xx is tried again until the call's patience is over, then it is
``Unavailable``. A call may arrive twice; the control plane's compare-and-set makes that harmless.
A farm that answers, but without its bucket, is not waited for as long: there may be an end to tell.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from typing import TypeVar

import httpx
import structlog
from pydantic import BaseModel, ValidationError

from enginefarm import errors
from enginefarm.views import Problem
from tasks.messages import (
    BUCKET_AWAY,
    ClaimReply,
    ClaimRequest,
    EnrolReply,
    EnrolRequest,
    FinishReply,
    FinishRequest,
    LeaseBeat,
    LeaseBeatReply,
    NodeBeat,
    NodeBeatReply,
    TimingMerge,
    TimingRefusal,
    TimingReply,
    UploadsReply,
    UploadsRequest,
)

BASE = "/worker/v1"
TIMEOUT = httpx.Timeout(10.0, connect=3.0)
FIRST_DELAY_S, LONGEST_DELAY_S = 0.2, 5.0
BUCKET_PATIENCE_S = 5.0
BUSY = frozenset({408, 425, 429})
SERVER_ERROR = 500

Reply = TypeVar("Reply", bound=BaseModel)
log = structlog.get_logger(__name__)


class WorkerApi:
    """A client of one farm for one node; not shared between processes."""

    def __init__(
        self,
        url: str,
        credential: str,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Speak to ``url`` with a node's credential (or, to enrol, with the enrolment token)."""
        self._client = httpx.Client(
            base_url=url.rstrip("/") + BASE,
            headers={"Authorization": f"Bearer {credential}"},
            timeout=TIMEOUT,
            transport=transport,
            # A proxy of the surroundings has no business between a node and its farm.
            trust_env=False,
        )
        self._sleep = sleep

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def enrol(self, request: EnrolRequest, *, patience_s: float) -> EnrolReply:
        """Join the farm; wait for it to come up."""
        return self._post("/enrol", request, EnrolReply, patience_s)

    def beat(self, message: NodeBeat) -> NodeBeatReply:
        """Say that the node lives."""
        return self._post("/beat", message, NodeBeatReply, 0)

    def claim(self, request: ClaimRequest, *, patience_s: float = 30) -> ClaimReply:
        """Ask for a job; however often that takes, it is one claim, of this caller alone."""
        mine = request.model_copy(update={"claim_id": secrets.token_urlsafe(32)})
        return self._post("/claims", mine, ClaimReply, patience_s)

    def lease_beat(self, job_id: str, message: LeaseBeat) -> LeaseBeatReply:
        """Keep a lease; one try, since the next beat is another."""
        return self._post(f"/jobs/{job_id}/beat", message, LeaseBeatReply, 0)

    def uploads(self, job_id: str, request: UploadsRequest, *, patience_s: float) -> UploadsReply:
        """Ask where files go."""
        return self._post(f"/jobs/{job_id}/uploads", request, UploadsReply, patience_s)

    def merge_timings(self, job_id: str, request: TimingMerge, *, patience_s: float) -> TimingReply:
        """Offer a timing cache."""
        return self._post(f"/jobs/{job_id}/timing-cache", request, TimingReply, patience_s)

    def refuse_timings(
        self, job_id: str, request: TimingRefusal, *, patience_s: float
    ) -> TimingReply:
        """Say that a timing cache is of no use."""
        path = f"/jobs/{job_id}/timing-cache/refusals"
        return self._post(path, request, TimingReply, patience_s)

    def finish(self, job_id: str, request: FinishRequest, *, patience_s: float) -> FinishReply:
        """End an attempt."""
        return self._post(f"/jobs/{job_id}/finish", request, FinishReply, patience_s)

    def _post(self, path: str, message: BaseModel, reply: type[Reply], patience_s: float) -> Reply:
        began = time.monotonic()
        delay = FIRST_DELAY_S
        while True:
            try:
                return self._once(path, message, reply)
            except errors.Unavailable as error:
                away = error.code == BUCKET_AWAY
                patience = min(patience_s, BUCKET_PATIENCE_S) if away else patience_s
                if time.monotonic() + delay > began + patience:
                    raise
                log.info("farm_away", path=path, why=error.why, again_in_s=round(delay, 2))
            self._sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - jitter is no secret
            delay = min(delay * 2, LONGEST_DELAY_S)

    def _once(self, path: str, message: BaseModel, reply: type[Reply]) -> Reply:
        try:
            response = self._client.post(
                path,
                content=message.model_dump_json(),
                headers={"Content-Type": "application/json"},
            )
        except httpx.TransportError as error:
            raise _away(f"{type(error).__name__}: {error}") from error
        if response.is_success:
            try:
                return reply.model_validate_json(response.content)
            except ValidationError as error:
                raise _away(f"the answer is not a {reply.__name__}") from error
        if response.status_code >= SERVER_ERROR or response.status_code in BUSY:
            raise _away(f"HTTP {response.status_code}", bucket=_names_bucket(response))
        raise _error_of(response)


def _names_bucket(response: httpx.Response) -> bool:
    """Tell whether the farm lacks its bucket, and nothing else."""
    try:
        return Problem.model_validate_json(response.content).code == BUCKET_AWAY
    except ValidationError:
        return False


def _away(why: str, *, bucket: bool = False) -> errors.Unavailable:
    return errors.Unavailable(
        "The farm has no bucket." if bucket else "The farm does not answer.",
        code=BUCKET_AWAY if bucket else "farm_away",
        why=f"{why}.",
        fix="Look at the api's log and at the address in ENGINEFARM_URL.",
    )


_FAMILY: dict[int, type[errors.FarmError]] = {
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    413: errors.TooLarge,
}


def _error_of(response: httpx.Response) -> errors.FarmError:
    """Rebuild the farm's error from a problem document."""
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        return errors.InvalidRequest(
            f"The farm refuses with HTTP {response.status_code} and no problem document.",
            code="farm_answer_strange",
            fix="Is ENGINEFARM_URL the farm's own address?",
        )
    family = _FAMILY.get(response.status_code, errors.InvalidRequest)
    if problem.code == errors.LeaseLost.default_code:
        family = errors.LeaseLost
    return family(problem.detail, code=problem.code, why=problem.why, fix=problem.fix)
