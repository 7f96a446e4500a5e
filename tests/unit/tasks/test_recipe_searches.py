"""What the builds of a search share, and what is each one's own."""

from __future__ import annotations

from enginefarm.state import Stage
from tasks.recipe import recipe_for
from tests.unit.tasks.test_recipe import MADE, MODEL, SHAPES, TARGET, VERSION, key, spec


def test_builds_that_differ_in_their_profiles_alone_share_what_prepares_the_model() -> None:
    asked = {"min": [1, 4], "opt": [1, 4], "max": [8, 4]}
    wide = {"profiles": [{"x": asked}], "precision": {"kind": "fp16"}}
    plain = spec(precision={"kind": "fp16"})
    prepared = spec(**wide, prepared_at=[{"x": SHAPES}])
    for stage in (Stage.REPAIR, Stage.CAST):
        assert key(stage, prepared) == key(stage, plain)
        assert key(stage, spec(**wide)) != key(stage, plain)
    for stage in (Stage.CHECK, Stage.COMPILE, Stage.BENCHMARK):
        assert key(stage, prepared) == key(stage, spec(**wide)) != key(stage, plain)


def test_shapes_to_measure_at_make_another_measurement_and_no_other_engine() -> None:
    asked = spec(options={"benchmark": {"shapes": [{"x": [3, 4]}]}})
    assert key(Stage.BENCHMARK, asked) != key(Stage.BENCHMARK)
    assert key(Stage.COMPILE, asked) == key(Stage.COMPILE)
    recipe = recipe_for(Stage.BENCHMARK, spec(), TARGET, VERSION, MODEL, MADE)
    assert "shapes" not in recipe["options"], "what asks for none has the key it had before"


def test_what_a_search_keeps_back_is_published_under_a_key_of_its_own() -> None:
    told = (TARGET, VERSION, MODEL, MADE)
    plain = recipe_for(Stage.PUBLISH, spec(), *told)
    kept = recipe_for(Stage.PUBLISH, spec(), *told, "srch_1")
    assert kept == plain | {"search": "srch_1"}
    for stage in Stage:
        if stage is not Stage.PUBLISH:
            assert recipe_for(stage, spec(), *told, "srch_1") == recipe_for(stage, spec(), *told)
