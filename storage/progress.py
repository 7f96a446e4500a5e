"""Progress on its way to watchers: one capped Valkey stream a build, and the latest of each job.

Progress is not the truth. When Valkey is away a job goes on, and watchers are told by the rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import redis
import redis.asyncio
import structlog

from enginefarm.errors import Unavailable

_KEPT = 1000
_EXPIRES_S = 24 * 3600
_log = structlog.get_logger()


class ProgressStreams:
    """Streams of progress, by build."""

    def __init__(self, url: str) -> None:
        """Prepare both clients; nothing is connected yet."""
        self._sync = redis.Redis.from_url(
            url, socket_timeout=3, socket_connect_timeout=2, health_check_interval=15
        )
        self._url = url
        self._async: redis.asyncio.Redis | None = None

    def publish(self, build_id: str, job_id: str, data: dict[str, Any]) -> None:
        """Tell the watchers of a build how far a job is."""
        body = json.dumps(data)
        try:
            with self._sync.pipeline(transaction=False) as pipe:
                pipe.set(_latest(job_id), body, ex=_EXPIRES_S)
                pipe.xadd(
                    _stream(build_id),
                    {"job": job_id, "data": body},
                    maxlen=_KEPT,
                    approximate=True,
                )
                pipe.expire(_stream(build_id), _EXPIRES_S)
                pipe.execute()
        except redis.RedisError as error:
            _log.warning("progress_not_published", build=build_id, job=job_id, error=str(error))

    def wake(self, build_id: str) -> None:
        """Tell the watchers of a build that its rows have changed."""
        try:
            with self._sync.pipeline(transaction=False) as pipe:
                pipe.xadd(_stream(build_id), {"wake": "1"}, maxlen=_KEPT, approximate=True)
                pipe.expire(_stream(build_id), _EXPIRES_S)
                pipe.execute()
        except redis.RedisError as error:
            _log.warning("watchers_not_woken", build=build_id, error=str(error))

    def latest(self, job_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the last progress of each job that has any."""
        if not job_ids:
            return {}
        try:
            values: Any = self._sync.mget([_latest(job_id) for job_id in job_ids])
        except redis.RedisError as error:
            _log.warning("progress_not_read", error=str(error))
            return {}
        return {
            job_id: json.loads(value)
            for job_id, value in zip(job_ids, values, strict=True)
            if value is not None
        }

    async def read(
        self, build_id: str, after: str, block_ms: int
    ) -> list[tuple[str, dict[str, Any]]]:
        """Wait up to ``block_ms`` for entries after ``after`` (``$``: from now; ``0``: all kept).

        An entry is ``(id, {"job": …, "data": {…}})``; one that only wakes is ``(id, {})``.

        Raises:
            Unavailable: Valkey is away (code ``valkey_away``).
        """
        if self._async is None:
            self._async = redis.asyncio.Redis.from_url(
                self._url, socket_timeout=None, socket_connect_timeout=2
            )
        try:
            answer: Any = await self._async.xread(
                {_stream(build_id): after}, count=200, block=block_ms
            )
        except redis.RedisError as error:
            raise _away(error) from error
        streams = answer.values() if isinstance(answer, dict) else [rows for _, rows in answer]
        return [_entry(entry) for rows in streams for entry in _flat(rows)]

    def ping(self) -> None:
        """Ask Valkey for an answer.

        Raises:
            Unavailable: it is away (code ``valkey_away``).
        """
        try:
            self._sync.ping()
        except redis.RedisError as error:
            raise _away(error) from error

    def close(self) -> None:
        """Close the connections of this thread."""
        self._sync.close()

    async def aclose(self) -> None:
        """Close the watchers' connections."""
        if self._async is not None:
            await self._async.aclose()


def _stream(build_id: str) -> str:
    return f"progress:{build_id}"


def _latest(job_id: str) -> str:
    return f"progress:job:{job_id}"


def _flat(rows: Any) -> list[Any]:  # noqa: ANN401 - RESP2 and RESP3 nest differently
    if rows and isinstance(rows[0], list) and rows[0] and not isinstance(rows[0][0], bytes | str):
        return [entry for group in rows for entry in group]
    return list(rows)


def _entry(entry: Any) -> tuple[str, dict[str, Any]]:  # noqa: ANN401 - as redis gives it
    stream_id, fields = entry
    if b"job" not in fields:
        return stream_id.decode(), {}
    return stream_id.decode(), {
        "job": fields[b"job"].decode(),
        "data": json.loads(fields[b"data"]),
    }


def _away(error: Exception) -> Unavailable:
    return Unavailable(
        "Valkey does not answer.",
        code="valkey_away",
        why=f"{type(error).__name__}.",
        fix="Builds go on; their state is in the database. Try again in a moment.",
    )
