"""A folder that was changed after it was installed is refused, offline."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from enginefarm.digest import digest_of
from enginefarm.errors import VerificationFailed
from enginefarm.install import verify_folder
from tests.unit.client.support.pulling import Fetch
from tests.unit.client.support.release import Release, SigningKey
from tests.unit.client.support.server import LoopbackFarm


@pytest.fixture
def installed(fetch: Fetch, loopback: LoopbackFarm, release: Release) -> Path:
    return fetch(loopback.serve(release)).folder


def _replace(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def _link(path: Path) -> None:
    target = path.parent.parent / "moved"
    path.rename(target)
    path.symlink_to(target)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


Damage = Callable[[Path], object]


DAMAGED: dict[str, tuple[Damage, str]] = {
    "wrong bytes": (
        lambda d: _replace(d / "model.onnx", b"X" + (d / "model.onnx").read_bytes()[1:]),
        "file_digest_mismatch",
    ),
    "truncated": (
        lambda d: _replace(d / "model.onnx", (d / "model.onnx").read_bytes()[:-1]),
        "file_truncated",
    ),
    "longer": (
        lambda d: _replace(d / "model.onnx", (d / "model.onnx").read_bytes() + b"x"),
        "file_too_long",
    ),
    "missing": (lambda d: (d / "model.onnx").unlink(), "file_missing"),
    "link": (lambda d: _link(d / "model.onnx"), "file_not_plain"),
    "pipe": (
        lambda d: _pipe(d / "model.onnx"),
        "file_not_plain",
    ),
    "no provenance": (lambda d: (d / "provenance.sigstore.json").unlink(), "file_missing"),
    "no manifest": (lambda d: (d / "manifest.json").unlink(), "file_missing"),
    "no config": (lambda d: (d / "config.json").unlink(), "file_missing"),
    "config changed": (
        lambda d: _replace(
            d / "config.json", (d / "config.json").read_bytes().replace(b"cpu", b"gpu")
        ),
        "file_digest_mismatch",
    ),
    "manifest changed": (
        lambda d: _replace(d / "manifest.json", (d / "manifest.json").read_bytes() + b"\n"),
        "subject_missing",
    ),
    "provenance changed": (
        lambda d: _replace(d / "provenance.sigstore.json", b"{}"),
        "bundle_invalid",
    ),
    "extra file": (lambda d: (d / "plugin.so").write_bytes(b"\x7fELF"), "file_unexpected"),
    "no folder": (lambda d: d.rename(d.with_name("gone")), "file_missing"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_an_installed_folder_that_was_changed_is_refused(
    name: str, installed: Path, key: SigningKey
) -> None:
    damage, code = DAMAGED[name]
    damage(installed)

    with pytest.raises(VerificationFailed) as caught:
        verify_folder(installed, [key.trusted])
    assert caught.value.code == code


def test_other_files_may_stand_beside_it_if_one_says_so(installed: Path, key: SigningKey) -> None:
    (installed / "config.pbtxt").write_bytes(b"platform")

    assert verify_folder(installed, [key.trusted], allow_extra=True).folder == installed


def test_a_good_folder_of_another_artifact_is_refused(installed: Path, key: SigningKey) -> None:
    with pytest.raises(VerificationFailed) as caught:
        verify_folder(installed, [key.trusted], digest=digest_of(b"another"))
    assert caught.value.code == "artifact_unexpected"
