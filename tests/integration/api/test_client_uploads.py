"""The client sends large models in parts, goes on where it stopped, and finds its way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from enginefarm.client import FarmClient, read_local_model
from enginefarm.client.part_sender import PartSender
from enginefarm.client.uploads import Uploads
from enginefarm.digest import digest_of
from enginefarm.errors import InvalidModel, Unavailable
from enginefarm.state import Scope, UploadState
from enginefarm.views import ModelView
from storage.models import Upload
from tests.contract.stores import store_at
from tests.integration.api import parts_sent
from tests.integration.api.made import with_external
from tests.integration.api.served import Served

LEAST = 5 << 20
ROOT = Path(__file__).parents[3]


@pytest.fixture
def api(serve: Callable[..., Served]) -> Served:
    return serve(upload_part_bytes=LEAST)


@pytest.fixture
def control(api: Served) -> Iterator[threading.Event]:
    """Let the control loops verify what comes, once the event is set."""
    go, stop = threading.Event(), threading.Event()

    def loop() -> None:
        while not stop.wait(0.05):
            if go.is_set():
                parts_sent.verified(api.farm)

    thread = threading.Thread(target=loop)
    thread.start()
    yield go
    stop.set()
    thread.join()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a model with 12 MB of weights beside it: three parts."""
    path = tmp_path / "models" / "big.onnx"
    path.parent.mkdir()
    path.write_bytes(with_external("weights.bin"))
    (path.parent / "weights.bin").write_bytes(os.urandom(2 * LEAST + 77))
    return path


def client_of(api: Served) -> FarmClient:
    farm = FarmClient(api.url, api.key(Scope.SUBMIT))
    farm.models.quick_bytes = 0
    return farm


def rows(api: Served) -> list[Upload]:
    with api.farm.database.transaction() as session:
        return session.query(Upload).order_by(Upload.id).all()


def test_a_large_model_is_sent_in_parts_counted_and_sent_once(
    api: Served, control: threading.Event, model: Path, tmp_path: Path
) -> None:
    control.set()
    hashed: list[tuple[int, int]] = []
    counted: list[tuple[int, int]] = []
    read: list[tuple[int, int]] = []
    with client_of(api) as farm:
        local = read_local_model(model, lambda *told: hashed.append(told))
        first = farm.models.upload(
            local,
            sent=lambda *told: counted.append(told),
            verified=lambda *told: read.append(told),
            remember=tmp_path / "notes",
        )
        again = farm.models.upload(model)

    assert (first.digest, first.name) == (local.digest, "big")
    assert hashed[-1] == counted[-1] == read[-1] == (local.size, local.size)
    assert again.existed
    assert [row.state for row in rows(api)] == [UploadState.DONE]
    assert list((tmp_path / "notes").iterdir()) == []


class Interrupted(BaseException):
    """As Ctrl-C: nothing of ours catches it."""


def test_what_was_sent_before_it_stopped_is_not_sent_again(
    api: Served, control: threading.Event, model: Path, tmp_path: Path
) -> None:
    control.set()
    local = read_local_model(model)

    def stop(done: int, _total: int) -> None:
        if done > LEAST:
            raise Interrupted

    counted: list[int] = []
    resumed: list[tuple[int, int]] = []
    with client_of(api) as farm:
        with pytest.raises(Interrupted):
            farm.models.upload(local, sent=stop, remember=tmp_path)
        [left] = rows(api)
        before = Uploads(farm._transport).get(left.id)
        view = farm.models.upload(
            local,
            sent=lambda done, _total: counted.append(done),
            remember=tmp_path,
            resumed=lambda there, total: resumed.append((there, total)),
        )

    assert left.state is UploadState.OPEN
    arrived = sum(
        min(file.part_bytes, file.size - (number - 1) * file.part_bytes)
        for file in before.files
        for number in file.received
    )
    assert counted[0] > arrived
    # A part that was on its way when it stopped may have come since.
    assert max((there for there, _ in resumed), default=0) >= arrived
    assert view.digest == local.digest
    assert [row.id for row in rows(api)] == [left.id]
    assert counted[-1] == local.size


def test_an_upload_that_has_gone_meanwhile_is_begun_anew(
    api: Served, control: threading.Event, model: Path, tmp_path: Path
) -> None:
    control.set()
    local = read_local_model(model)
    removed: list[str] = []

    def remove(_done: int, _total: int) -> None:
        if not removed:
            removed.append(rows(api)[0].id)
            with api.client(Scope.SUBMIT) as other:
                other.delete(f"/v1/uploads/{removed[0]}")

    with client_of(api) as farm:
        view = farm.models.upload(local, sent=remove, remember=tmp_path)

    assert view.digest == local.digest
    assert [row.state for row in rows(api)] == [UploadState.CANCELLED, UploadState.DONE]


def test_a_bucket_that_cannot_be_reached_is_gone_around(
    api: Served,
    control: threading.Event,
    serve: Callable[..., Served],
    model: Path,
    s3: dict[str, str],
) -> None:
    """The farm reaches it, and takes the parts itself."""
    control.set()
    hidden = store_at(s3, s3_public_endpoint="http://127.0.0.1:1")
    behind = serve(farm=replace(api.farm, objects=hidden), upload_part_bytes=LEAST)

    with client_of(behind) as farm:
        local = read_local_model(model)
        view = farm.models.upload(local)

    assert view.digest == local.digest
    for file in (local.main, *local.external):
        api.farm.objects.confirm(file.digest, file.size)


def test_a_file_that_changed_while_it_was_sent_is_refused(
    api: Served, control: threading.Event, model: Path, tmp_path: Path
) -> None:
    control.set()
    local = read_local_model(model)
    weights = model.parent / "weights.bin"
    weights.write_bytes(weights.read_bytes()[::-1])

    with client_of(api) as farm, pytest.raises(InvalidModel) as caught:
        farm.models.upload(local, remember=tmp_path / "notes")

    assert caught.value.code == "digest_mismatch"
    assert list((tmp_path / "notes").iterdir()) == []
    assert api.rows("models") == {"models": 0}


def test_a_part_is_sent_again_until_it_is_there(api: Served, model: Path) -> None:
    """A bucket that is busy, bytes that changed on the way, a connection that broke."""
    files = {path.name: path.read_bytes() for path in (model, model.parent / "weights.bin")}
    troubles: Iterator[object] = iter([503, 400, httpx.ReadError("broke")])
    real = httpx.HTTPTransport()

    def answer(request: httpx.Request) -> httpx.Response:
        trouble = next(troubles, None)
        if isinstance(trouble, Exception):
            raise trouble
        if isinstance(trouble, int):
            request.read()
            return httpx.Response(trouble)
        return real.handle_request(request)

    total = 0

    def sent(count: int) -> None:
        nonlocal total
        total += count

    with api.client(Scope.SUBMIT) as plain, client_of(api) as farm:
        upload = Uploads(farm._transport).get(parts_sent.declare(plain, files)["id"])
        bucket = httpx.Client(transport=httpx.MockTransport(answer), timeout=30)
        paths = [model, model.parent / "weights.bin"]
        PartSender(Uploads(farm._transport), bucket, paths, sent, connections=1).send(upload)
        there = parts_sent.shown(plain, {"id": upload.id})
    real.close()

    assert [file["received"] for file in there["files"]] == [[1], [1, 2, 3]]
    assert total == upload.size


def test_a_bucket_that_stays_away_ends_the_command_and_keeps_what_is_there(
    api: Served, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginefarm.client.part_sender._FIRST_PAUSE_S", 0.001)
    files = {path.name: path.read_bytes() for path in (model, model.parent / "weights.bin")}
    with api.client(Scope.SUBMIT) as plain, client_of(api) as farm:
        upload = Uploads(farm._transport).get(parts_sent.declare(plain, files)["id"])
        bucket = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(503)))
        paths = [model, model.parent / "weights.bin"]
        with pytest.raises(Unavailable) as caught:
            PartSender(Uploads(farm._transport), bucket, paths, lambda _: None).send(upload)

    assert caught.value.code == "connection_lost"
    assert [row.state for row in rows(api)] == [UploadState.OPEN]


# A shell that runs tests in its background has its children ignore Ctrl-C; a person's does not.
COMMAND = """import signal, sys
from enginefarm.client import catalogue
from enginefarm.cli.app import invoke
signal.signal(signal.SIGINT, signal.default_int_handler)
catalogue.QUICK_BYTES = 0
sys.exit(invoke(sys.argv[1:]))"""


def push(api: Served, key: str, model: Path, home: Path) -> subprocess.Popen[str]:
    environment = {
        "ENGINEFARM_URL": api.url,
        "ENGINEFARM_KEY": key,
        "HOME": str(home),
        "PYTHONPATH": str(ROOT / "client/src"),
    }
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "models", "push", str(model), "--json"],
        env=environment,
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_after_ctrl_c_the_same_command_goes_on_without_asking(
    api: Served, control: threading.Event, model: Path, tmp_path: Path
) -> None:
    key = api.key(Scope.SUBMIT)
    first = push(api, key, model, tmp_path)
    deadline = time.monotonic() + 60
    while not rows(api) or rows(api)[0].state is not UploadState.VERIFYING:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    out, told = first.communicate(timeout=60)
    notes = list((tmp_path / ".cache/enginefarm/uploads").iterdir())
    control.set()
    second = push(api, key, model, tmp_path)
    shown, trouble = second.communicate(timeout=120)

    assert (first.returncode, out) == (130, "")
    assert "goes on from there" in told
    assert len(notes) == 1
    assert second.returncode == 0, trouble
    assert ModelView.model_validate(json.loads(shown)).name == "big"
    assert len(rows(api)) == 1
    assert list(notes[0].parent.iterdir()) == []
    assert digest_of(model.read_bytes()) in shown
