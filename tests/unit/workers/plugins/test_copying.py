"""A job loads a copy that was hashed as it was made, or nothing."""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from enginefarm.digest import digest_of
from enginefarm.errors import JobFailed
from enginefarm.state import Blame
from workers.plugins import copying
from workers.plugins.copying import Shelf, copied
from workers.plugins.folder import Library
from workers.transfer import TransferStopped

DATA = b"code" * 1000
DIGEST = digest_of(DATA)
NAMED = {"onnxruntime": [DIGEST]}


def never() -> None:
    """Let it go on."""


@pytest.fixture
def gone() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def shelf(tmp_path: Path, gone: list[tuple[str, str]]) -> Shelf:
    """Return a node's shelf with one library on it."""
    path = tmp_path / "lib.so"
    path.write_bytes(DATA)
    library = Library(backend="onnxruntime", name="lib.so", path=path, digest=DIGEST)
    return Shelf([library], lambda backend, digest: gone.append((backend, digest)))


def test_a_job_gets_a_copy_of_its_own_that_nobody_may_write(
    shelf: Shelf, tmp_path: Path, gone: list[tuple[str, str]]
) -> None:
    found = copied(NAMED, shelf, tmp_path / "job", never)
    (path,) = found["onnxruntime"]
    (tmp_path / "lib.so").write_bytes(b"something else by now")
    assert path.read_bytes() == DATA
    assert path.is_relative_to(tmp_path / "job")
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert not gone


def test_a_file_that_was_changed_is_not_handed_on_and_is_told(
    shelf: Shelf, tmp_path: Path, gone: list[tuple[str, str]]
) -> None:
    (tmp_path / "lib.so").write_bytes(DATA[:-1] + b"!")
    with pytest.raises(JobFailed) as refused:
        copied(NAMED, shelf, tmp_path / "job", never)
    assert (refused.value.code, refused.value.blame) == ("plugin_changed", Blame.NODE)
    assert DIGEST in refused.value.why
    assert gone == [("onnxruntime", DIGEST)]
    assert not list((tmp_path / "job").rglob("*.so"))


@pytest.mark.parametrize("made", ["nothing", "a folder", "a link to nothing"])
def test_a_file_that_is_not_there_any_more_is_told(
    shelf: Shelf, tmp_path: Path, gone: list[tuple[str, str]], made: str
) -> None:
    (tmp_path / "lib.so").unlink()
    if made == "a folder":
        (tmp_path / "lib.so").mkdir()
    elif made == "a link to nothing":
        (tmp_path / "lib.so").symlink_to(tmp_path / "nowhere")
    with pytest.raises(JobFailed) as refused:
        copied(NAMED, shelf, tmp_path / "job", never)
    assert (refused.value.code, refused.value.blame) == ("plugin_missing", Blame.NODE)
    assert gone == [("onnxruntime", DIGEST)]


def test_what_was_announced_for_another_backend_is_missing(
    shelf: Shelf, tmp_path: Path, gone: list[tuple[str, str]]
) -> None:
    with pytest.raises(JobFailed) as refused:
        copied({"tensorrt": [DIGEST]}, shelf, tmp_path / "job", never)
    assert refused.value.code == "plugin_missing"
    assert gone == [("tensorrt", DIGEST)]


def test_a_job_that_is_stopped_is_not_made_to_wait_for_a_copy(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(TransferStopped):
        copied(NAMED, shelf, tmp_path / "job", lambda: "cancelled")


def test_a_job_without_plugins_has_none(tmp_path: Path) -> None:
    assert copied({}, Shelf(), tmp_path / "job", never) == {}
    assert not (tmp_path / "job").exists()


def test_a_file_that_cannot_be_read_to_its_end_is_missing_and_told(
    shelf: Shelf, tmp_path: Path, gone: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_fd: int) -> Iterator[bytes]:
        yield DATA[:4]
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(copying, "chunks_of", broken)
    with pytest.raises(JobFailed) as refused:
        copied(NAMED, shelf, tmp_path / "job", never)
    assert (refused.value.code, refused.value.blame) == ("plugin_missing", Blame.NODE)
    assert gone == [("onnxruntime", DIGEST)]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
def test_what_this_machine_lacks_for_now_takes_no_library_away(
    shelf: Shelf,
    tmp_path: Path,
    gone: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    def none(_path: Path) -> int:
        raise OSError(number, "no")

    monkeypatch.setattr(copying, "opened", none)
    with pytest.raises(OSError, match="no"):
        copied(NAMED, shelf, tmp_path / "job", never)
    assert gone == []


def test_of_a_file_that_has_grown_no_more_is_copied_than_a_library_may_have(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "MOST_BYTES", len(DATA))
    endless = [DATA] * 3 + [b""]

    def without_end(_fd: int) -> Iterator[bytes]:
        while endless:
            yield endless.pop(0)

    monkeypatch.setattr(copying, "chunks_of", without_end)
    with pytest.raises(JobFailed) as refused:
        copied(NAMED, shelf, tmp_path / "job", never)
    assert refused.value.code == "plugin_changed"
    assert len(endless) == 2
