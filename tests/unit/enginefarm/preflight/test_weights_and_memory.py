"""What is in the weights, and whether a machine has room for them, is told with numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from enginefarm.preflight import weights as weights_module
from enginefarm.preflight.rules.memory import estimate
from enginefarm.preflight.subject import Measured, Room, Subject
from enginefarm.preflight.weights import look_at_weights
from enginefarm.target import Target
from tests.unit.enginefarm.preflight.made import (
    ORT,
    ROWS,
    RTX,
    codes,
    facts_of,
    found_in,
    model,
    relu,
    weight,
)

GIB = 1 << 30


def test_what_the_weights_hold_is_counted(tmp_path: Path) -> None:
    values = np.ones((64, 64), np.float32)
    values[0, :3] = np.nan
    values[1, :2] = np.inf
    values[2, 0], values[3, 0] = 1e-40, 1e6
    made = model(
        [helper.make_node("Relu", ["x"], ["y"])], weights=[numpy_helper.from_array(values, "w")]
    )
    facts = facts_of(tmp_path, made)
    seen = look_at_weights(tmp_path / "model.onnx", facts)
    assert seen is not None
    (row,) = seen.tensors
    assert (row.nan, row.infinite, row.denormal, row.beyond_half) == (3, 2, 1, 1)
    assert row.largest == pytest.approx(1e6)
    severities = {each.code: each.severity for each in found_in(tmp_path, made)}
    assert severities == {
        "weights_non_finite": "note",
        "weights_denormal": "note",
        "weights_beyond_fp16": "note",
    }
    assert "warning" in {each.severity for each in found_in(tmp_path, made)}


def test_weights_beside_the_model_are_looked_at_and_never_elsewhere(tmp_path: Path) -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], weights=[weight("w", 64, 64)])
    inner = tmp_path / "inner"
    inner.mkdir()
    path = inner / "model.onnx"
    onnx.save(made, str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    from enginefarm.preflight.reading import read_facts

    facts = read_facts(path)
    seen = look_at_weights(path, facts)
    assert seen is not None
    assert [row.name for row in seen.tensors] == ["w"]
    (inner / "w.bin").rename(tmp_path / "elsewhere")
    (inner / "w.bin").symlink_to(tmp_path / "elsewhere")
    seen = look_at_weights(path, facts)
    assert seen is not None
    assert (seen.tensors, seen.unread) == ((), ("w",))


def test_large_weights_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_module, "_PIECE", 64)
    values = np.arange(1000, dtype=np.float32)
    made = model(
        [helper.make_node("Relu", ["x"], ["y"])], weights=[numpy_helper.from_array(values, "w")]
    )
    seen = look_at_weights(tmp_path / "model.onnx", facts_of(tmp_path, made))
    assert seen is not None
    assert seen.tensors[0].largest == 999


def test_tied_weights_are_found_as_they_are_and_transposed(tmp_path: Path) -> None:
    table = np.random.default_rng(0).standard_normal((1024, 512)).astype(np.float32)
    tensors = [
        numpy_helper.from_array(table, "embedding"),
        numpy_helper.from_array(table.T.copy(), "head"),
        numpy_helper.from_array(table + 1, "other"),
    ]
    (found,) = found_in(tmp_path, model([helper.make_node("Relu", ["x"], ["y"])], weights=tensors))
    assert (found.code, found.where) == ("weights_twice", "embedding = head")
    assert "2.1 MB" in found.message


def wide() -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("MatMul", ["h", "v"], ["y"]),
    ]
    return model(nodes, weights=[weight("w", 16, 4096), weight("v", 4096, 16)])


def test_memory_is_predicted_from_weights_and_the_largest_sizes(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, wide())
    subject = Subject(facts, Target.parse(RTX), [ROWS])
    told = estimate(subject)
    assert told.weights == 2 * 16 * 4096 * 4
    assert told.activations == 8 * 4 * (16 + 4096 + 16) - 8 * 4 * 16
    assert told.whole
    assert told.device == told.weights + told.activations


@pytest.mark.parametrize(
    ("room", "target", "expected"),
    [
        (Room(), RTX, []),
        (Room(memory_bytes=64 * GIB, gpu_memory_bytes=24 * GIB), RTX, []),
        (Room(memory_bytes=GIB // 8), RTX, ["memory_short"]),
        (Room(memory_bytes=GIB // 8), ORT, ["memory_short"]),
        (Room(memory_bytes=340 << 20), RTX, ["memory_tight"]),
        (Room(gpu_memory_bytes=1 << 16), RTX, ["gpu_memory_short"]),
        (Room(gpu_memory_bytes=1 << 16), ORT, []),
    ],
)
def test_a_job_that_does_not_fit_is_refused_with_the_number(
    tmp_path: Path, room: Room, target: str, expected: list[str]
) -> None:
    found = found_in(tmp_path, wide(), target, room=room)
    assert codes(found) == expected
    assert all("iB" in each.message for each in found)


def took(peak: int, *, enough: bool = True, stage: str = "compile") -> tuple[Measured, ...]:
    return (Measured(stage, peak, enough),)


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        (Room(memory_bytes=GIB, measured=took(GIB + 1)), ["memory_short"]),
        (Room(memory_bytes=GIB, measured=took(GIB + 1, enough=False)), ["memory_short"]),
        (Room(memory_bytes=GIB, measured=took(GIB + 1, stage="benchmark")), ["memory_short"]),
        (Room(memory_bytes=GIB, measured=took(GIB)), []),
        # What was measured goes before the estimate, which is above it.
        (Room(memory_bytes=GIB // 8, measured=took(GIB // 10)), []),
        (Room(memory_bytes=GIB // 8, measured=took(GIB // 10, enough=False)), ["memory_short"]),
        (Room(memory_bytes=8 * GIB, measured=took(3 * GIB)), ["memory_estimate"]),
        # Another node has room for it.
        (Room(GIB, most_memory_bytes=4 * GIB, measured=took(2 * GIB)), ["memory_tight"]),
        (Room(memory_bytes=GIB // 8, most_memory_bytes=GIB), ["memory_tight"]),
        (Room(memory_bytes=GIB // 8, most_memory_bytes=GIB // 7), ["memory_short"]),
    ],
)
def test_what_an_earlier_build_took_is_known_better_than_estimated(
    tmp_path: Path, room: Room, expected: list[str]
) -> None:
    found = found_in(tmp_path, wide(), RTX, room=room)
    assert codes(found) == expected
    assert all(each.fix for each in found if each.code != "memory_tight")


def test_a_measured_number_is_told_as_one(tmp_path: Path) -> None:
    (found,) = found_in(tmp_path, wide(), RTX, room=Room(memory_bytes=GIB, measured=took(3 * GIB)))
    assert "3072 MiB, measured on an earlier build of this model" in found.message
    assert "1024 MiB" in found.message


@pytest.mark.parametrize(
    ("driver", "target", "expected"),
    [
        ("470.82.01", RTX, ["driver_too_old"]),
        ("550.54.15", RTX, []),
        (None, RTX, []),
        ("470.82.01", ORT, []),
    ],
)
def test_a_driver_older_than_the_runtime_needs_is_told(
    tmp_path: Path, driver: str | None, target: str, expected: list[str]
) -> None:
    assert codes(found_in(tmp_path, relu(), target, room=Room(driver=driver))) == expected
