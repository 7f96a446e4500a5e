"""``enginefarm timing-cache`` lists, shows, holds and drops what TensorRT builds have left."""

from __future__ import annotations

import json
from typing import Any

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from tests.unit.client.support.server import Handler, LoopbackFarm

NAMESPACE, SNAPSHOT = "sha256:" + "a" * 64, "sha256:" + "b" * 64
MOMENT = "2026-11-30T12:00:00Z"
CACHE: dict[str, Any] = {
    "namespace": NAMESPACE,
    "backend": "tensorrt",
    "version": "11.4.0.106",
    "cuda": "13",
    "gpu": "NVIDIA L4",
    "flags": {"tf32": False},
    "generation": 7,
    "current": 7,
    "pinned": None,
    "builds": 3,
    "hits": 354,
    "created_at": MOMENT,
    "updated_at": MOMENT,
}
ROW = {
    "generation": 7,
    "digest": SNAPSHOT,
    "size": 4096,
    "entries": 174,
    "state": "quarantined",
    "why": "header mismatch",
    "job_id": "job_1",
    "created_at": MOMENT,
}
PATH = f"/v1/timing-caches/{NAMESPACE}"


@pytest.fixture
def asked(farm_env: LoopbackFarm) -> list[tuple[str, Any]]:
    bodies: list[tuple[str, Any]] = []

    def answer(row: Any) -> Any:  # noqa: ANN401 - JSON
        def handle(handler: Handler) -> None:
            posted = handler.command == "POST"
            sent = handler.body() if posted else b""
            bodies.append((handler.path, json.loads(sent) if sent else None))
            handler.reply(200, json.dumps(row).encode())

        return handle

    whole = CACHE | {"snapshots": [ROW]}
    farm_env.routes["/v1/timing-caches"] = answer([CACHE])
    farm_env.routes[PATH] = answer(whole)
    farm_env.routes[f"{PATH}/pin"] = answer(whole | {"pinned": 7})
    farm_env.routes[f"{PATH}/drop"] = answer(CACHE | {"current": None})
    return bodies


@pytest.mark.parametrize(
    ("words", "path", "says"),
    [
        (["list"], "/v1/timing-caches", ["NVIDIA L4", "354"]),
        (["show", NAMESPACE], PATH, ["tf32=False", "174", "header mismatch"]),
        (["pin", NAMESPACE, "7"], f"{PATH}/pin", ["7 (held)"]),
        (["pin", NAMESPACE, "--newest"], f"{PATH}/pin", ["354 entries in 3 builds"]),
        (["drop", NAMESPACE], f"{PATH}/drop", ["dropped"]),
    ],
)
def test_each_command_asks_its_path_and_shows_what_comes(
    asked: list[tuple[str, Any]],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    path: str,
    says: list[str],
) -> None:
    assert invoke(["timing-cache", *words]) == ExitCode.OK
    shown = "".join(capsys.readouterr())
    assert asked[-1][0] == path
    assert all(each in shown for each in says), shown
    assert invoke(["timing-cache", *words, "--json"]) == ExitCode.OK
    assert NAMESPACE in capsys.readouterr().out


def test_a_pin_says_which_snapshot_or_none(asked: list[tuple[str, Any]]) -> None:
    invoke(["timing-cache", "pin", NAMESPACE, "7"])
    invoke(["timing-cache", "pin", NAMESPACE, "--newest"])
    assert [body for _, body in asked] == [{"generation": 7}, {"generation": None}]
    for words in ([], ["7", "--newest"]):
        assert invoke(["timing-cache", "pin", NAMESPACE, *words]) == ExitCode.USAGE
    assert len(asked) == 2
