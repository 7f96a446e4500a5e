"""Look at what is inside a model while it runs: tensors that half precision cannot hold."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import onnx
import onnxruntime as ort

from enginefarm.counted import counted
from enginefarm.finding import Finding, at_tensors, note_finding
from enginefarm.preflight.subject import Sized, Subject
from workers.backends.base import Array, ModelSource, Runner
from workers.backends.ort_session import as_written
from workers.measurement import inputs

MOST_BYTES = 256 << 20
"""All that is looked at is held at one time."""
MOST_MODEL_BYTES = 512 << 20
_MOST_HALF = 65504.0
_FLOAT32_BYTES = 4


def beyond_half(subject: Subject, source: ModelSource, runner: Runner) -> list[Finding]:
    """Return a note if tensors inside the model are larger than fp16 can hold, on made-up inputs.

    Nothing is said of models that are too large to be looked at, or that keep weights outside.
    """
    usual = next(iter(subject.at_end("opt")), None)
    if usual is None or subject.facts.scan.external:
        return []
    names = list(_inside(subject, usual))
    if not names or source.path.stat().st_size > MOST_MODEL_BYTES:
        return []
    profile = source.profiles[0] if source.profiles else None
    try:
        feeds = inputs.synthetic(runner.inputs, profile, {}, np.random.default_rng(0))
        values = _run(source, names, feeds)
    except Exception:  # noqa: BLE001 - the binding raises a class for each status
        return []  # made-up values may be wrong for a model, and that is no fault of it
    large = {name: most for name, value in values.items() if (most := _largest(value)) > _MOST_HALF}
    if not large:
        return []
    found = note_finding(
        "activations_beyond_fp16",
        f"{counted(len(large), 'tensor reaches', 'tensors reach')} values up to "
        f"{max(large.values()):.3g} on made-up inputs; fp16 ends at 65504.",
        why="Converted to fp16 they become infinite. bf16 and fp32 hold them.",
        fix="Keep the nodes that make them in fp32 if you convert the model.",
    )
    return [at_tensors(found, sorted(large, key=lambda name: -large[name]))]


def _inside(subject: Subject, usual: Sized) -> Iterator[str]:
    """Give the float32 tensors whose size is known, until together they are too many bytes."""
    left = MOST_BYTES
    for node in subject.facts.graph.nodes:
        for name in node.outputs:
            shape = usual.known.shape(name)
            if shape is None or subject.types.get(name) != "float32":
                continue
            if subject.origins.get(name).constant:
                continue
            left -= math.prod(shape) * _FLOAT32_BYTES
            if left < 0:
                return
            yield name


def _run(source: ModelSource, names: list[str], feeds: inputs.Feeds) -> inputs.Feeds:
    model = onnx.load(str(source.path), load_external_data=False)
    had = {row.name for row in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in had)
    options = as_written()
    options.log_severity_level = 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return dict(zip(names, session.run(names, feeds), strict=True))


def _largest(value: Array) -> float:
    finite = np.abs(value[np.isfinite(value)])
    return float(finite.max(initial=0.0))
