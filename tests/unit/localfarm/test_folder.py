"""A data folder is held by one process at a time, and says who and where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localfarm.errors import LocalFarmError
from localfarm.folder import Folder, Running

RUNNING = Running(
    url="http://127.0.0.1:8080",
    docs="http://127.0.0.1:8080/docs",
    flower="http://127.0.0.1:5555",
    flower_login="farm:secret",
    s3="http://127.0.0.1:18333",
    folder=Path("/data"),
    children={"api": 17},
)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "data")


def test_a_folder_that_never_was_is_held_by_nobody(folder: Folder) -> None:
    assert folder.holder() is None
    assert folder.running() is None


def test_a_held_folder_names_its_holder(folder: Folder) -> None:
    with folder.held():
        assert folder.holder() == os.getpid()

    assert folder.holder() is None


def test_a_second_holder_is_told_that_a_farm_runs_and_where(folder: Folder) -> None:
    with folder.held():
        folder.announce(RUNNING)
        with pytest.raises(LocalFarmError, match="runs on") as caught, folder.held():
            pytest.fail("two hold one folder")

    assert caught.value.code == "farm_running"
    assert RUNNING.url in caught.value.message


def test_a_running_farm_is_read_back_as_it_was_announced(folder: Folder) -> None:
    with folder.held():
        assert folder.running() is None
        folder.announce(RUNNING)
        assert folder.running() == RUNNING


def test_what_a_farm_said_of_itself_is_not_believed_once_it_has_ended(folder: Folder) -> None:
    with folder.held():
        folder.announce(RUNNING)

    assert folder.running() is None


def test_the_password_of_flower_is_readable_by_its_owner_alone(folder: Folder) -> None:
    with folder.held():
        folder.announce(RUNNING)
        modes = {path.stat().st_mode & 0o777 for path in folder.path.glob("farm.json")}

    assert modes == {0o600}
