"""How much memory a build and a run will take, against what a machine has: before it is tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from enginefarm.finding import Finding, error_finding, note_finding, warning_finding
from enginefarm.onnx_types import bits_of
from enginefarm.preflight.subject import Measured, Room, Rule, Sized, Subject

GIB = 1 << 30
_RUNTIME_BYTES = 350 << 20
"""A process with its runtime loaded, before it has a model."""
_SURELY = 0.7
"""The share of an estimate that is certain: what was measured lay above it in every case."""
_WORTH_A_WORD = 2 * GIB
_SMALLER = "Reduce the profile's max, or use a node (or a limit) with more memory."
_ROOMY = "Nothing, if the nodes give a job that much; else a smaller max of the profile."


@dataclass(frozen=True)
class Estimate:
    """Bytes that a job takes at the profiles' max. ``whole``: every tensor's size is certain."""

    weights: int
    activations: int
    host: int
    device: int
    place: str
    whole: bool


def estimate(subject: Subject) -> Estimate:
    """Predict the memory of a build (host) and of a run (device)."""
    weights = subject.facts.weight_bytes()
    most, place, whole = 0, "", True
    for sized in subject.at_end("max"):
        peak, certain = peak_bytes(subject, sized)
        whole &= certain
        if peak >= most:
            most, place = peak, sized.place
    workspace = (subject.options.workspace_mib or 0) << 20
    host = _RUNTIME_BYTES + int(weights * subject.capabilities.bytes_per_weight_byte)
    if subject.target.arch == "cpu":
        host += most  # it runs where it is built
    return Estimate(weights, most, host, weights + most + workspace, place, whole)


def peak_bytes(subject: Subject, sized: Sized) -> tuple[int, bool]:
    """Return the most bytes alive at one time, in the file's order, and if that is certain."""
    nodes, shapes = subject.facts.graph.nodes, sized.known.shapes
    last = {name: number for number, node in enumerate(nodes) for name in node.inputs}
    kept = {row.name for row in subject.facts.graph.outputs}
    live, most, certain = (
        sum(_bytes(subject, name, shape) for name, shape in sized.inputs.items()),
        0,
        True,
    )
    for number, node in enumerate(nodes):
        for name in node.outputs:
            shape = shapes.get(name)
            certain &= shape is not None or not name
            live += _bytes(subject, name, shape or ())
        most = max(most, live)
        for name in dict.fromkeys((*node.inputs, *node.outputs)):
            ended = last.get(name, -1) <= number and name not in kept
            if ended and name not in subject.facts.graph.weights and (name in shapes):
                live -= _bytes(subject, name, shapes[name])
    return most, certain


def _bytes(subject: Subject, name: str, shape: object) -> int:
    if not isinstance(shape, list | tuple):
        return 0
    count = 1
    for size in shape:
        count *= size
    return count * (bits_of(subject.types.get(name, "float32")) or 32) // 8


def room_on_host(subject: Subject) -> Iterator[Finding]:
    """More than any node, or a job's limit there, has: as measured before, else as estimated."""
    room = subject.room
    there = room.memory_bytes
    if there is not None:
        there = max(there, room.most_memory_bytes or 0)
    measured = max(room.measured, key=lambda row: row.peak_bytes, default=None)
    if measured is not None and there is not None and measured.peak_bytes > there:
        yield _measured_short(measured, there)
    elif _taken_to_compile(room) is not None:
        # What such a build took goes before what it was thought to take.
        yield from _measured_note(room)
    else:
        yield from _estimated(subject, there)


def _measured_short(measured: Measured, there: int) -> Finding:
    return error_finding(
        "memory_short",
        f"To {measured.stage} it takes {_taken(measured)}; a job may have {_mib(there)}.",
        fix=_SMALLER,
    )


def _measured_note(room: Room) -> Iterator[Finding]:
    most = max(room.measured, key=lambda row: row.peak_bytes)
    if room.memory_bytes is not None and most.peak_bytes > room.memory_bytes:
        here = _mib(room.memory_bytes)
        yield warning_finding(
            "memory_tight",
            f"To {most.stage} it takes {_taken(most)}; a job may have {here} here.",
            why="Another node has more, and gets it.",
        )
    elif most.peak_bytes > _WORTH_A_WORD:
        message = f"To {most.stage} it takes {_taken(most)}."
        yield note_finding("memory_estimate", message, fix=_ROOMY)


def _taken(measured: Measured) -> str:
    least = "" if measured.enough else "at least "
    smaller = "" if measured.enough else ", of smaller sizes or without success"
    return (
        f"{least}{_mib(measured.peak_bytes)}, measured on an earlier build of this model{smaller}"
    )


def _estimated(subject: Subject, there: int | None) -> Iterator[Finding]:
    here, told = subject.room.memory_bytes, estimate(subject)
    needed = told.host
    why = (
        f"Weights of {_gib(told.weights)} and activations of {_gib(told.activations)}"
        f"{f' at {told.place}' if told.place else ''}."
    )
    if there is not None and needed * _SURELY > there:
        yield error_finding(
            "memory_short",
            f"The build needs about {_gib(needed)}; a job may have {_gib(there)} here.",
            why=why,
            fix=_SMALLER,
        )
    elif here is not None and needed > here:
        yield warning_finding(
            "memory_tight",
            f"The build may need {_gib(needed)}; a job may have {_gib(here)} here.",
            why=why,
            fix=_SMALLER,
        )
    elif here is None and needed > _WORTH_A_WORD:
        yield note_finding(
            "memory_estimate",
            f"The build will need about {_gib(needed)}.",
            why=why,
            fix=_ROOMY,
        )


def needs_more_than_here(subject: Subject) -> bool:
    """Tell whether it is certain that this machine has too little memory to try the model."""
    here, taken = subject.room.memory_bytes, _taken_to_compile(subject.room)
    needed = taken if taken is not None else estimate(subject).host * _SURELY
    return here is not None and needed > here


def _taken_to_compile(room: Room) -> int | None:
    """Return what sufficed to compile the model before, if that is known."""
    enough = (row.peak_bytes for row in room.measured if row.stage == "compile" and row.enough)
    return next(enough, None)


def room_on_device(subject: Subject) -> Iterator[Finding]:
    """More than the GPU has on which the engine is to be measured."""
    there, told = subject.room.gpu_memory_bytes, estimate(subject)
    if subject.target.arch == "cpu" or there is None or told.device <= there:
        return
    made = error_finding if told.device * _SURELY > there else warning_finding
    yield made(
        "gpu_memory_short" if made is error_finding else "memory_tight",
        f"The engine needs about {_gib(told.device)} on the GPU, which has {_gib(there)}.",
        why=f"Weights of {_gib(told.weights)} and activations of {_gib(told.activations)}.",
        fix="Reduce the profile's max, or choose a GPU with more memory.",
    )


def _mib(size: int) -> str:
    return f"{-(-size // (1 << 20))} MiB"


def _gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB" if size >= GIB // 10 else f"{size / (1 << 20):.1f} MiB"


RULES: tuple[Rule, ...] = (room_on_host, room_on_device)
