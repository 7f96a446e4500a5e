"""Measure an engine: latency first, then accuracy against the original model in ONNX Runtime.

Nothing is made up: what could not be measured is None, with the reason beside it. When the engine
fails on an input, the original model is asked too: if it fails as well, the input is at fault.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from enginefarm.counted import counted
from enginefarm.errors import JobFailed
from enginefarm.report import AccuracyReport, LatencyReport
from enginefarm.spec import BenchmarkOptions, FixedInput, Profile, SyntheticInput
from enginefarm.state import Blame
from enginefarm.views import TensorView
from workers.backends.base import Array, Backend, ModelSource, ProgressSink, Runner
from workers.diagnosis import Runtime, refuse_node_fault, shorten
from workers.measurement import inputs
from workers.measurement.accuracy import OutputTally
from workers.measurement.original import Original
from workers.measurement.refusals import engine_failed, inputs_rejected, output_missing
from workers.measurement.timing import Stopped, measure
from workers.reporting import PartSink

SYNTHETIC_BATCHES = 4
LATENCY_SHARE = 0.7
FIXED: TypeAdapter[dict[str, FixedInput]] = TypeAdapter(dict[str, FixedInput])
SYNTHETIC: TypeAdapter[dict[str, SyntheticInput]] = TypeAdapter(dict[str, SyntheticInput])


@dataclass(frozen=True)
class Request:
    """What to measure, with what."""

    source: ModelSource
    engine: Path
    dataset: Path | None
    dataset_digest: str | None
    synthetic: Mapping[str, SyntheticInput]
    seed: int
    options: BenchmarkOptions
    fixed: Mapping[str, FixedInput] = field(default_factory=dict)
    keep_outputs: Sequence[str] = ()

    @classmethod
    def of(
        cls, recipe: Mapping[str, Any], source: ModelSource, engine: Path, dataset: Path | None
    ) -> Request:
        """Read a benchmark recipe."""
        return cls(
            source=source,
            engine=engine,
            dataset=dataset,
            dataset_digest=recipe.get("evaluation"),
            synthetic=SYNTHETIC.validate_python(recipe.get("synthetic") or {}),
            seed=int(recipe.get("seed") or 0),
            options=BenchmarkOptions.model_validate(recipe.get("options") or {}),
            fixed=FIXED.validate_python(recipe.get("fixed") or {}),
            keep_outputs=recipe.get("keep_outputs") or [],
        )

    @property
    def data(self) -> str:
        """What the engine is fed with, in the words of the report."""
        if self.dataset is None:
            return f"synthetic, seed {self.seed}"
        return f"dataset {self.dataset_digest}"

    def wanted(
        self, views: list[TensorView], values: list[Array | None]
    ) -> Iterator[tuple[TensorView, Array | None]]:
        """Yield the original's outputs, but for those that the build asked to leave out."""
        for view, value in zip(views, values, strict=True):
            if not self.keep_outputs or view.name in self.keep_outputs:
                yield view, value

    def batches(
        self, views: list[TensorView], profile: Profile | None
    ) -> Iterator[tuple[inputs.Feeds, int]]:
        """Yield the batches to compare on: the dataset whole, or a few synthetic ones."""
        if self.dataset is not None:
            yield from self._dataset_batches(views, profile)
            return
        rng = np.random.default_rng(self.seed)
        for _ in range(SYNTHETIC_BATCHES):
            feeds = inputs.synthetic(views, profile, self.synthetic, rng)
            yield feeds, inputs.shared_batch(feeds) or 1

    def _dataset_batches(
        self, views: list[TensorView], profile: Profile | None
    ) -> Iterator[tuple[inputs.Feeds, int]]:
        if self.dataset is None:
            return
        dataset = inputs.open_dataset(self.dataset)
        missing = [view.name for view in views if view.name not in dataset.arrays]
        if missing:
            raise JobFailed(
                f"The evaluation dataset lacks {', '.join(missing)}.",
                blame=Blame.PERSON,
                code="dataset_missing_input",
                fix="Give an array for every input of the model.",
            )
        for feeds, count in inputs.batches(dataset, views, profile):
            fault = inputs.outside(feeds, profile)
            if fault is not None:
                raise JobFailed(
                    "The evaluation dataset does not fit the profile.",
                    blame=Blame.PERSON,
                    code="dataset_outside_profile",
                    why=f"{fault}.",
                    fix="Widen the profile, or leave these samples out.",
                )
            yield feeds, count


def run(
    request: Request, backend: Backend, sink: ProgressSink, peak: Callable[[], int]
) -> dict[str, Any]:
    """Return the facts of a benchmark: latency by profile, accuracy, or why there is none."""
    began = time.perf_counter()
    engine = backend.load(request.engine, request.source.target, request.options.threads)
    load_ms = (time.perf_counter() - began) * 1000
    profiles: list[Profile | None] = list(request.source.profiles) or [None]
    latency = []
    share = LATENCY_SHARE / len(profiles)
    try:
        for number, profile in enumerate(profiles):
            part = PartSink(sink, number * share, share)
            latency.append(_latency(request, engine, profile, part, load_ms, peak))
        accuracy, reason = _accuracy(request, engine, profiles, sink)
    except Stopped:
        raise JobFailed("The benchmark was stopped.", blame=Blame.NODE, code="cancelled") from None
    facts: dict[str, Any] = {
        "latency": [report.model_dump(mode="json") for report in latency],
        "accuracy": accuracy.model_dump(mode="json") if accuracy else None,
    }
    if reason is not None:
        facts["accuracy_reason"] = reason
    return facts


def _latency(
    request: Request,
    engine: Runner,
    profile: Profile | None,
    sink: ProgressSink,
    load_ms: float,
    peak: Callable[[], int],
) -> LatencyReport:
    feeds = _first(request, engine, profile)
    try:
        engine.run(feeds)
    except Exception as error:
        raise _run_failure(request, feeds, error) from error
    found = measure(lambda: engine.run(feeds), request.options, time.perf_counter, sink)
    return LatencyReport(
        shapes={name: list(array.shape) for name, array in feeds.items()},
        batch=inputs.shared_batch(feeds),
        end_to_end_ms=found.distribution,
        throughput_qps=found.throughput_qps,
        warmup_iterations=found.warmup_iterations,
        warmup_ms=found.warmup_ms,
        stable=found.stable,
        notes=[f"inputs: {request.data}", *found.notes],
        load_ms=load_ms,
        peak_memory_bytes=peak(),
        threads=engine.threads,
    )


def _first(request: Request, engine: Runner, profile: Profile | None) -> inputs.Feeds:
    for feeds, _ in request.batches(engine.inputs, profile):
        return feeds
    raise JobFailed(
        "The evaluation dataset has too few samples to fill one batch.",
        blame=Blame.PERSON,
        code="dataset_too_small",
        why="The model's batch is fixed, and the dataset is shorter.",
        fix="Give at least one batch of samples.",
    )


def _reference(request: Request) -> Runner:
    from workers.backends.onnxruntime import open_reference

    return Original(open_reference(request.source.path), request.fixed)


def _run_failure(request: Request, feeds: inputs.Feeds, error: Exception) -> JobFailed:
    """Tell whose fault a failed run is: ask the original model to run the same input."""
    said = str(error)
    refuse_node_fault(said, Runtime.ONNXRUNTIME, request.source.target)
    try:
        _reference(request).run(feeds)
    except Exception as original:  # noqa: BLE001 - as above
        return inputs_rejected(request.dataset is not None, str(original))
    return engine_failed(said)


def _accuracy(
    request: Request, engine: Runner, profiles: list[Profile | None], sink: ProgressSink
) -> tuple[AccuracyReport | None, str | None]:
    try:
        reference = _reference(request)
    except Exception as error:  # noqa: BLE001 - as above
        said = shorten(str(error), 300)
        return None, f"the original model does not load in ONNX Runtime on the CPU: {said}"
    samples = 0
    tallies: dict[str, OutputTally] = {}
    skipped: set[str] = set()
    # A dataset is one set of samples: it is compared once, under the first profile.
    for profile in profiles if request.dataset is None else profiles[:1]:
        for feeds, count in request.batches(reference.inputs, profile):
            if sink.stopping:
                raise Stopped
            samples += count
            _compare(request, (reference, engine), feeds, tallies, skipped)
            sink.report(LATENCY_SHARE, "comparing with the original", counted(samples, "sample"))
    if not tallies:
        return None, "no output is a tensor of numbers"
    notes = [note for tally in tallies.values() for note in tally.notes()]
    notes += _left_out(request, samples)
    report = AccuracyReport(
        reference="the original model in ONNX Runtime on the CPU, graph as written",
        data=request.data,
        synthetic=request.dataset is None,
        samples=samples,
        outputs=[tally.result() for tally in tallies.values()],
        not_compared=sorted(skipped),
        notes=notes,
    )
    return report, None


def _left_out(request: Request, samples: int) -> list[str]:
    if request.dataset is None:
        return []
    there = inputs.open_dataset(request.dataset).samples
    if samples >= there:
        return []
    note = (
        f"of the dataset's {counted(there, 'sample')}, {counted(there - samples, 'was', 'were')}"
        " left out: the model's batch is fixed, and they do not fill one"
    )
    return [note]


def _compare(
    request: Request,
    runners: tuple[Runner, Runner],
    feeds: inputs.Feeds,
    tallies: dict[str, OutputTally],
    skipped: set[str],
) -> None:
    reference, engine = runners
    batch = inputs.shared_batch(feeds)
    try:
        wanted = reference.run(feeds)
    except Exception as error:
        raise inputs_rejected(request.dataset is not None, str(error)) from error
    try:
        names = {view.name for view in engine.inputs}
        # An input that nothing reads may have been removed from what was built.
        found = engine.run({name: array for name, array in feeds.items() if name in names})
    except Exception as error:
        raise _run_failure(request, feeds, error) from error
    by_name = {view.name: array for view, array in zip(engine.outputs, found, strict=True)}
    for view, right in request.wanted(reference.outputs, wanted):
        if view.name not in by_name:
            raise output_missing(view.name)
        left = by_name[view.name]
        if right is None or left is None or right.dtype.kind not in "fiub":
            skipped.add(view.name)
            continue
        first = batch is not None and right.ndim > 0 and right.shape[0] == batch
        tally = tallies.setdefault(view.name, OutputTally(view.name, batch_first=first))
        try:
            tally.add(right, left)
        except ValueError as error:
            raise JobFailed(
                "The engine's output has another shape than the original's.",
                blame=Blame.NODE,
                code="output_shape_differs",
                why=f"{error}.",
                fix="Report it: the backend has built something else.",
            ) from error
