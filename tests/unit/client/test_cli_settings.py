"""Where the command line finds the farm, and to whom it gives the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.cli.settings import read_settings
from enginefarm.errors import InvalidRequest
from tests.unit.client.support.server import LoopbackFarm


def _settings_file(folder: Path, text: str) -> Path:
    (folder / ".farm").mkdir(parents=True)
    path = folder / ".farm" / "client.toml"
    path.write_text(text, encoding="utf-8")
    return path


LOCAL = 'url = "http://127.0.0.1:1"\nkey = "ef_local"\ntrust = "trust.json"\n'


def test_the_nearest_file_upwards_is_read_and_its_trust_stands_beside_it(tmp_path: Path) -> None:
    _settings_file(tmp_path, LOCAL)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    settings = read_settings(environment={"HOME": str(tmp_path)}, folder=below)

    assert settings.url == "http://127.0.0.1:1"
    assert settings.key == "ef_local"
    assert settings.trust == tmp_path / ".farm" / "trust.json"
    assert "ef_local" not in repr(settings)


def test_a_key_from_a_file_goes_to_no_other_address(tmp_path: Path) -> None:
    _settings_file(tmp_path, LOCAL)
    env = {"HOME": str(tmp_path), "ENGINEFARM_URL": "https://elsewhere"}

    assert read_settings(environment=env, folder=tmp_path).key is None
    assert read_settings("http://127.0.0.1:1/", environment=env, folder=tmp_path).key == "ef_local"


def test_the_environment_comes_before_the_file(tmp_path: Path) -> None:
    _settings_file(tmp_path, LOCAL)
    env = {"HOME": str(tmp_path), "ENGINEFARM_KEY": "ef_env", "ENGINEFARM_TRUST": "/t.json"}

    settings = read_settings(environment=env, folder=tmp_path)

    assert (settings.key, settings.trust) == ("ef_env", Path("/t.json"))


def test_a_file_of_another_user_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _settings_file(tmp_path, LOCAL)
    monkeypatch.setattr("os.geteuid", lambda: path.stat().st_uid + 1)

    assert read_settings(environment={"HOME": str(tmp_path)}, folder=tmp_path).url is None


@pytest.mark.parametrize(
    ("text", "sentence"), [("urll = 'x'", "'url'"), ("url = 5", "quotes"), ("url = ", "TOML")]
)
def test_a_settings_file_that_cannot_be_right_is_refused(
    text: str, sentence: str, tmp_path: Path
) -> None:
    _settings_file(tmp_path, text)

    with pytest.raises(InvalidRequest) as caught:
        read_settings(environment={"HOME": str(tmp_path)}, folder=tmp_path)
    assert sentence in str(caught.value)


def test_who_is_asked_for_a_key_is_told_that_the_files_key_stayed_here(
    farm_env: LoopbackFarm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ENGINEFARM_KEY")
    path = _settings_file(Path.cwd(), LOCAL)
    farm_env.routes["/v1/models"] = lambda handler: handler.problem(
        401, "unauthenticated", "unauthenticated", fix="Send Authorization: Bearer followed by it."
    )

    assert invoke(["models"]) == ExitCode.NOT_ALLOWED

    err = capsys.readouterr().err
    assert f"The key in {path} belongs to http://127.0.0.1:1" in err
    assert f"not sent to {farm_env.url}" in err
    assert "ENGINEFARM_KEY" in err
    assert "ef_local" not in err
    assert "Authorization" not in farm_env.seen[-1].headers


def test_who_has_no_key_at_all_is_told_where_to_put_one(
    farm_env: LoopbackFarm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ENGINEFARM_KEY")
    farm_env.routes["/v1/models"] = lambda handler: handler.problem(
        401, "unauthenticated", "unauthenticated", fix="Send Authorization: Bearer followed by it."
    )

    assert invoke(["models"]) == ExitCode.NOT_ALLOWED

    err = capsys.readouterr().err
    assert "Put your key in ENGINEFARM_KEY" in err
    assert "belongs to" not in err
