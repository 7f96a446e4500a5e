"""The tables of what models are in int8 and fp16, and the inputs that they are made with."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from bench import real_inputs
from bench.precision_matrix.__main__ import CALIBRATION, HELD_OUT, PAGE, made
from bench.precision_matrix.speed import Ratio, ratio_of
from bench.precision_matrix.table import KINDS, TARGETS, Built, Row, speed_cell, tables
from enginefarm.precision import PrecisionKind
from localfarm.models import MODELS, shipped
from workers.backends.ort_session import open_reference
from workers.probe import probe_in_child

REPORT = {
    "changed": 3,
    "nodes": 9,
    "kept_count": 2,
    "kept": [{"operator": "Add"}, {"operator": "Add"}],
    "recipe": {"percentile": 99.99},
    "model_accuracy": {"outputs": [{"cosine": 0.5}, {"cosine": 0.25}, {"cosine": None}]},
}
QUICK = ("magika", "silero-ifless", "logreg-iris")


def row(*, flat: bool = False) -> Row:
    built = Built(dict.fromkeys(TARGETS), REPORT, Ratio(0.5, 0.4, 0.6))
    refused = Built(dict.fromkeys(TARGETS, "cast: `no_way`"))
    kinds = {PrecisionKind.INT8: built, PrecisionKind.FP16: refused}
    return Row("net", "--fix sr=16000", (4, 2), kinds, flat)


def test_a_row_has_the_worst_outputs_cosine_the_kept_nodes_and_what_was_not_built() -> None:
    text = tables([row()])
    assert (
        "| net `--fix sr=16000` | 4 + 2 | 3 of 9 | 2: Add 2 | 0.250000 | 99.99 | built | built |"
        " built | 0.50 (0.40 to 0.60) **slower** |" in text
    )
    assert "| cast: `no_way` |" in text
    assert f"Built in int8, of 1: 1 for {TARGETS[0]}" in text
    assert f"Built in fp16, of 1: 0 for {TARGETS[0]}" in text


def test_a_cosine_that_proves_nothing_is_marked() -> None:
    assert "0.250000 (flat)" in tables([row(flat=True)])


def test_what_is_slower_is_called_so_if_eight_of_ten_pairs_say_so() -> None:
    slow = ratio_of([1.0] * 10, [2.0] * 8 + [0.5] * 2)
    assert slow.middle == pytest.approx(0.5)
    assert "**slower**" in speed_cell(slow)
    assert ratio_of([1.0] * 10, [2.0] * 7 + [0.5] * 3).label == "alike"
    assert ratio_of([2.0] * 10, [1.0] * 8 + [4.0] * 2).label == "faster"
    assert "alike" not in speed_cell(None)


@pytest.mark.parametrize("name", [each.name for each in MODELS if each.size < 20_000_000])
def test_inputs_are_what_a_model_takes_and_held_out_ones_are_others(
    tmp_path: Path, name: str
) -> None:
    real_inputs.write(tmp_path / "data.npz", real_inputs.stream(name, HELD_OUT), 2)
    with np.load(tmp_path / "data.npz", allow_pickle=False) as stored:
        arrays = dict(stored)
    again = list(islice(real_inputs.stream(name, HELD_OUT), 2))
    others = next(real_inputs.stream(name, CALIBRATION))
    views = {view.name: view for view in open_reference(shipped(name).file()).inputs}
    assert set(arrays) == set(views)
    for key, array in arrays.items():
        assert len(array) == 2
        assert np.array_equal(array[1], again[1][key])
        assert array.dtype == {"float": "f4"}.get(views[key].dtype, views[key].dtype)
    assert any(not np.array_equal(arrays[key][0], others[key]) for key in arrays)


def test_a_detector_of_speech_hears_speech_in_what_stands_for_it() -> None:
    runner = open_reference(shipped("silero-ifless").file())
    heard = [
        runner.run({"input": each["input"][None], "state": each["state"], "sr": each["sr"]})[0]
        for each in islice(real_inputs.stream("silero-ifless", 0), 40)
    ]
    loud = [float(answer.max()) for answer in heard if answer is not None]
    assert np.mean(np.array(loud) > 0.5) > 0.5


def test_the_page_has_a_row_for_a_model_in_both_precisions_or_says_that_it_has_none() -> None:
    text = PAGE.read_text("utf-8")
    prose = text.partition("Not in these tables")[2].partition("\n\n")[0]
    for each in MODELS:
        rows = text.count(f"\n| {each.name} ")
        assert rows == (0 if f"`{each.name}`" in prose else len(KINDS)), each.name


@pytest.mark.soak
def test_the_quick_ones_are_made_and_what_cannot_be_is_refused_with_its_reason(
    tmp_path: Path,
) -> None:
    versions = {backend.name: backend.version for backend in probe_in_child().backends}
    for name in QUICK:
        (tmp_path / name).mkdir()
        found, _ = made(shipped(name), versions, tmp_path / name)
        for kind, built in found.kinds.items():
            if name == "logreg-iris":
                stage = "calibrate" if kind is PrecisionKind.INT8 else "cast"
                refused = f"{stage}: `precision_without_effect`"
                assert built.targets == dict.fromkeys(TARGETS, refused)
            else:
                assert built.targets == dict.fromkeys(TARGETS)
                assert built.speed is not None
