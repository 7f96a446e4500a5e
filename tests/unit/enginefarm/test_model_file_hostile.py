"""Bytes that were made to cost much or to be read in two ways are refused, and soon."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginefarm import model_file, onnx_graph, protobuf_wire
from enginefarm.errors import InvalidModel
from enginefarm.model_file import scan_model
from tests.unit.enginefarm.conftest import Refused, Scan
from tests.unit.enginefarm.onnx_made import (
    INPUT,
    MUL,
    OUTPUT,
    RELU_GRAPH,
    by_hand,
    external_weight,
    field,
    model,
    number_field,
    real_model,
    varint,
)

GOOD = by_hand(RELU_GRAPH)


def test_a_model_written_by_hand_is_read(scan: Scan) -> None:
    found = scan(GOOD)

    assert [row.name for row in found.inputs] == ["x"]
    assert found.opsets == {"ai.onnx": 17}


def test_every_cut_of_a_model_is_refused(refused: Refused) -> None:
    codes = [refused(GOOD[:length]).code for length in range(len(GOOD))]

    assert codes[0] == "empty_file"
    assert set(codes[1:]) <= {"not_a_model", "model_truncated", "empty_graph", "opset_missing"}
    assert codes[-1] == codes[5] == "model_truncated"


@pytest.mark.parametrize("name", ["rapidocr-cls", "magika", "silero-if", "light-squeezenet"])
def test_a_real_model_that_was_cut_says_so(refused: Refused, name: str) -> None:
    data = real_model(name).read_bytes()

    for length in (len(data) // 3, len(data) // 2, len(data) - 40):
        error = refused(data[:length])
        assert error.code == "model_truncated"
        assert error.context["size"] == length


def _nested(depth: int) -> bytes:
    graph = RELU_GRAPH
    for _ in range(depth):
        body = field(5, field(1, b"body") + field(6, graph))
        graph = field(1, field(2, b"y") + field(4, b"If") + body) + INPUT + OUTPUT
    return by_hand(graph)


def test_nested_graphs_are_read_to_a_depth_and_then_refused(scan: Scan, refused: Refused) -> None:
    assert scan(_nested(30)).node_count == 31
    assert refused(_nested(40)).code == "graph_too_deep"
    assert refused(_nested(3000)).code == "graph_too_deep"


def test_nested_types_are_refused(refused: Refused) -> None:
    kind = field(1, number_field(1, 1))
    for _ in range(2000):
        kind = field(4, field(1, kind))

    assert refused(by_hand(MUL + OUTPUT + field(11, field(1, b"x") + field(2, kind)))).code == (
        "invalid_graph"
    )


# Made when they are asked for: to make them costs as much as to refuse them.
COSTLY: dict[str, Callable[[], bytes]] = {
    "empty nodes": lambda: by_hand(b"\x0a\x00" * 8_000_000 + OUTPUT),
    "small nodes": lambda: by_hand(b"\x0a\x03\x22\x01A" * 400_000 + OUTPUT),
    "outputs of a node": lambda: by_hand(
        field(1, field(4, b"A") + b"".join(field(2, b"%x" % at) for at in range(900_000))) + OUTPUT
    ),
    "inputs": lambda: by_hand(MUL + OUTPUT + INPUT * 300_000),
    "empty value infos": lambda: by_hand(b"\x6a\x00" * 4_000_000 + RELU_GRAPH),
    "operator sets": lambda: by_hand(RELU_GRAPH, tail=field(8, b"") * 300_000),
    "packed dims": lambda: by_hand(RELU_GRAPH + field(5, field(1, b"\x01" * 8_000_000))),
    "external tensors": lambda: by_hand(
        b"".join(
            field(5, field(8, b"%x" % at) + b"\x70\x01" + field(13, field(1, b"location")
            + field(2, b"w")))
            for at in range(110_000)
        )
        + RELU_GRAPH
    ),
    "an endless name": lambda: by_hand(RELU_GRAPH + field(5, field(8, b"n" * 10_000_000))),
}  # fmt: skip


@pytest.mark.parametrize("kind", COSTLY)
def test_what_was_made_to_cost_much_costs_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(model_file, "_FEWEST_FIELDS", 200_000)  # watched, each costs ten times
    path = tmp_path / "model.onnx"
    path.write_bytes(COSTLY[kind]())

    tracemalloc.start()
    try:
        with pytest.raises(InvalidModel) as caught:
            scan_model(path, max_nodes=2_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert caught.value.code in {"too_many_nodes", "model_too_complex", "invalid_graph"}
    assert peak < 96 << 20


def test_long_runs_of_plain_numbers_are_bounded(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protobuf_wire, "_MAX_RUN_BYTES", 1 << 20)
    ints = field(5, field(1, b"a") + b"\x40\x01" * (1 << 20))

    assert refused(by_hand(field(1, field(4, b"A") + ints) + OUTPUT)).code == "model_too_complex"


def test_weights_are_never_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(by_hand(RELU_GRAPH + field(5, field(8, b"w") + field(9, bytes(64 << 20)))))

    tracemalloc.start()
    try:
        found = scan_model(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert found.initializer_bytes == 64 << 20
    assert peak < 4 << 20


TWO_WAYS = {
    "two graphs": by_hand(RELU_GRAPH, tail=field(7, RELU_GRAPH)),
    "two types": by_hand(MUL + OUTPUT + field(11, field(1, b"x") + field(2, b"") + field(2, b""))),
    "two kinds of type": by_hand(
        MUL + OUTPUT + field(11, field(1, b"x") + field(2, field(1, b"") + field(4, b"")))
    ),
    "two tensors in an attribute": by_hand(
        field(1, field(4, b"Constant") + field(2, b"y") + field(5, field(5, b"") + field(5, b"")))
        + OUTPUT
    ),
    "a graph that is a number": number_field(1, 9) + number_field(7, 1),
    "a version that is bytes": field(1, b"9") + field(7, RELU_GRAPH),
    "a name that is a number": by_hand(RELU_GRAPH + field(5, number_field(8, 1))),
    "dims that are floats": by_hand(RELU_GRAPH + field(5, b"\x0d\x00\x00\x00\x00")),
}


@pytest.mark.parametrize("data", TWO_WAYS.values(), ids=TWO_WAYS.keys())
def test_what_readers_may_read_in_two_ways_is_refused(refused: Refused, data: bytes) -> None:
    assert refused(data).code in {"not_a_model", "invalid_graph"}


def test_a_location_flag_is_read_as_other_readers_do(scan: Scan) -> None:
    """Protobuf keeps the last of repeated values, and 32 bits of an enumeration."""
    pair = field(13, field(1, b"location") + field(2, b"../w"))
    for flag in (b"\x70\x00\x70\x01", b"\x70" + varint((1 << 32) + 1), b"\x70\x81\x80\x00"):
        found = scan(by_hand(RELU_GRAPH + field(5, field(8, b"w") + flag + pair)))
        assert [ref.location for ref in found.external] == ["../w"], flag
    kept = scan(by_hand(RELU_GRAPH + field(5, field(8, b"w") + b"\x70\x01\x70\x00" + pair)))
    assert kept.external == []


MALFORMED = {
    "a number of eleven bytes": number_field(1, 9) + b"\x28" + b"\xff" * 11,
    "field number 0": number_field(1, 9) + b"\x02\x00",
    "a group": number_field(1, 9) + b"\x2b\x2c",
    "wire type 7": number_field(1, 9) + b"\x2f",
    "a field number above 2**29": number_field(1, 9) + varint((1 << 29) << 3) + b"\x00",
    "a field beyond its message": by_hand(b"\x0a\x7f" + RELU_GRAPH[:4]),
    "ir version 0": number_field(1, 0) + field(7, RELU_GRAPH),
    "ir version below 0": number_field(1, -1) + field(7, RELU_GRAPH),
    "no ir version": field(7, RELU_GRAPH) + field(8, number_field(2, 17)),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_bytes_that_are_no_protobuf_are_no_model(refused: Refused, data: bytes) -> None:
    assert refused(data).code == "not_a_model"


def test_a_length_beyond_any_file_is_a_cut(refused: Refused) -> None:
    for length in (1 << 20, 1 << 40, (1 << 64) - 1):
        error = refused(number_field(1, 9) + b"\x3a" + varint(length))
        assert error.code == "model_truncated"


def test_names_that_are_not_text_are_refused(refused: Refused) -> None:
    for graph in (
        field(1, field(2, b"\xff\xfe") + field(4, b"A")) + OUTPUT,
        MUL + OUTPUT + field(11, field(1, b"\xc3\x28")),
        RELU_GRAPH + field(5, field(8, b"\x80")),
    ):
        assert refused(by_hand(graph)).code == "invalid_graph"


def test_a_node_without_an_operator_is_refused(refused: Refused) -> None:
    assert refused(by_hand(field(1, field(2, b"y")) + OUTPUT)).code == "invalid_graph"


def test_offsets_beyond_2_gib_and_huge_shapes_are_whole_numbers(scan: Scan) -> None:
    tensor = external_weight("w", [2**40, 2**40], location="w.bin", offset=str(5 << 30))

    (ref,) = scan(model(weights=[tensor])).external

    assert ref.offset == 5 << 30
    assert ref.needed == 2**82


def test_the_limits_are_told_in_the_refusal(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(by_hand(field(1, field(4, b"A")) * 11 + OUTPUT))

    with pytest.raises(InvalidModel, match="more than 10 nodes"):
        scan_model(path, max_nodes=10)
    assert str(onnx_graph.MAX_DEPTH) in str(refused(_nested(40)))


SMALL = [real_model(name).read_bytes() for name in ("light-squeezenet", "logreg-iris")]
FUZZ = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def _answered(path: Path, data: bytes) -> bool:
    """Tell whether bytes are read as a model, or refused with what to do about it."""
    path.write_bytes(data)
    try:
        return scan_model(path, max_nodes=5000) is not None
    except InvalidModel as error:
        return bool(error.message and error.fix)


@FUZZ
@given(data=st.binary(max_size=4096))
def test_any_bytes_are_a_model_or_refused(tmp_path: Path, data: bytes) -> None:
    assert _answered(tmp_path / "model.onnx", data)
    assert _answered(tmp_path / "model.onnx", by_hand(data))


@FUZZ
@given(
    base=st.sampled_from([*SMALL, GOOD, _nested(3), model()]),
    changes=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=6), st.booleans()),
        min_size=1,
        max_size=8,
    ),
)
def test_a_real_model_with_changed_bytes_is_a_model_or_refused(
    tmp_path: Path, base: bytes, changes: list[tuple[float, bytes, bool]]
) -> None:
    data = bytearray(base)
    for place, patch, insert in changes:
        at = int(place * len(data))
        data[at : at if insert else at + len(patch)] = patch
    assert _answered(tmp_path / "model.onnx", bytes(data))


def _messages() -> st.SearchStrategy[bytes]:
    """Well-formed messages of any fields, nested: they reach where random bytes do not."""
    numbers = st.integers(1, 26)
    leaf = st.one_of(
        st.builds(number_field, numbers, st.integers(-(2**63), 2**64 - 1)),
        st.builds(field, numbers, st.binary(max_size=12)),
    )
    return st.recursive(
        leaf,
        lambda inner: st.builds(
            lambda number, parts: field(number, b"".join(parts)),
            numbers,
            st.lists(inner, max_size=4),
        ),
        max_leaves=30,
    )


@FUZZ
@given(parts=st.lists(_messages(), max_size=8))
def test_any_nested_message_is_a_graph_or_refused(tmp_path: Path, parts: list[bytes]) -> None:
    assert _answered(tmp_path / "model.onnx", by_hand(b"".join(parts)))
    assert _answered(tmp_path / "model.onnx", by_hand(RELU_GRAPH + b"".join(parts)))
