"""Every error code that the source can give is registered and documented, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from enginefarm.codes import CODES
from tests.contract.raised_codes import Given, codes_of

ROOT = Path(__file__).parents[2]
PACKAGES = ("client/src/enginefarm", "api", "intake", "storage", "tasks", "workers", "localfarm")
# Codes that are put together at run time, by the expression that does it.
COMPOSED = {
    "f'artifact_{state}'": {"artifact_quarantined", "artifact_revoked"},
    "f'unknown_{what}'": {"unknown_input", "unknown_output"},
}
_ROW = re.compile(r"^\| `([a-z0-9_]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def given() -> Given:
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return codes_of(files, ROOT)


def test_every_code_that_is_given_is_registered(given: Given) -> None:
    unknown = {code: places for code, places in given.codes.items() if code not in CODES}

    assert unknown == {}, "add them to enginefarm/codes.py and docs/use/errors.md"


def test_codes_put_together_at_run_time_are_all_told(given: Given) -> None:
    assert given.composed.keys() == COMPOSED.keys()
    assert set().union(*COMPOSED.values()) <= CODES.keys()


def test_every_registered_code_can_be_given(given: Given) -> None:
    # A table that names one is enough here: it may be looked up by what a runtime says.
    can_be = given.codes.keys() | given.texts | set().union(*COMPOSED.values())

    assert CODES.keys() - can_be == set()


def test_every_code_is_documented_with_what_it_means_and_what_to_do() -> None:
    rows = _ROW.findall((ROOT / "docs/use/errors.md").read_text())

    assert {code: meaning for code, meaning, _ in rows} == CODES
    assert [code for code, _, fix in rows if not fix.strip().endswith((".", "?", "`."))] == []


def test_codes_stand_in_order_and_each_is_one_sentence() -> None:
    assert list(CODES) == sorted(CODES)
    assert [code for code in CODES if not re.fullmatch(r"[a-z][a-z0-9_]*", code)] == []
    assert [said for said in CODES.values() if not said[0].isupper() or said[-1] != "."] == []


def test_a_code_is_found_however_it_is_written(tmp_path: Path) -> None:
    source = tmp_path / "some.py"
    source.write_text(
        "REASON, OTHER = 'by_name', 'unused'\n"
        "class Row:\n    text: str\n    code: str\n"
        "class Wrong(Error):\n    default_code: ClassVar[str] = 'by_default'\n"
        "def _refusal(message: str, code: str) -> None: ...\n"
        "raise Wrong('x', code='by_keyword')\n"
        "raise Wrong('x', code='by_if' if x else 'by_else')\n"
        "raise Wrong('x', code=REASON)\n"
        "raise Wrong('x', code=f'by_{what}')\n"
        "_refusal('x', 'by_position')\n"
        "Row('x', 'by_field')\n"
    )

    found = codes_of([source], tmp_path)

    assert set(found.codes) == {
        f"by_{how}" for how in ("name", "default", "keyword", "if", "else", "position", "field")
    }
    assert set(found.composed) == {"f'by_{what}'"}
