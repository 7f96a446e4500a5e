"""A plugin is named by its digest, or by a file of which only the digest is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginefarm.cli.arguments import options
from enginefarm.cli.exit_codes import ExitCode, exit_code_of
from enginefarm.cli.plugin_arguments import in_options, libraries_for
from enginefarm.digest import digest_of
from enginefarm.errors import FarmError, InvalidRequest

ONE, TWO = digest_of(b"one"), digest_of(b"two")


@pytest.fixture
def one(tmp_path: Path) -> Path:
    path = tmp_path / "libone.so"
    path.write_bytes(b"one")
    return path


def test_files_and_digests_may_stand_side_by_side(one: Path) -> None:
    read = in_options(options([f"plugins.onnxruntime={one},{TWO}", "compile.refit=all"]))
    assert read == {"plugins": {"onnxruntime": [ONE, TWO]}, "compile": {"refit": "all"}}
    bare = TWO.removeprefix("sha256:")
    assert in_options(options([f"plugins.tensorrt={bare}"]))["plugins"] == {"tensorrt": [TWO]}
    assert in_options({"compile": {}}) == {"compile": {}}


def test_a_file_is_known_by_its_bytes_even_if_it_is_called_like_another_digest(
    one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(one.parent)
    for name in (TWO, TWO.removeprefix("sha256:")):
        Path(name).write_bytes(b"code of somebody else's")
        with pytest.raises(FarmError) as refused:
            libraries_for([TWO], [Path(name)])
        assert refused.value.code == "plugin_needed"
        assert digest_of(b"code of somebody else's") in refused.value.why
    with pytest.raises(InvalidRequest) as absent:
        libraries_for([ONE], [Path(ONE)])
    assert absent.value.code == "plugin_unknown"


def test_a_backend_that_loads_none_is_told_before_anything_is_asked() -> None:
    with pytest.raises(InvalidRequest) as refused:
        in_options({"plugins": {"tensorrt-rtx": ONE}})
    assert refused.value.code == "plugin_backend"


@pytest.mark.parametrize("text", ["libabsent.so", "", "sha256:12"])
def test_what_is_neither_is_refused_before_anything_is_asked(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        in_options({"plugins": {"onnxruntime": text}})
    assert refused.value.code in {"plugin_unknown", "invalid_digest"}
    assert refused.value.fix


def test_an_engine_is_run_with_the_very_libraries_it_was_built_with(one: Path) -> None:
    other = one.with_name("renamed.so")
    other.write_bytes(b"two")
    assert libraries_for([TWO, ONE], [one, other]) == [other, one]
    assert libraries_for([], []) == []
    for wanted, given in (([ONE], []), ([ONE], [other]), ([ONE], [one, other]), ([], [one])):
        with pytest.raises(FarmError) as refused:
            libraries_for(wanted, given)
        assert refused.value.code == "plugin_needed"
        assert exit_code_of(refused.value) is ExitCode.THIS_MACHINE
    with pytest.raises(InvalidRequest, match="no file here"):
        libraries_for([ONE], [one.with_name("absent.so")])
