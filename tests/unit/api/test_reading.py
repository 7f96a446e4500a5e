"""However many uploads come at once, so many are read at once; the others wait their turn."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
import pytest

from api.reading import Reading
from api.settings import ApiSettings
from enginefarm.errors import Unavailable
from intake.findings import ModelFound
from intake.reader import Reader

FOUND = ModelFound(inputs=[], outputs=[], opsets={}, node_count=1, external=[])


def settings(**changes: object) -> ApiSettings:
    values = {
        "database_url": "postgresql+psycopg://nobody@127.0.0.1:9/none",
        "valkey_url": "redis://127.0.0.1:9/0",
        "s3_access_key": "none",
        "s3_secret_key": "none",
    }
    return ApiSettings.model_validate(values | changes)


class Counted:
    """Counts how many read at the same time, and lets them go on when enough have come."""

    def __init__(self, together: int) -> None:
        self.most = self.done = self._now = 0
        self._lock = threading.Lock()
        self._gate = threading.Barrier(together)

    def model(self, _path: Path) -> ModelFound:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self._gate.wait(30)
        with self._lock:
            self._now -= 1
            self.done += 1
        return FOUND


def test_fifty_uploads_are_read_two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(together=2)
    monkeypatch.setattr(Reader, "model", counted.model)

    async def fifty() -> None:
        reading = Reading(settings(max_readers=2))
        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(reading.model, Path("m.onnx"))

    anyio.run(fifty)

    assert (counted.most, counted.done) == (2, 50)


def test_an_upload_that_waits_too_long_is_told_that_the_farm_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leave = threading.Event()

    def model(_reader: Reader, _path: Path) -> ModelFound:
        leave.wait(30)
        return FOUND

    monkeypatch.setattr(Reader, "model", model)
    codes: list[str] = []

    async def second() -> None:
        reading = Reading(settings(max_readers=1, reader_wait_s=0.05))
        async with anyio.create_task_group() as group:
            group.start_soon(reading.model, Path("first.onnx"))
            await anyio.wait_all_tasks_blocked()
            try:
                await reading.model(Path("second.onnx"))
            except Unavailable as error:
                codes.append(error.code)
            leave.set()

    anyio.run(second)

    assert codes == ["readers_busy"]
