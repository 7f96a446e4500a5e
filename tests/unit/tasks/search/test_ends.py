"""Whatever comes of candidates, in whatever order, a search ends, and within its budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from enginefarm.precision import Precision, PrecisionTool
from enginefarm.report import GateVerdict
from enginefarm.search import SearchSpec
from enginefarm.search_views import Outcome
from enginefarm.sensitivity_report import KeptStep
from tasks.search.strategy import next_step
from tasks.search.tried import Tried
from tests.unit.tasks.search.answers import KINDS, LAYERS, failed, outcome, spec

PLENTY = settings(max_examples=60, deadline=None)
TOOLS = (PrecisionTool.ENGINEFARM, PrecisionTool.ONNXRUNTIME, PrecisionTool.MODELOPT)
NAMES = st.lists(st.sampled_from([*LAYERS, "", "a\nb", "x" * 300, "[*"]), max_size=30)
SHAPES = {"min": [1], "opt": [1], "max": [1]}
NUMBERS = st.none() | st.floats(-1, 1)


@st.composite
def outcomes(draw: st.DrawFn) -> Outcome:
    """Answer anything: nothing here follows from the precision, nor from what was answered."""
    if draw(st.booleans()):
        return failed()
    told = outcome(draw(st.sampled_from([-1.0, 0.5, 0.99, 1.0])))
    kept = st.builds(KeptStep, kept=st.integers(0, 600), cosine=st.floats(-1, 1))
    verdict = GateVerdict(gate="cosine >= 0.99", value=None, met=False, missed_by=draw(NUMBERS))
    return told.model_copy(
        update={
            "accurate": draw(st.booleans()),
            "met": draw(st.booleans()),
            "cosine": draw(NUMBERS),
            "layers": draw(NAMES),
            "steps": draw(st.lists(kept, max_size=4)),
            "verdicts": [verdict],
            "artifact": draw(st.sampled_from([None, told.artifact])),
        }
    )


def begun(data: st.DataObject) -> SearchSpec:
    budget = {"candidates": data.draw(st.integers(1, 24)), "at_once": data.draw(st.integers(1, 5))}
    names = data.draw(st.lists(st.sampled_from("abc"), unique=True))
    profiles = {name: [{"x": SHAPES}] for name in names}
    tools = {"tools": ["onnxruntime", "modelopt"], "exclude": ["head*"]}
    return spec(budget=budget, space=tools | {"profiles": profiles})


def check_step(asked: SearchSpec, tried: Sequence[Tried]) -> None:
    assert len(tried) <= asked.budget.candidates
    assert sum(row.outcome is None for row in tried) <= asked.budget.at_once
    named = [(row.precision.model_dump_json(), row.profile) for row in tried]
    assert len(named) == len(set(named))


@PLENTY
@given(st.data())
def test_each_step_tries_waits_or_ends_and_nothing_is_tried_twice(data: st.DataObject) -> None:
    asked = begun(data)
    tried: list[Tried] = []
    late = False
    # A candidate begins once and ends once; what a tool that is away holds back is asked for again
    # with all tools there, so that each waiting is followed by a candidate or by the end.
    for _ in range(3 * asked.budget.candidates + 3):
        gone = data.draw(st.sets(st.sampled_from(TOOLS)))
        late = late or data.draw(st.integers(0, 19)) == 0
        step = next_step(asked, KINDS, tried, late=late, away=lambda row: row.maker in gone)  # noqa: B023
        if step.waits:
            assert not step.proposals
            step = next_step(asked, KINDS, tried, late=late)
            assert step.proposals or step.over
        tried += [Tried(row.precision, None, row.profile) for row in step.proposals]
        check_step(asked, tried)
        under_way = [at for at, row in enumerate(tried) if row.outcome is None]
        if step.over:
            assert not under_way
            assert step.why
            return
        assert under_way, "it neither waits nor ends, and nothing is under way"
        for at in data.draw(st.sets(st.sampled_from(under_way), min_size=1)):
            tried[at] = replace(tried[at], outcome=data.draw(outcomes()))
    raise AssertionError(tried)


def test_a_search_of_which_nothing_ever_becomes_of_use_ends_when_all_is_tried() -> None:
    asked, tried = spec(budget={"candidates": 64}), list[Tried]()
    bad = outcome(0.1, layers=[f"layer-{n}" for n in range(1000)])
    while not (step := next_step(asked, KINDS, tried)).over:
        assert step.proposals
        tried += [Tried(row.precision, bad) for row in step.proposals]
    assert step.why == "nothing was left to try"
    assert tried[0].precision == Precision()
    assert len(tried) < asked.budget.candidates
