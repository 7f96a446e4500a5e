"""The secrets of a data folder: random, made once, private."""

from __future__ import annotations

from pathlib import Path

from localfarm.credentials import Credentials, write_private


def test_secrets_are_made_once_and_then_read(tmp_path: Path) -> None:
    first = Credentials.of(tmp_path)

    assert Credentials.of(tmp_path) == first


def test_two_folders_share_no_secret(tmp_path: Path) -> None:
    one, other = (Credentials.of(tmp_path / name) for name in ("one", "other"))

    shared = set(one.model_dump().values()) & set(other.model_dump().values())
    assert shared == {one.flower_user}


def test_secrets_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    Credentials.of(tmp_path)

    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600


def test_a_private_file_replaces_a_public_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    path.chmod(0o644)

    write_private(path, "after")

    assert path.read_text() == "after"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
