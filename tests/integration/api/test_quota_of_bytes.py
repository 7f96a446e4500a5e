"""What a tenant may keep holds for uploads that come at the same time, too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from enginefarm.state import Scope
from storage import tenants
from storage.objects import S3Objects
from tests.integration.api.made import npz, onnx_model
from tests.integration.api.served import Served


def model(salt: int) -> bytes:
    return onnx_model(salt=salt)


def dataset(salt: int) -> bytes:
    return npz(x=np.full((2, 4), salt, np.float32))


@pytest.mark.parametrize(("path", "made"), [("/v1/models", model), ("/v1/datasets", dataset)])
def test_uploads_at_the_same_time_do_not_each_find_the_room_of_one(
    api: Served, monkeypatch: pytest.MonkeyPatch, path: str, made: Callable[[int], bytes]
) -> None:
    with api.farm.database.transaction() as session:
        tenants.get(session, api.tenant()).max_bytes = len(made(1)) + 10
    both_found_room = threading.Barrier(2, timeout=30)
    put_file = S3Objects.put_file

    def together(self: S3Objects, digest: str, file: Path, media_type: str) -> None:
        both_found_room.wait()
        put_file(self, digest, file, media_type)

    monkeypatch.setattr(S3Objects, "put_file", together)

    def send(salt: int) -> httpx.Response:
        with api.client(Scope.SUBMIT) as client:
            return client.post(path, content=made(salt))

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(send, (1, 2)))

    assert sorted(answer.status_code for answer in answers) == [201, 429]
    assert [a.json()["code"] for a in answers if a.status_code == 429] == ["quota_bytes"]
