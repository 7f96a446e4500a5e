"""An engine against its original in ONNX Runtime, on the same inputs.

When the engine fails on an input, the original is asked too: if it fails as well, the input is at
fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from enginefarm.errors import JobFailed
from enginefarm.report import AccuracyReport
from enginefarm.spec import Profile
from enginefarm.state import Blame
from workers.backends.base import Array, ProgressSink, Runner
from workers.diagnosis import refuse_node_fault, runtime_of, shorten
from workers.measurement import inputs
from workers.measurement.accuracy import OutputTally
from workers.measurement.evaluation import MetricTally, joined
from workers.measurement.original import Original
from workers.measurement.refusals import engine_failed, inputs_rejected, output_missing
from workers.measurement.request import Request
from workers.measurement.timing import Stopped


def compare(
    request: Request, engine: Runner, profiles: list[Profile | None], sink: ProgressSink
) -> tuple[AccuracyReport | None, str | None]:
    """Return what the engine is worth, or None and why that is not known.

    Raises:
        JobFailed: the data, the original or the engine does not do.
        Stopped: the sink says so.
    """
    try:
        reference = _reference(request)
    except Exception as error:  # noqa: BLE001 - whatever a runtime raises
        said = shorten(str(error), 300)
        return None, f"the original model does not load in ONNX Runtime on the CPU: {said}"
    seen = _Seen(_metric_of(request, reference, profiles[0]))
    # A dataset is one set of samples: it is compared once, under the first profile.
    for profile in profiles if request.dataset is None else profiles[:1]:
        for feeds, count in request.batches(reference.inputs, profile):
            if sink.stopping:
                raise Stopped
            _compare(request, (reference, engine), feeds, count, seen)
            seen.samples += count
            sink.report(0.0, "comparing with the original", f"{seen.samples} samples")
    if not seen.tallies:
        return None, "no output is a tensor of numbers"
    return _report(request, seen), None


@dataclass
class _Seen:
    """What was compared so far."""

    metric: MetricTally | None
    samples: int = 0
    tallies: dict[str, OutputTally] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)


def _metric_of(request: Request, reference: Runner, profile: Profile | None) -> MetricTally | None:
    if request.metric is None or request.dataset is None:
        return None
    views = reference.inputs
    sizes = inputs.open_dataset(request.dataset, [view.name for view in views])
    found = [size.arrays.get(request.metric.labels) for size in sizes]
    labels = [row for row in found if row is not None]
    if len(labels) < len(sizes):
        raise JobFailed(
            f"The evaluation dataset has no labels {request.metric.labels[:80]!r}.",
            blame=Blame.PERSON,
            code="dataset_missing_labels",
            fix="Save the labels in the dataset, under the name that the metric gives them.",
        )
    rows = [
        row[: inputs.used(size, views, profile)] for row, size in zip(labels, sizes, strict=True)
    ]
    return MetricTally(request.metric, joined(rows, request.metric.padding))


def _report(request: Request, seen: _Seen) -> AccuracyReport:
    notes = [note for tally in seen.tallies.values() for note in tally.notes()]
    return AccuracyReport(
        reference="the original model in ONNX Runtime on the CPU, graph as written",
        data=request.data,
        synthetic=request.dataset is None,
        samples=seen.samples,
        outputs=[tally.result() for tally in seen.tallies.values()],
        not_compared=sorted(seen.skipped),
        metric=None if seen.metric is None else seen.metric.result(),
        notes=notes + _left_out(request, seen.samples),
    )


def _left_out(request: Request, samples: int) -> list[str]:
    if request.dataset is None:
        return []
    there = sum(size.samples for size in inputs.open_dataset(request.dataset))
    if samples >= there:
        return []
    note = (
        f"{there - samples} of the dataset's {there} samples were left out: the model's batch is"
        " fixed, and they do not fill one"
    )
    return [note]


def _compare(
    request: Request,
    runners: tuple[Runner, Runner],
    feeds: inputs.Feeds,
    count: int,
    seen: _Seen,
) -> None:
    reference, engine = runners
    try:
        wanted = reference.run(feeds)
    except Exception as error:
        raise inputs_rejected(request.dataset is not None, str(error)) from error
    try:
        names = {view.name for view in engine.inputs}
        # An input that nothing reads may have been removed from what was built.
        found = engine.run({name: array for name, array in feeds.items() if name in names})
    except Exception as error:
        raise run_failure(request, feeds, error) from error
    by_name = {view.name: array for view, array in zip(engine.outputs, found, strict=True)}
    for view, right in request.wanted(reference.outputs, wanted):
        if view.name not in by_name:
            raise output_missing(view.name)
        left = by_name[view.name]
        if right is None or left is None or right.dtype.kind not in "fiub":
            seen.skipped.add(view.name)
            continue
        _add(seen, view.name, (right, left), inputs.shared_batch(feeds), count)
        if seen.metric is not None and request.metric and request.metric.output == view.name:
            seen.metric.add(seen.samples, count, right, left)


def _add(seen: _Seen, name: str, pair: tuple[Array, Array], batch: int | None, count: int) -> None:
    right, left = pair
    is_first = batch is not None and right.ndim > 0 and right.shape[0] == batch
    tally = seen.tallies.setdefault(name, OutputTally(name, batch_first=is_first))
    try:
        tally.add(right, left, first=seen.samples, count=count)
    except ValueError as error:
        raise JobFailed(
            "The engine's output has another shape than the original's.",
            blame=Blame.NODE,
            code="output_shape_differs",
            why=f"{error}.",
            fix="Report it: the backend has built something else.",
        ) from error


def run_failure(request: Request, feeds: inputs.Feeds, error: Exception) -> JobFailed:
    """Tell whose fault a failed run is: ask the original model to run the same input."""
    said = str(error)
    target = request.source.target
    refuse_node_fault(said, runtime_of(target), target)
    try:
        _reference(request).run(feeds)
    except Exception as original:  # noqa: BLE001 - as above
        return inputs_rejected(request.dataset is not None, str(original))
    return engine_failed(said)


def _reference(request: Request) -> Runner:
    from workers.backends.ort_session import open_reference

    return Original(open_reference(request.source.path), request.fixed)
