"""The shipped models are the recorded bytes, or are refused by name."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest

from enginefarm.errors import InvalidModel
from localfarm.models import MODELS, ShippedModel, shipped


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.name))
def test_the_installed_file_is_the_recorded_one(model: ShippedModel) -> None:
    data = model.file().read_bytes()

    assert (model.size, model.sha256) == (len(data), hashlib.sha256(data).hexdigest())


def test_names_are_unique_and_found() -> None:
    assert [shipped(model.name) for model in MODELS] == list(MODELS)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.name))
def test_a_profile_is_ordered(model: ShippedModel) -> None:
    for shape in (model.profile or {}).values():
        assert all(
            low <= usual <= high
            for low, usual, high in zip(shape.min, shape.opt, shape.max, strict=True)
        )


def test_a_file_that_is_not_the_recorded_one_is_refused() -> None:
    other = dataclasses.replace(shipped("magika"), sha256="0" * 64)

    with pytest.raises(InvalidModel) as caught:
        other.file()

    assert caught.value.code == "shipped_model_differs"


def test_a_package_that_is_not_installed_is_named() -> None:
    missing = dataclasses.replace(shipped("magika"), path="nowhere/model.onnx")

    with pytest.raises(InvalidModel, match="magika==") as caught:
        missing.file()

    assert caught.value.code == "shipped_model_missing"
