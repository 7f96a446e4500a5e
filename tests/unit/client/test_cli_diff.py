"""``enginefarm diff`` and the page of ``enginefarm report``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.difference import Difference
from enginefarm.report import BuildReport
from enginefarm.report_page import render
from tests.unit.client.support.server import LoopbackFarm
from tests.unit.client.support.views import ARTIFACT, artifact
from tests.unit.enginefarm.reports import HOSTILE, hostile, latency, report


def write(folder: Path, name: str, told: BuildReport) -> str:
    path = folder / name
    path.write_bytes(told.model_dump_json().encode())
    return str(path)


def test_two_reports_on_disk_are_compared_without_a_farm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path, "a.json", report())
    b = write(tmp_path, "b.json", report(latency=[latency(3.0, seed=4)], backend_version="2"))

    assert invoke(["diff", a, b]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "slower" in out
    assert "backend_version" in out
    assert "B is worse: slower at x 1x4" in out
    assert invoke(["diff", a, b, "--fail-if-worse"]) == ExitCode.WORSE
    assert invoke(["diff", b, a, "--fail-if-worse"]) == ExitCode.OK


def test_two_that_cannot_be_compared_are_no_success_for_who_asked_whether_one_is_worse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path, "a.json", report())
    b = write(tmp_path, "b.json", report(model="sha256:" + "b" * 64, latency=[], accuracy=None))

    assert invoke(["diff", a, b]) == ExitCode.OK
    assert "nothing could be compared" in capsys.readouterr().out
    assert invoke(["diff", a, b, "--fail-if-worse"]) == ExitCode.WORSE


def test_for_programs_it_is_one_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path, "a.json", report())
    assert invoke(["diff", a, a, "--json"]) == ExitCode.OK
    found = Difference.model_validate(json.loads(capsys.readouterr().out))
    assert (found.worse, found.recipe) == ([], [])


def test_a_pulled_folder_is_compared_with_what_the_farm_has(
    farm_env: LoopbackFarm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = artifact().model_dump_json().encode()
    farm_env.routes[f"/v1/artifacts/{ARTIFACT}/summary"] = lambda handler: handler.reply(200, body)
    write(tmp_path, "report.json", report())

    assert invoke(["diff", ARTIFACT, str(tmp_path)]) == ExitCode.OK
    out = capsys.readouterr().out
    assert ARTIFACT in out
    assert "not-comparable" in out
    assert "accuracy is not comparable: one was measured on synthetic, seed 0" in out


@pytest.mark.parametrize("data", [b"{}", b"no json", b"[" * 100_000], ids=["empty", "text", "deep"])
def test_a_file_that_is_no_report_is_refused(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(data)
    assert invoke(["diff", str(path), str(path)]) == ExitCode.BAD_INPUT
    assert "[report_invalid]" in capsys.readouterr().err


def test_a_hostile_report_steers_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = write(tmp_path, "a.json", hostile()), write(tmp_path, "b.json", report())
    assert invoke(["diff", a, b]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert HOSTILE not in out


def test_the_page_of_a_report_is_written_as_the_farm_makes_it(
    farm_env: LoopbackFarm, tmp_path: Path
) -> None:
    body = artifact().model_dump_json().encode()
    farm_env.routes[f"/v1/artifacts/{ARTIFACT}/summary"] = lambda handler: handler.reply(200, body)
    page = tmp_path / "report.html"

    assert invoke(["report", ARTIFACT, "--html", str(page)]) == ExitCode.OK
    told = artifact().report
    assert told is not None
    assert page.read_bytes() == render(told)
