"""What was seen in the weights: numbers that are none, what half precision cannot hold, twins."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from enginefarm.counted import counted
from enginefarm.finding import (
    Finding,
    at_tensors,
    error_finding,
    note_finding,
    warning_finding,
)
from enginefarm.onnx_types import bits_of
from enginefarm.preflight.subject import Rule, Subject
from enginefarm.preflight.weights import TensorSeen

_WHOLE_BYTES = frozenset({8, 16, 32, 64, 128})
_INT32 = (-(2**31), 2**31 - 1)
_INT64 = (-(2**63), 2**63 - 1)


def _seen(subject: Subject, test: Callable[[TensorSeen], bool]) -> list[TensorSeen]:
    return [row for row in subject.seen.tensors if test(row)] if subject.seen is not None else []


def not_looked_at(subject: Subject) -> Iterator[Finding]:
    """Nobody looked at the weights, or not at all of them."""
    if subject.seen is None:
        yield note_finding(
            "weights_not_checked",
            "The weights were not looked at.",
            why="numpy is not installed here.",
            fix="In the folder of the source: pip install './client[run]'. A farm looks anyway.",
        )
    elif subject.seen.unread:
        found = note_finding(
            "weights_not_checked",
            f"Of the weights, {counted(len(subject.seen.unread), 'was', 'were')} not looked at.",
            why="They are kept number by number, or their file is not here.",
            fix="Save the model with raw weights, its external data beside it.",
        )
        yield at_tensors(found, subject.seen.unread)


def not_finite(subject: Subject) -> Iterator[Finding]:
    """NaN is a fault of training or export; an infinity may be meant, as in masks."""
    for rows, kind, meant in (
        (_seen(subject, lambda row: row.nan > 0), "NaN", "Training or a conversion went wrong."),
        (
            _seen(subject, lambda row: row.infinite > 0),
            "infinite values",
            "In a mask that may be meant; in a weight it is what a conversion to fp16 leaves.",
        ),
    ):
        if rows:
            made = warning_finding if kind == "NaN" else note_finding
            found = made(
                "weights_non_finite",
                f"{counted(len(rows), 'weight holds', 'weights hold')} {kind}.",
                why=meant,
                fix="Look at the tensors named, and export again from a good checkpoint.",
            )
            yield at_tensors(found, [row.name for row in rows])


def cut_short(subject: Subject) -> Iterator[Finding]:
    """Weights with more or fewer bytes than their type and shape need."""
    names = [
        tensor.name
        for tensor in subject.facts.weights()
        if tensor.at is not None
        and bits_of(tensor.dtype) in _WHOLE_BYTES
        and tensor.at[1] != tensor.size_bytes
    ]
    if names:
        found = error_finding(
            "invalid_graph",
            f"{counted(len(names), 'weight has', 'weights have')} not as many bytes as the type and"
            " shape need.",
            fix="Export the model again; onnx.checker.check_model names the place.",
        )
        yield at_tensors(found, names)


def denormal(subject: Subject) -> Iterator[Finding]:
    """Values so small that many processors compute them slowly, and GPUs take them for zero."""
    rows = _seen(subject, lambda row: row.denormal > 0)
    if rows:
        found = note_finding(
            "weights_denormal",
            f"{counted(sum(row.denormal for row in rows), 'value')} of "
            f"{counted(len(rows), 'weight')} "
            f"{'is' if sum(row.denormal for row in rows) == 1 else 'are'} denormal.",
            why="Processors are slow at them, and GPUs may take them for zero.",
            fix="Set them to zero before the export.",
        )
        yield at_tensors(found, [row.name for row in rows])


def beyond_half(subject: Subject) -> Iterator[Finding]:
    """Values that fp16 cannot hold: they become infinite if the model is converted."""
    rows = _seen(subject, lambda row: row.dtype != "float16" and row.beyond_half > 0)
    if rows:
        most = max(row.largest for row in rows)
        found = note_finding(
            "weights_beyond_fp16",
            f"{counted(len(rows), 'weight holds', 'weights hold')} values up to {most:.3g}; fp16 "
            "ends at 65504.",
            why="Converted to fp16 they become infinite. bf16 and fp32 hold them.",
            fix="Keep these nodes in fp32 if you convert the model.",
        )
        yield at_tensors(found, [row.name for row in rows])


def twins(subject: Subject) -> Iterator[Finding]:
    """Large weights that are there twice, as they are or transposed: tied once, and no longer."""
    if subject.seen is None or not subject.seen.twice:
        return
    saved = sum(size for _, _, size in subject.seen.twice)
    found = note_finding(
        "weights_twice",
        f"{counted(len(subject.seen.twice), 'large weight is', 'large weights are')} there twice: "
        f"{saved / 1e6:.1f} MB.",
        why="They were one tensor in training (tied embeddings, say) and are two in the file.",
        fix="Export with the weights tied to save these bytes.",
    )
    yield at_tensors(found, [f"{one} = {other}" for one, other, _ in subject.seen.twice])


def large_whole_numbers(subject: Subject) -> Iterator[Finding]:
    """int64 constants outside of int32 that are no mark for "to the end"."""
    ends = {
        name
        for node in subject.facts.graph.every_node()
        if node.op == "Slice"
        for name in node.inputs[1:]
    }
    names = [
        tensor.name or name
        for name, tensor in subject.constants.items()
        if tensor.dtype == "int64"
        and name not in ends
        and any(
            not _INT32[0] <= value <= _INT32[1] and value not in _INT64
            for value in tensor.values or ()
        )
    ]
    if names and subject.target.backend != "onnxruntime":
        found = note_finding(
            "int64_beyond_int32",
            f"{counted(len(names), 'int64 constant does', 'int64 constants do')} not fit into "
            "int32.",
            why="Compilers before TensorRT 10 cut such values; this one keeps 64 bits.",
            fix="Compare the engine's outputs with the original.",
        )
        yield at_tensors(found, names)


RULES: tuple[Rule, ...] = (
    not_looked_at,
    cut_short,
    not_finite,
    denormal,
    beyond_half,
    twins,
    large_whole_numbers,
)
