"""The table of a running farm says where each door is, and where its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from localfarm import screen
from localfarm.credentials import SECRETS
from localfarm.folder import Folder, Running
from localfarm.settings import ROOT


def test_every_door_that_is_locked_stands_with_where_its_key_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Folder(tmp_path / ".farm")
    running = Running(
        url="http://127.0.0.1:8080",
        docs="http://127.0.0.1:8080/docs",
        flower="http://127.0.0.1:5555",
        flower_login="farm:secret",
        s3="http://127.0.0.1:18333",
        folder=folder.path,
        children={"api": 17},
    )

    screen.show_running(running)

    said = capsys.readouterr().out
    assert "key in .farm/client.toml" in said
    assert f"s3_access_key and s3_secret_key in .farm/{SECRETS}" in said
    assert "login farm:secret" in said


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        (ROOT / ".farm", "Ctrl-C or `make stop` ends it; the data stays"),
        (
            Path("/data/my farm"),
            "Ctrl-C or `ENGINEFARM_LOCAL_FOLDER='/data/my farm' make stop` ends it; the data stays",
        ),
    ],
)
def test_of_a_farm_elsewhere_it_is_said_where_make_has_to_look(
    folder: Path, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    screen.say_how_it_ends("it", folder)
    assert capsys.readouterr().out.replace("\n", " ").strip() == said
