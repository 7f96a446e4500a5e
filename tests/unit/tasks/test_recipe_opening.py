"""A benchmark's recipe says what must be known to open the engine, and nothing more."""

from __future__ import annotations

from enginefarm.state import Stage
from enginefarm.target import Target
from tasks.recipe import recipe_for
from tests.unit.tasks.test_recipe import MADE, MODEL, TARGET, VERSION, spec

CLASSIC = Target.parse("tensorrt@sm_89")


def told(target: Target = CLASSIC, **asked: object) -> object:
    both = [str(CLASSIC), str(TARGET)]
    given = spec(targets=both, options={"compile": asked})
    return recipe_for(Stage.BENCHMARK, given, target, VERSION, MODEL, MADE).get("built_with")


def test_a_benchmark_says_what_must_be_known_to_open_the_engine() -> None:
    assert told(version_compatible=True, tf32=False) == {"version_compatible": True}
    assert told(strip_plan=True) == {"strip_plan": True}


def test_what_decides_nothing_there_is_in_no_key_of_a_benchmark() -> None:
    assert told() is None
    assert told(optimization_level=5, version_compatible=False) is None
    assert told(TARGET, version_compatible=True) is None
