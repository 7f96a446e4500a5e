"""``pull`` and ``verify`` on the command line: each refusal by its own message and exit code 3."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.digest import digest_of
from enginefarm.trust import MAX_TRUST_BYTES
from tests.unit.client.support.release import Release, SigningKey
from tests.unit.client.support.server import LoopbackFarm


@pytest.fixture
def pulled(farm_env: LoopbackFarm, release: Release, trust_file: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "engine"
    assert invoke(["pull", farm_env.serve(release), str(folder), "--trust", str(trust_file)]) == 0
    return folder


def test_what_was_pulled_is_verified_without_a_farm(
    pulled: Path,
    release: Release,
    trust_file: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ENGINEFARM_URL")
    capsys.readouterr()

    assert invoke(["verify", str(pulled), "--trust", str(trust_file), "--json"]) == ExitCode.OK

    told = json.loads(capsys.readouterr().out)
    assert told["digest"] == release.digest
    assert Path(told["engine"]).read_bytes() == release.files["model.onnx"]


Spoil = Callable[[Path], object]


def _rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    data = change(path.read_bytes())
    path.unlink()
    path.write_bytes(data)


def _edit_bundle(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    def edited(data: bytes) -> bytes:
        bundle = json.loads(data)
        change(bundle)
        return json.dumps(bundle).encode()

    _rewrite(folder / "provenance.sigstore.json", edited)


def _swap_statement(bundle: dict[str, Any]) -> None:
    """Put another good statement of a stranger's under the farm's name."""
    stranger = Release.of(SigningKey.new(), {"model.onnx": b"evil"})
    bundle["dsseEnvelope"]["payload"] = json.loads(stranger.bundles[0])["dsseEnvelope"]["payload"]


REFUSED: dict[str, tuple[Spoil, str]] = {
    "wrong bytes": (
        lambda d: _rewrite(d / "model.onnx", lambda data: b"X" + data[1:]),
        "does not hold the bytes that were signed",
    ),
    "truncated file": (
        lambda d: _rewrite(d / "model.onnx", lambda data: data[:-1]),
        "is cut short",
    ),
    "longer file": (
        lambda d: _rewrite(d / "model.onnx", lambda data: data + b"x"),
        "is longer than what was signed",
    ),
    "missing file": (lambda d: (d / "report.json").unlink(), "report.json is missing"),
    "swapped manifest": (
        lambda d: _rewrite(
            d / "manifest.json",
            lambda _: Release.of(SigningKey.new(), {"model.onnx": b"evil"}).manifest,
        ),
        "is not about manifest.json",
    ),
    "tampered payload": (lambda d: _edit_bundle(d, _swap_statement), "signature is not by key"),
    "two signatures": (
        lambda d: _edit_bundle(
            d,
            lambda bundle: bundle["dsseEnvelope"].update(
                signatures=bundle["dsseEnvelope"]["signatures"] * 2
            ),
        ),
        "carries 2 signatures",
    ),
    "unsigned file": (
        lambda d: (d / "plugin.so").write_bytes(b"\x7fELF"),
        "which nobody has signed",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_verify_refuses_with_its_own_sentence(
    name: str, pulled: Path, trust_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, sentence = REFUSED[name]
    spoil(pulled)
    capsys.readouterr()

    code = invoke(["verify", str(pulled), "--trust", str(trust_file)])

    out, err = capsys.readouterr()
    assert code == ExitCode.VERIFICATION_REFUSED
    assert sentence in err
    assert "why: " in err
    assert "fix: " in err
    assert "Traceback" not in err
    assert out == ""


TRUSTS: dict[str, tuple[Callable[[SigningKey], list[dict[str, Any]]], str]] = {
    "wrong key": (
        lambda _: [SigningKey.new().trusted.model_dump(mode="json")],
        "which is not trusted",
    ),
    "no key": (lambda _: [], "which is not trusted"),
    "revoked key": (
        lambda key: [key.trusted.model_dump(mode="json") | {"revoked_at": "2026-01-01T00:00:00Z"}],
        "is revoked",
    ),
    "expired key": (
        lambda key: [key.trusted.model_dump(mode="json") | {"not_after": "2021-01-01T00:00:00Z"}],
        "has expired",
    ),
    "unknown builder": (
        lambda key: [key.trusted.model_dump(mode="json") | {"builders": ["https://other"]}],
        "may not speak for the builder",
    ),
    "not a trust file": (lambda _: [{"keyid": "x"}], "cannot be used as a list of trusted keys"),
}


@pytest.mark.parametrize("name", TRUSTS)
@pytest.mark.parametrize("command", ["pull", "verify"])
def test_a_key_that_may_not_vouch_is_refused(
    command: str,
    name: str,
    pulled: Path,
    release: Release,
    key: SigningKey,
    trust_file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    keys, sentence = TRUSTS[name]
    trust_file.write_text(json.dumps({"keys": keys(key)}), encoding="utf-8")
    other = pulled.with_name("other")
    line = ["pull", release.digest, str(other)] if command == "pull" else ["verify", str(pulled)]

    assert invoke([*line, "--trust", str(trust_file)]) == ExitCode.VERIFICATION_REFUSED

    assert sentence in capsys.readouterr().err
    assert not other.exists()


@pytest.mark.parametrize("endless", ["/dev/zero", "/dev/urandom"])
def test_of_a_trust_file_that_never_ends_no_more_is_read_than_one_can_have(
    pulled: Path, endless: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["verify", str(pulled), "--trust", endless]) == ExitCode.VERIFICATION_REFUSED

    told = capsys.readouterr().err
    assert "trust_invalid" in told
    assert f"longer than {MAX_TRUST_BYTES} bytes" in " ".join(told.split())


def test_without_a_trust_file_nothing_is_fetched(
    farm_env: LoopbackFarm, release: Release, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["pull", farm_env.serve(release)]) == ExitCode.VERIFICATION_REFUSED
    assert "trust --save" in capsys.readouterr().err
    assert farm_env.seen == []


def test_with_json_a_refusal_is_the_one_document(
    farm_env: LoopbackFarm,
    release: Release,
    trust_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    digest = farm_env.serve(release)
    farm_env.blobs[digest_of(release.files["model.onnx"])] = b"short"

    code = invoke(["pull", digest, str(tmp_path / "e"), "--trust", str(trust_file), "--json"])

    told = json.loads(capsys.readouterr().out)
    assert code == ExitCode.VERIFICATION_REFUSED
    assert told["error"]["code"] == "file_truncated"


def test_a_folder_one_may_not_write_is_this_machines_fault(
    farm_env: LoopbackFarm, release: Release, trust_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    place = tmp_path / "file" / "engine"

    code = invoke(["pull", farm_env.serve(release), str(place), "--trust", str(trust_file)])

    assert code == ExitCode.THIS_MACHINE
