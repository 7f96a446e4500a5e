"""What a rule and a runtime say of one node is told once, in the words of both."""

from __future__ import annotations

from enginefarm.finding import Finding, at_nodes, error_finding, note_finding
from workers.checking.merging import merged

RULE = at_nodes(
    error_finding("unsupported_operator", "TensorRT-RTX has no operator Det.", fix="Leave it out."),
    ["one", "two"],
    "Det",
)


def said(code: str, nodes: list[str], operator: str, words: str = "") -> Finding:
    text = "TensorRT-RTX cannot take it." + (f" It says: {words}" if words else "")
    return at_nodes(error_finding(code, text, fix="?"), nodes, operator)


def test_one_node_is_told_once() -> None:
    (found,) = merged([RULE], [said("unsupported_operator", ["one"], "Det", "no importer")])
    assert found.message == RULE.message
    assert found.fix == "Leave it out."
    assert found.why == "The runtime says: no importer"


def test_a_node_without_a_name_is_known_by_its_operator() -> None:
    assert len(merged([RULE], [said("parser_refused", ["#3"], "Det")])) == 1


def test_what_no_rule_knew_is_kept() -> None:
    other = said("unsupported_operator_use", ["three"], "Resize", "only linear")
    assert merged([RULE], [other]) == [RULE, other]


def test_a_note_about_a_node_does_not_swallow_an_error() -> None:
    note = at_nodes(note_finding("zero_size_tensor", "Empty."), ["one"], "Det")
    assert len(merged([note], [said("unsupported_operator", ["one"], "Det")])) == 2


def test_sizes_that_do_not_fit_are_told_once_with_those_that_do() -> None:
    rule = at_nodes(
        error_finding("shape_mismatch", "Reshape cannot take the sizes.", why="32 and 16."),
        ["view"],
        "Reshape",
    )
    tried = error_finding(
        "profile_not_runnable",
        "The original model does not run at x=1x16: no.",
        where="profile 0, min",
        fix="It runs at x=2x16: narrow the profile to sizes like these.",
    )
    (found,) = merged([rule], [tried])
    assert found.code == "shape_mismatch"
    assert found.fix.startswith("It runs at x=2x16")
    assert "does not run at x=1x16" in found.why
