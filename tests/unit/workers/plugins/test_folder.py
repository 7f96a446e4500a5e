"""What a node takes from the folder of plugin libraries, and what it refuses with why."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from enginefarm.digest import digest_of
from workers.plugins import folder
from workers.plugins.folder import look


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """Return a folder that is its owner's alone, with one for ONNX Runtime in it."""
    made = tmp_path / "plugins"
    for each in (made, made / "onnxruntime"):
        each.mkdir(mode=0o755)
    return made


def lay(plugins: Path, name: str, data: bytes = b"code", mode: int = 0o644) -> Path:
    path = plugins / "onnxruntime" / name
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_a_library_is_known_by_the_digest_of_its_bytes(plugins: Path) -> None:
    path = lay(plugins, "libone-1.2.so")
    looked = look(plugins)
    (found,) = looked.libraries
    assert (found.backend, found.name, found.path) == ("onnxruntime", "libone-1.2.so", path)
    assert found.digest == digest_of(b"code")
    assert not looked.refused


def test_a_link_to_a_plain_file_is_taken_by_its_own_name(plugins: Path, tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.mkdir(mode=0o755)
    (beside / "real.so").write_bytes(b"code")
    (beside / "real.so").chmod(0o644)
    (plugins / "onnxruntime" / "lib.so").symlink_to("../../beside/real.so")
    (found,) = look(plugins).libraries
    assert (found.name, found.digest) == ("lib.so", digest_of(b"code"))
    beside.chmod(0o777)
    assert "may write the folder" in look(plugins).refused["onnxruntime/lib.so"]
    beside.chmod(0o1777)  # what is sticky keeps others from laying another file under its name
    assert look(plugins).libraries


def test_a_link_that_leads_through_a_folder_of_others_is_refused(
    plugins: Path, tmp_path: Path
) -> None:
    clean, shared = tmp_path / "clean", tmp_path / "shared"
    clean.mkdir(mode=0o755)
    shared.mkdir()
    shared.chmod(0o777)
    lay(plugins, "lib.so").rename(clean / "real.so")
    (shared / "link.so").symlink_to(clean / "real.so")
    (plugins / "onnxruntime" / "lib.so").symlink_to(shared / "link.so")
    looked = look(plugins)
    assert not looked.libraries
    assert f"the folder {shared}" in looked.refused["onnxruntime/lib.so"]
    (plugins / "onnxruntime" / "lib.so").unlink()
    (plugins / "onnxruntime" / "lib.so").symlink_to("lib.so")
    assert look(plugins).refused["onnxruntime/lib.so"] == "too many links lead to it"


def test_a_folder_that_others_could_put_another_in_the_place_of_is_refused(
    plugins: Path, tmp_path: Path
) -> None:
    lay(plugins, "lib.so")
    tmp_path.chmod(0o777)
    looked = look(plugins)
    assert not looked.libraries
    assert f"the folder {tmp_path}" in looked.refused[str(plugins)]


@pytest.mark.parametrize("place", ["onnxruntime/lib.so", "onnxruntime", "."])
def test_what_belongs_to_somebody_else_is_refused(
    plugins: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    lay(plugins, "lib.so")
    strange, real = (plugins / place).stat().st_ino, folder._require_owner

    def told(what: str, seen: os.stat_result) -> None:
        # Nobody but root may give a file away: the rule is told that this one was.
        owner = list(seen)
        owner[stat.ST_UID] = 12345 if seen.st_ino == strange else seen.st_uid
        real(what, os.stat_result(owner))

    assert look(plugins).libraries
    monkeypatch.setattr(folder, "_require_owner", told)
    looked = look(plugins)
    assert not looked.libraries
    assert "belongs to user 12345" in " ".join(looked.refused.values())


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_what_others_may_write_is_refused(plugins: Path, mode: int) -> None:
    lay(plugins, "lib.so", mode=mode)
    looked = look(plugins)
    assert not looked.libraries
    assert "others may write it" in looked.refused["onnxruntime/lib.so"]


@pytest.mark.parametrize(("place", "label"), [("", "plugins"), ("onnxruntime", "onnxruntime")])
def test_a_folder_in_which_others_may_lay_files_is_refused_whole(
    plugins: Path, place: str, label: str
) -> None:
    lay(plugins, "lib.so")
    (plugins / place).chmod(0o775)
    looked = look(plugins)
    assert not looked.libraries
    ((where, why),) = looked.refused.items()
    assert where.endswith(label)
    assert "may write the folder" in why


def test_what_is_no_library_is_refused_with_its_reason(
    plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "MOST_BYTES", 4)
    lay(plugins, "large.so", b"12345")
    lay(plugins, "read.me")
    lay(plugins, "my lib\n.so")
    (plugins / "onnxruntime" / "gone.so").symlink_to(plugins / "nowhere")
    (plugins / "onnxruntime" / "folder.so").mkdir()
    os.mkfifo(plugins / "onnxruntime" / "pipe.so")
    (plugins / "tensorrt-rtx").mkdir(mode=0o755)
    (plugins / "tensorrt").write_text("")
    looked = look(plugins)
    assert not looked.libraries
    told = {
        "onnxruntime/large.so": "at most 4",
        "onnxruntime/read.me": "does not end in .so",
        "onnxruntime/my_lib_.so": "its name",
        "onnxruntime/gone.so": "no such file",
        "onnxruntime/folder.so": "no plain file",
        "onnxruntime/pipe.so": "no plain file",
        "tensorrt-rtx": "onnxruntime or tensorrt",
        "tensorrt": "no folder",
    }
    assert looked.refused.keys() == told.keys()
    assert [name for name, words in told.items() if words not in looked.refused[name]] == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_the_node_cannot_read_is_refused(plugins: Path) -> None:
    lay(plugins, "lib.so", mode=0o200)
    assert "permission" in look(plugins).refused["onnxruntime/lib.so"]


def test_of_two_files_with_the_same_bytes_one_is_kept(plugins: Path) -> None:
    lay(plugins, "a.so")
    lay(plugins, "b.so")
    looked = look(plugins)
    assert [row.name for row in looked.libraries] == ["a.so"]
    assert looked.refused == {"onnxruntime/b.so": "it is the same as a.so"}


def test_a_node_takes_only_so_many(plugins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "MOST_LIBRARIES", 1)
    lay(plugins, "a.so", b"a")
    lay(plugins, "b.so", b"b")
    looked = look(plugins)
    assert [row.name for row in looked.libraries] == ["a.so"]
    assert "takes 1" in looked.refused["onnxruntime/b.so"]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    looked = look(tmp_path / "nowhere")
    assert not looked.libraries
    assert "no such file" in looked.refused[str(tmp_path / "nowhere")]
