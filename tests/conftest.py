"""The fixtures that every room shares: real services, a migrated database, a bucket, a farm.

The services are started by the first test that needs one and shared by all xdist workers of the
run; each worker has its own database, its own Valkey database number and its own bucket.
"""

from __future__ import annotations

import gc
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from localfarm.services import Services
from localfarm.shared import services_of_run

if TYPE_CHECKING:
    from xdist.remote import Producer

    from storage.database import Database
    from storage.objects import S3Objects
    from tasks.farm import Farm

# Nothing here speaks TLS. That no client reads the certificates of the world saves 30 ms for each.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = os.devnull

# `pytest --hypothesis-profile deep`: many and long examples, other ones each time.
settings.register_profile(
    "deep",
    max_examples=3000,
    stateful_step_count=60,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


# Of these all files go to one worker: they share a farm, or what the machine was found to have.
_ONE_FARM, _BACKENDS = "tests/e2e/one_farm/", "tests/contract/backends/"
# Who gets a file last keeps the others waiting: whole farms first, what is done at once last.
_ROOMS = (_ONE_FARM, "tests/e2e/", _BACKENDS, "tests/integration/", "tests/contract/")


class _FilesTogether(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Gives a file to one worker: what its tests share is then made once.

    xdist's own way by files puts the files with the most tests first, not those that take longest.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((room for room in (_ONE_FARM, _BACKENDS) if file.startswith(room)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _FilesTogether:
    """Return the way in which the run's workers share the tests."""
    config.option.loadscopereorder = False
    return _FilesTogether(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the rooms in order; within a room the order stays as it is, which is a random one."""
    items.sort(
        key=lambda item: next(
            (at for at, room in enumerate(_ROOMS) if item.nodeid.startswith(room)), len(_ROOMS)
        )
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage in what is collected: all of it stays, and to search it takes seconds."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def services_folder(request: pytest.FixtureRequest) -> Path:
    """Return where this test run keeps its services; short, for the sake of unix sockets."""
    given = getattr(request.config, "workerinput", None)
    run = given["testrunuid"] if given else f"{os.getpid()}-{secrets.token_hex(4)}"
    return Path(tempfile.gettempdir()) / f"enginefarm-{run[:24]}"


@pytest.fixture(scope="session")
def service(request: pytest.FixtureRequest, services_folder: Path) -> _Service:
    """Return the way to a running service by its name."""
    is_worker = hasattr(request.config, "workerinput")
    return _Service(services_folder, os.getppid() if is_worker else os.getpid())


class _Service:
    def __init__(self, folder: Path, run_pid: int) -> None:
        self._folder = folder
        self._run_pid = run_pid

    def __call__(self, name: str) -> Services:
        return services_of_run(name, self._folder, self._run_pid)


@pytest.fixture(scope="session")
def worker_number(request: pytest.FixtureRequest) -> int:
    """Return which of the run's processes this is, counted from 0."""
    given = getattr(request.config, "workerinput", None)
    return int(given["workerid"].removeprefix("gw")) if given else 0


@pytest.fixture(scope="session")
def bare_postgres_url(service: _Service, worker_number: int) -> str:
    """Return the URL of an empty database of this process."""
    return service("postgres").postgres.ensure_database(f"bare_{worker_number}")


@pytest.fixture(scope="session")
def postgres_url(service: _Service, worker_number: int) -> str:
    """Return the URL of a migrated database of this process."""
    from storage import migrate

    url = service("postgres").postgres.ensure_database(f"farm_{worker_number}")
    migrate.upgrade(url)
    return url


@pytest.fixture(scope="session")
def _database(postgres_url: str) -> Iterator[Database]:
    from storage.database import Database

    database = Database(postgres_url)
    yield database
    database.dispose()


@pytest.fixture
def database(_database: Database) -> Database:
    """Return the database with every table empty; to truncate them all takes ten times as long."""
    from sqlalchemy import text

    from storage.models import Base

    names = [table.name for table in Base.metadata.sorted_tables]
    there = ", ".join(f'EXISTS (SELECT FROM "{name}")' for name in names)
    with _database.transaction() as session:
        # Without foreign keys to look at, in any order.
        session.execute(text("SET LOCAL session_replication_role = replica"))
        filled = session.execute(text(f"SELECT {there}")).one()
        for name, has_rows in zip(names, filled, strict=True):
            if has_rows:
                session.execute(text(f'DELETE FROM "{name}"'))  # noqa: S608
    return _database


@pytest.fixture(scope="session")
def valkey_url(service: _Service, worker_number: int) -> str:
    """Return the URL of this process's own Valkey database."""
    return service("valkey").valkey.url(worker_number)


@pytest.fixture(scope="session")
def s3(service: _Service, worker_number: int) -> dict[str, str]:
    """Return the settings by which this process reaches a bucket of its own."""
    services = service("seaweedfs")
    return {
        "s3_endpoint": services.s3.endpoint,
        "s3_region": services.s3.region,
        "s3_bucket": f"enginefarm-{worker_number}",
        "s3_access_key": services.credentials.s3_access_key,
        "s3_secret_key": services.credentials.s3_secret_key,
    }


@pytest.fixture(scope="session")
def objects(s3: dict[str, str]) -> S3Objects:
    """Return the object store on this process's bucket; blobs of earlier tests may be there."""
    from storage.objects import S3Objects
    from storage.settings import StorageSettings

    elsewhere = {
        "database_url": "postgresql+psycopg://nowhere/none",
        "valkey_url": "redis://nowhere",
    }
    settings = StorageSettings.model_validate(elsewhere | s3)
    store = S3Objects.from_settings(settings)
    store.ensure_bucket()
    return store


@pytest.fixture
def farm(database: Database, objects: S3Objects, valkey_url: str, tmp_path: Path) -> Farm:
    """Return a farm on the real services, with a signing key of its own."""
    from storage import signing
    from storage.progress import ProgressStreams
    from tasks.farm import Farm, Policy

    private, public = signing.create_key_files(tmp_path / "signing")
    signer = signing.StatementSigner(
        f"file2:{private}", public.read_text("ascii"), "https://farm.test/control"
    )
    with database.transaction() as session:
        signer.register(session)
    return Farm(
        database=database,
        objects=objects,
        progress=ProgressStreams(valkey_url),
        policy=Policy(),
        signer=signer,
    )
