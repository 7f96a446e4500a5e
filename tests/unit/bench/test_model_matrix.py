"""The table of the README is written by the bench, between its markers, and by nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.model_matrix import BEGIN, END, README, readme_cell, rewrite
from enginefarm.spec import RepairOptions
from localfarm.models import MODELS, repair_words, shipped

BUILT: dict[str, Any] = {
    "repair": {"passes": [{"name": "fold-constants", "outcome": "applied"}]},
    "compile": {"engine_bytes": 2_100_000, "seconds": 1.0},
}


def test_a_table_replaces_what_was_between_the_markers_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        rewrite(page, "| new |\n")
        assert page.read_text() == f"before\n{BEGIN}\n| new |\n{END}\nafter\n"


@pytest.mark.parametrize(
    ("row", "cell"),
    [
        ({"refused_at": "check", "failure": {"code": "no_way"}}, "refused: `no_way`"),
        (BUILT, "built, 2.1 MB, after fold-constants"),
        (
            BUILT | {"accuracy": {"outputs": [{"cosine": 0.5}, {"cosine": None}]}},
            "built, 2.1 MB, after fold-constants, cosine 0.500000",
        ),
        (
            BUILT | {"repair": {"passes": []}, "compile": {"engine_bytes": 70, "seconds": 0}},
            "built, <0.1 MB",
        ),
    ],
)
def test_a_cell_says_what_became_of_a_model(row: dict[str, Any], cell: str) -> None:
    assert readme_cell(row) == cell


def test_what_a_model_needs_is_told_as_it_is_typed() -> None:
    assert repair_words(shipped("silero-if").repair) == ["--fix sr=16000"]
    assert repair_words(shipped("ddddocr-common-old").repair) == ["--allow restore-float"]
    shape = RepairOptions.model_validate({"fix_inputs": {"x": {"shape": [1, 576]}}})
    assert repair_words(shape) == ["--fix x=1x576"]


def test_the_readme_has_a_row_for_every_model() -> None:
    _, _, rest = README.read_text("utf-8").partition(BEGIN)
    table, _, _ = rest.partition(END)
    assert all(f"| {row.name}" in table for row in MODELS)
    assert table.count("\n| ") == len(MODELS) + 2
