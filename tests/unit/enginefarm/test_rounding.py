"""Whoever reads a number must not take less than 1 for 1, nor a miss for a hit."""

from __future__ import annotations

import pytest

from enginefarm.gate import Gate
from enginefarm.report_page import render
from enginefarm.report_page.markup import number
from enginefarm.rounding import rounded, to_places
from tasks.gates import judge
from tests.unit.enginefarm.reports import output, report

NEARLY = 0.99999998


@pytest.mark.parametrize(
    ("value", "bound", "text"),
    [
        (0.99871234567891, "cosine >= 0.9999", "0.998712"),
        (0.99999987, "cosine >= 1", "0.9999999"),
        (0.9999999, "cosine >= 0.99999991", "0.9999999"),
        (0.99999994, "cosine >= 0.9999999", "0.99999994"),
        (9_532_123.0, "engine_bytes <= 9e6", "9532123"),
        (1.0, "cosine <= 0.5", "1"),
        (4.2e-07, "max_abs_error <= 1e-07", "4.2e-07"),
        (1 - 1e-15, "cosine >= 1", "0.999999999999999"),
        (1 - 1e-15, "", "<1"),
        (1e-15 - 1, "", ">-1"),
        (NEARLY, "", "0.99999998"),
        (3 + 1e-12, "", "3"),
    ],
)
def test_a_rounded_number_is_never_the_bound_that_it_misses_nor_1(
    value: float, bound: str, text: str
) -> None:
    assert rounded(value, bound=bound) == text


def test_nor_in_few_digits_or_places() -> None:
    assert rounded(0.9996, digits=3) == to_places(0.9996, 3) == "0.9996"
    assert (to_places(1.0004, 3), to_places(0.5, 3)) == ("1.000", "0.500")
    assert to_places(NEARLY, 6) == "0.99999998"


@pytest.mark.parametrize(
    ("value", "text"), [(NEARLY, "0.99999998"), (1 - 1e-13, "<1"), (1.0, "1"), (1e12, "1e+12")]
)
def test_pages_have_the_same_rule(value: float, text: str) -> None:
    assert number(value) == text


def test_the_page_and_a_gates_words_show_what_is_less_than_1() -> None:
    near = report(outputs=[output(cosine=NEARLY)])
    assert ">0.99999998<" in render(near).decode()
    other = "sha256:" + "d" * 64
    gate = Gate.model_validate({"metric": "cosine", "against": other, "worse_by": 0.1})
    (verdict,) = judge([gate], near, {other: report(outputs=[output(cosine=1.0)])})
    assert verdict.reason == "0.99999998 against 1 of output y"
