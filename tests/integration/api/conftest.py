"""The API served by a real server on loopback, over the real database, bucket and Valkey."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
import uvicorn
from sqlalchemy import Engine, event

from api.app import create_app
from api.settings import ApiSettings
from tasks.farm import Farm
from tests.integration.api.served import TOKEN, Served


@pytest.fixture(autouse=True)
def plain_logs() -> Iterator[None]:
    """Print tracebacks as they are: drawing the whole application's state takes minutes."""
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, plain])
    yield
    structlog.reset_defaults()


@pytest.fixture
def serve(
    farm: Farm, postgres_url: str, valkey_url: str, s3: dict[str, str], tmp_path: Path
) -> Iterator[Callable[..., Served]]:
    """Return a function that serves the API with settings of its own."""
    stops: list[Callable[[], None]] = []

    def start(*, farm: Farm = farm, **settings: object) -> Served:
        spool = tmp_path / "spool"
        spool.mkdir(exist_ok=True)
        values = (
            {
                "database_url": postgres_url,
                "valkey_url": valkey_url,
                "enrolment_token": TOKEN,
                "spool_dir": spool,
                "max_model_bytes": 4 << 20,
                "max_dataset_bytes": 1 << 20,
                "max_dataset_expanded_bytes": 4 << 20,
            }
            | s3
            | settings
        )
        made = ApiSettings.model_validate(values)
        url, stop = _run(made, farm)
        stops.append(stop)
        return Served(url, farm, made, spool)

    yield start
    for stop in stops:
        stop()


@pytest.fixture
def api(serve: Callable[..., Served]) -> Served:
    """The API with the settings of a small farm."""
    return serve()


def _run(settings: ApiSettings, farm: Farm) -> tuple[str, Callable[[], None]]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        create_app(settings, farm),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
        ws="none",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    deadline = time.monotonic() + 10
    while not server.started:
        if time.monotonic() > deadline or not thread.is_alive():
            pytest.fail("the API did not start")
        time.sleep(0.005)

    def stop() -> None:
        server.should_exit = True
        thread.join(10)
        listener.close()

    return f"http://127.0.0.1:{listener.getsockname()[1]}", stop


@pytest.fixture
def queries() -> Iterator[list[str]]:
    """Collect every statement that is sent to the database."""
    seen: list[str] = []

    def note(
        _connection: object, _cursor: object, statement: str, *_rest: object, **_more: object
    ) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    yield seen
    event.remove(Engine, "before_cursor_execute", note)
