"""The demo runs what it says, in words that can be pasted."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from enginefarm.cli import arguments
from enginefarm.errors import JobFailed
from localfarm.demo import MODELS, Demo, program, submit_words
from localfarm.folder import Folder
from localfarm.models import shipped
from localfarm.settings import ROOT

DIGEST = "sha256:" + "a" * 64


class Scripted(Demo):
    """A demo whose farm has built everything."""

    def _digest(self, mark: str) -> str:
        return DIGEST


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_submitted_by_its_real_path_with_its_profile_and_values(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    model = shipped(name)

    words = submit_words(model, "mark")

    assert Path(words[1]).samefile(model.file())
    given = dict(itertools.pairwise(words))
    assert arguments.profiles([given["--profile"]]) == [model.profile]
    described = arguments.synthetic([given["--synthetic"]] if model.synthetic else [])
    assert described == {
        input_name: wanted.model_dump(exclude_none=True)
        for input_name, wanted in model.synthetic.items()
    }


def test_what_is_printed_is_what_runs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ran: list[list[str]] = []

    def note(argv: Sequence[str]) -> int:
        ran.append(list(argv))
        return 0

    Scripted(Folder(tmp_path), note).run()

    said = capfd.readouterr().out
    printed = [line.removeprefix("$ ") for line in said.splitlines() if line.startswith("$ ")]
    assert [shlex.split(line) for line in printed] == ran
    assert [argv[1] for argv in ran] == ["submit", "submit", "pull", "verify", "run"]
    assert {argv[0] for argv in ran} == {program()}
    assert "make farm" in said.splitlines()[-2]


def test_a_step_that_fails_ends_the_demo(tmp_path: Path) -> None:
    with pytest.raises(JobFailed, match="`enginefarm submit` ended with exit code 4"):
        Scripted(Folder(tmp_path), lambda _argv: 4).run()


def test_the_program_is_one_that_is_there() -> None:
    assert Path(program()).is_file()
