"""A client of uploads in parts, as small as it can be: what a stranger does with plain HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from enginefarm.digest import digest_of
from intake.reader import Limits, Reader
from tasks.farm import Farm
from tasks.tidy_uploads import tidy
from tasks.verify_uploads import verify_due

READER = Reader(Limits(memory_bytes=128 << 20, cpu_s=60, wall_s=120))


def declaration(files: Mapping[str, bytes], **other: object) -> dict[str, object]:
    listed = [
        {"name": name, "size": len(data), "digest": digest_of(data)} for name, data in files.items()
    ]
    return {"files": listed} | other


def declare(client: httpx.Client, files: Mapping[str, bytes], **other: object) -> dict[str, Any]:
    answer = client.post("/v1/uploads", json=declaration(files, **other))
    assert answer.status_code == 201, answer.text
    upload: dict[str, Any] = answer.json()
    return upload


def missing(
    upload: Mapping[str, Any], files: Mapping[str, bytes]
) -> Iterator[tuple[int, int, bytes]]:
    """Give the parts that are not here: file, number and bytes."""
    for at, file in enumerate(upload["files"]):
        data, size = files[file["name"]], file["part_bytes"]
        for number in range(1, file["part_count"] + 1):
            if not file["present"] and number not in file["received"]:
                yield at, number, data[(number - 1) * size : number * size]


def ask(client: httpx.Client, upload: Mapping[str, Any], *parts: tuple[int, int, bytes]) -> Any:  # noqa: ANN401 - JSON
    asked = [{"file": f, "number": n, "digest": digest_of(data)} for f, n, data in parts]
    return client.post(f"/v1/uploads/{upload['id']}/parts", json={"parts": asked})


def send(client: httpx.Client, upload: Mapping[str, Any], *parts: tuple[int, int, bytes]) -> None:
    """Send parts straight to the bucket."""
    answer = ask(client, upload, *parts)
    assert answer.status_code == 200, answer.text
    for slot, (_, _, data) in zip(answer.json()["parts"], parts, strict=True):
        put = httpx.put(slot["url"], headers=slot["headers"], content=data, timeout=60)
        assert put.status_code == 200, put.text


def send_all(client: httpx.Client, upload: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    for part in missing(upload, files):
        send(client, upload, part)


def complete(client: httpx.Client, upload: Mapping[str, Any]) -> httpx.Response:
    return client.post(f"/v1/uploads/{upload['id']}/complete")


def shown(client: httpx.Client, upload: Mapping[str, Any]) -> dict[str, Any]:
    answer = client.get(f"/v1/uploads/{upload['id']}")
    assert answer.status_code == 200, answer.text
    view: dict[str, Any] = answer.json()
    return view


def verified(farm: Farm) -> None:
    """Let the control loops do what is due."""
    while verify_due(farm, READER) + tidy(farm):
        continue


def uploaded(client: httpx.Client, farm: Farm, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Send a model in parts to the end."""
    upload = declare(client, files)
    send_all(client, upload, files)
    assert complete(client, upload).status_code == 200
    verified(farm)
    return shown(client, upload)
