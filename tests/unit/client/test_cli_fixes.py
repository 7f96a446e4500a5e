"""Advice about the farm's errors is in commands and options, whatever the farm says in HTTP."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pydantic import ValidationError

from enginefarm import errors
from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.cli.fixes import FIXES, fix_in_words
from enginefarm.codes import CODES
from enginefarm.spec import BuildSpec
from enginefarm.spec_errors import explain
from tests.unit.client.support.server import LoopbackFarm

ROOT = Path(__file__).parents[3]
HTTP = re.compile(
    r"\b(GET|POST|PUT) /|/v1/|/openapi|wait_for_node|if_unmeasured|at_least|Authorization:|_ms\b"
)
# What only those see who speak HTTP themselves: the command line never sends such a request.
NOT_FROM_HERE = {"invalid_body", "invalid_json", "empty_upload", "bad_multipart", "one_model_file"}
NOT_FROM_HERE |= {"unreadable_request"}

# Codes that a function is handed rather than writes itself.
HANDED_ON = ["unknown_model", "unknown_dataset"]


def _text(node: ast.expr | None) -> str:
    return "".join(
        part.value
        for part in ast.walk(node or ast.Constant(""))
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )


@cache
def _advice() -> list[tuple[str, str]]:
    """Return each code that the farm's source gives with the text of its advice."""
    return list(_read_advice())


def _read_advice() -> Iterator[tuple[str, str]]:
    for room in ("api", "storage", "tasks", "client/src/enginefarm"):
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "fix=" in text else ():
                if not isinstance(node, ast.Call):
                    continue
                given = {each.arg: each.value for each in node.keywords}
                family = node.func.id if isinstance(node.func, ast.Name) else ""
                default = getattr(vars(errors).get(family), "default_code", "")
                if "fix" not in given:
                    continue
                handed_on = isinstance(given.get("code"), ast.Name)
                for code in HANDED_ON if handed_on else [_text(given.get("code")) or default]:
                    yield code, _text(given["fix"])


def test_every_piece_of_advice_that_speaks_http_has_other_words_here() -> None:
    spoken = {(code, fix) for code, fix in _advice() if HTTP.search(fix)}

    assert len(spoken) > 10
    untold = [
        (code, fix)
        for code, fix in spoken
        if code not in NOT_FROM_HERE and (code not in FIXES or FIXES[code][0] not in fix)
    ]
    assert not untold


def test_every_sentence_that_is_replaced_is_one_that_the_farm_says() -> None:
    said: dict[str, str] = {}
    for code, fix in _advice():
        said[code] = f"{said.get(code, '')}\n{fix}"
    with pytest.raises(ValidationError) as wrong:
        BuildSpec.model_validate({"model": f"sha256:{'0' * 64}", "targets": []})
    said["invalid_field"] = explain(wrong.value, BuildSpec).fix

    assert not [code for code, (mark, _) in FIXES.items() if mark not in said.get(code, "")]


@pytest.mark.parametrize("code", FIXES)
def test_the_other_words_speak_of_the_command_line(code: str) -> None:
    words = (
        FIXES[code][1]
        .replace("benchmark.max_duration_ms", "")
        .replace("benchmark.min_duration_ms", "")
    )

    assert code in CODES
    assert not HTTP.search(words)


def test_advice_of_this_client_and_advice_without_its_values_stay() -> None:
    assert fix_in_words("unknown_build", "Look again.", {}) == "Look again."
    said = "The artifact is quarantined; look at its report."
    assert fix_in_words("gate_not_met", said, {}) == said
    assert "report sha256:1" in fix_in_words("gate_not_met", said, {"artifact": "sha256:1"})


def test_a_person_is_told_a_command_and_a_program_the_farms_own_words(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    farm_env.routes["/v1/builds/bld_9"] = lambda handler: handler.problem(
        404, "not-found", "unknown_build", fix="GET /v1/builds lists yours."
    )

    assert invoke(["show", "bld_9", "--json"]) == ExitCode.NOT_FOUND

    out, err = capsys.readouterr()
    assert "fix: «enginefarm list» shows yours." in err
    assert "GET /v1/builds lists yours." in out
