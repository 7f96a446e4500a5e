"""The API served by a real server on loopback, over the real database, bucket and Valkey."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import structlog
import uvicorn
from sqlalchemy import Engine, event

from api.app import create_app
from api.settings import ApiSettings
from storage.objects import S3Objects
from tasks.farm import Farm
from tests.integration.api.served import TOKEN, Served


@pytest.fixture(autouse=True)
def plain_logs() -> Iterator[None]:
    """Print tracebacks as they are: drawing the whole application's state takes minutes."""
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, plain])
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def values(
    postgres_url: str,
    valkey_url: str,
    s3: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, object]:
    """Return the settings of a small farm."""
    return {
        "database_url": postgres_url,
        "valkey_url": valkey_url,
        "enrolment_token": TOKEN,
        "spool_dir": tmp_path_factory.mktemp("spool"),
        "max_model_bytes": 4 << 20,
        "max_dataset_bytes": 1 << 20,
        "max_dataset_expanded_bytes": 4 << 20,
        **s3,
    }


@pytest.fixture(scope="session")
def standing(values: dict[str, object], objects: S3Objects) -> Iterator[tuple[str, ApiSettings]]:
    """Serve the API as ``python -m api`` makes it, once for all tests."""
    objects.ensure_bucket()  # it is there before the API is
    settings = ApiSettings.model_validate(values)
    url, stop = _run(settings, None)
    yield url, settings
    stop()


@pytest.fixture
def api(farm: Farm, standing: tuple[str, ApiSettings]) -> Served:
    """Return the standing API, over a database that is empty."""
    url, settings = standing
    return Served(url, farm, settings)


@pytest.fixture
def serve(farm: Farm, values: dict[str, object]) -> Iterator[Callable[..., Served]]:
    """Return a function that serves the API with settings or a farm of its own."""
    stops: list[Callable[[], None]] = []

    def start(*, farm: Farm = farm, **settings: object) -> Served:
        made = ApiSettings.model_validate(values | settings)
        url, stop = _run(made, farm)
        stops.append(stop)
        return Served(url, farm, made)

    yield start
    for stop in stops:
        stop()


def _run(settings: ApiSettings, farm: Farm | None) -> tuple[str, Callable[[], None]]:
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
