"""The page and the comparison tell of a precision: how it was had, and whether it is worth it."""

from __future__ import annotations

import pytest

from enginefarm.difference import Difference, difference
from enginefarm.report import BuildReport
from enginefarm.report_page import render
from tests.unit.enginefarm.precise_reports import PRECISION, VERDICT, precise
from tests.unit.enginefarm.reports import HOSTILE, output, report
from tests.unit.enginefarm.test_report_page import ALLOWED, read


def test_the_page_tells_the_verdict_with_its_numbers_and_the_precision() -> None:
    page = read(render(precise()))
    for said in (
        "Verdict on the precision",
        "accept: 1.5 times as fast as the model as it came.",
        "as-is: without int8 it would be built as it came",
        "onnxruntime 1.32",
        "17 of 20 nodes",
        "it was excluded",
        "0.9912",
    ):
        assert said in page.text
    assert ("class", "good") in page.attributes


@pytest.mark.parametrize("verdict", ["slower", "regression", "infeasible"])
def test_what_is_not_accepted_stands_out(verdict: str) -> None:
    page = read(render(precise(VERDICT | {"verdict": verdict, "held_back": True})))
    assert ("class", "bad") in page.attributes
    assert f"int8, {verdict}" in page.text


def test_without_a_verdict_the_page_says_why() -> None:
    none = VERDICT | {"verdict": None, "speed": [], "twin": None, "floor": None}
    told = none | {"reason": "nothing ran", "speed_reason": "no <device>", "floor_reason": "NaN"}
    page = read(render(precise(told)))
    assert "No verdict: nothing ran." in page.text
    assert "not known: no <device>" in page.text
    assert "not judged: NaN" in page.text


def test_what_was_tainted_beside_the_twin_stands_below_its_numbers() -> None:
    trust = {"exclusive": None, "exclusive_proof": "p", "tainted": ["<held down>"]}
    rows = [VERDICT["speed"][0] | {"trust": trust}]
    page = read(render(precise(VERDICT | {"speed": rows})))
    assert "Tainted at x 1x4: <held down>" in page.text


def test_a_report_without_a_precision_has_neither_part() -> None:
    page = read(render(report()))
    assert "Verdict on the precision" not in page.text
    assert "as the model came" in page.text


def test_nothing_of_a_hostile_precision_becomes_markup() -> None:
    twin = {"precision": "as-is", "why": HOSTILE}
    kept = [{"node": HOSTILE, "operator": HOSTILE, "why": HOSTILE}]
    bad = precise(VERDICT | {"reason": HOSTILE, "twin": twin}, kept=kept, labels=[HOSTILE])
    data = render(bad)
    assert set(read(data).tags) <= ALLOWED
    assert b"<script" not in data


def between(a: BuildReport, b: BuildReport) -> Difference:
    return difference(("A", a), ("B", b))


def test_two_precisions_differ_in_how_they_were_had_and_in_what_they_left() -> None:
    recipe = PRECISION["recipe"] | {"kind": "fp16", "tool": "enginefarm", "method": None}
    found = between(precise(), precise(recipe=recipe, kept_count=5))
    rows = {row.what: (row.a, row.b) for row in found.recipe}
    assert rows["precision.kind"] == ("int8", "fp16")
    assert rows["precision.tool"] == ("onnxruntime", "enginefarm")
    assert rows["precision.method"] == ("minmax", None)
    assert rows["precision.kept_nodes"] == (3, 5)
    assert "precision.changed_nodes" not in rows
    assert found.verdict is None


def test_a_precision_is_another_way_to_build_than_none() -> None:
    found = between(report(), precise())
    rows = {row.what: (row.a, row.b) for row in found.recipe}
    assert rows["precision.kind"] == (None, "int8")
    assert found.verdict is not None
    assert (found.verdict.a, found.verdict.b) == (None, "accept")
    assert found.model_accuracy == []
    assert found.model_accuracy_reason is not None
    assert "only one of them" in found.model_accuracy_reason


def test_a_model_file_that_lost_more_is_worse() -> None:
    told = PRECISION["model_accuracy"]
    other = precise(model_accuracy=told | {"outputs": [output(cosine=0.95, snr_db=10.0)]})
    found = between(precise(), other)
    (row,) = found.model_accuracy
    assert row.worse
    assert found.worse == ["output y of the model file is less accurate"]
    on_other_data = precise(model_accuracy=told | {"data": "synthetic, seed 0"})
    assert "the other on synthetic" in (
        between(precise(), on_other_data).model_accuracy_reason or ""
    )
