"""Whether a build makes sense at all, before any node is asked. Pure.

Each refusal names the field and the nearest right word.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from enginefarm.compile_options import OPTIONS_OF_BACKEND
from enginefarm.errors import InvalidRequest
from enginefarm.fixed import with_fixed
from enginefarm.gate_direction import require_direction
from enginefarm.nearest import did_you_mean
from enginefarm.portable import check_portability
from enginefarm.profile import measured_at
from enginefarm.shapes_text import shapes_text
from enginefarm.spec import BuildSpec, Gate, Metric
from enginefarm.views import TensorView
from tasks.readings import OF_METRIC, RELATIVE

_INFINITE = math.inf
# metric: the least and the greatest value that it can have, and whether it can be the least itself
_RANGES: dict[Metric, tuple[float, float, bool]] = {
    Metric.COSINE: (-1.0, 1.0, True),
    Metric.COSINE_WORST: (-1.0, 1.0, True),
    Metric.SNR_DB: (-_INFINITE, _INFINITE, True),
    Metric.PSNR_DB: (-_INFINITE, _INFINITE, True),
    Metric.MAX_ABS_ERROR: (0.0, _INFINITE, True),
    Metric.MEAN_ABS_ERROR: (0.0, _INFINITE, True),
    Metric.TOP1_AGREEMENT: (0.0, 1.0, True),
    Metric.TOP5_AGREEMENT: (0.0, 1.0, True),
    Metric.METRIC_VALUE: (0.0, _INFINITE, True),
    Metric.METRIC_LOSS: (-_INFINITE, _INFINITE, True),
    Metric.LATENCY_P50_MS: (0.0, _INFINITE, False),
    Metric.LATENCY_P99_MS: (0.0, _INFINITE, False),
    Metric.ENGINE_BYTES: (0.0, _INFINITE, False),
}
_OF_NO_OUTPUT = OF_METRIC | {Metric.LATENCY_P50_MS, Metric.LATENCY_P99_MS, Metric.ENGINE_BYTES}


def check_spec(spec: BuildSpec, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Refuse options, gates and synthetic inputs that cannot be right for this model.

    Raises:
        InvalidRequest: ``option_unused``, ``portability_refused``, ``benchmark_window``,
            ``batch_outside_profile``, ``shapes_outside_profile``,
            ``gate_bounds``, ``gate_direction``, ``gate_without_output``, ``gate_target_unknown``,
            ``unknown_input``, ``unknown_output``, ``synthetic_unused``,
            ``metric_without_dataset``, ``gate_without_metric``, ``gate_against``,
            ``gate_without_precision``.
    """
    _check_options(spec)
    check_portability(spec)
    _check_synthetic(spec, inputs)
    _check_metric(spec, outputs)
    for gate in spec.gates:
        _check_gate(gate, spec, outputs)


def check_fixed(spec: BuildSpec, inputs: Sequence[TensorView]) -> None:
    """Refuse what is fixed and given all the same.

    Raises:
        InvalidRequest: ``unknown_input``, ``fix_shape``, ``fix_value``, ``input_fixed``.
    """
    fixed = spec.options.repair.fix_inputs
    left = {row.name for row in with_fixed(inputs, fixed)}
    for name in sorted(set(fixed) - left):
        places = [f"profile {n}" for n, row in enumerate(spec.profiles) if name in row]
        places += ["synthetic"] if name in spec.synthetic else []
        if places:
            raise InvalidRequest(
                f"The input {name[:80]!r} is fixed to a value, and {places[0]} names it, too.",
                code="input_fixed",
                why="The engine has no such input, and the original is fed with the fixed value.",
                fix=f"Leave {name[:80]!r} out of {places[0]}, or do not fix it.",
            )


def _check_options(spec: BuildSpec) -> None:
    backends = {target.backend for target in spec.targets}
    for name in sorted(spec.options.compile.model_dump(exclude_none=True)):
        takers = sorted(row for row, names in OPTIONS_OF_BACKEND.items() if name in names)
        if not backends & set(takers):
            raise InvalidRequest(
                f"No target of this build takes options.compile.{name}.",
                code="option_unused",
                why=f"It is an option of {', '.join(takers)}.",
                fix="Leave it out, or add such a target.",
            )
    window = spec.options.benchmark
    if window.min_duration_ms > window.max_duration_ms:
        raise InvalidRequest(
            f"options.benchmark.min_duration_ms {window.min_duration_ms} is above "
            f"max_duration_ms {window.max_duration_ms}.",
            code="benchmark_window",
            fix="Raise max_duration_ms, or lower min_duration_ms.",
        )
    for batch in window.batches:
        _check_batch(spec, batch)
    for shapes in window.shapes:
        _check_measured_at(spec, shapes)


def _check_batch(spec: BuildSpec, batch: int) -> None:
    """Refuse a batch of a sweep that a profile does not allow, before anything is built."""
    if not spec.profiles:
        raise _no_batch(batch, "The build has no profile.")
    for profile in spec.profiles:
        rows = {name: row for name, row in profile.items() if row.opt}
        if len({row.opt[0] for row in rows.values()}) != 1:
            raise _no_batch(batch, "In a profile the inputs share no batch.")
        for name, row in rows.items():
            if not row.min[0] <= batch <= row.max[0]:
                raise _no_batch(batch, f"The profile allows {name} {row.min[0]} to {row.max[0]}.")


def _no_batch(batch: int, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"A batch of {batch} cannot be measured.",
        code="batch_outside_profile",
        why=why,
        fix="Widen the profile, or leave the batch out of options.benchmark.batches.",
    )


def _check_measured_at(spec: BuildSpec, shapes: Mapping[str, Sequence[int]]) -> None:
    """Refuse shapes to measure at that no profile allows, before anything is built."""
    if not measured_at(spec.profiles, [shapes]):
        raise InvalidRequest(
            f"No profile of the build allows {shapes_text(shapes)}, at which to measure.",
            code="shapes_outside_profile",
            why="An engine takes no other shapes than its profiles allow; each names all inputs.",
            fix="Widen a profile, or name other shapes in options.benchmark.shapes.",
        )


def _check_synthetic(spec: BuildSpec, inputs: Sequence[str]) -> None:
    for name in spec.synthetic:
        _require_one_of(name, inputs, "input")
    if spec.synthetic and spec.evaluation is not None:
        raise InvalidRequest(
            "Synthetic inputs are described, but an evaluation dataset is given.",
            code="synthetic_unused",
            why="Only one of the two can be what the engine is measured on.",
            fix="Leave out synthetic, or evaluation.",
        )


def _check_metric(spec: BuildSpec, outputs: Sequence[str]) -> None:
    asked = spec.evaluation_metric
    if asked is not None:
        _require_one_of(asked.output, outputs, "output")
    if asked is not None and spec.evaluation is None:
        raise InvalidRequest(
            f"The metric {asked.name} is asked for, but no evaluation dataset is given.",
            code="metric_without_dataset",
            why="It compares both sides with labels, and those lie in the dataset.",
            fix="Give an evaluation dataset that holds the inputs and the labels.",
        )


def _check_gate(gate: Gate, spec: BuildSpec, outputs: Sequence[str]) -> None:
    bounds = [bound for bound in (gate.at_least, gate.at_most) if bound is not None]
    crossed = len(bounds) > 1 and bounds[0] > bounds[1]
    if crossed or not all(map(math.isfinite, bounds)):
        raise InvalidRequest(
            f"No value of {gate.metric} can meet a gate from {gate.at_least} to {gate.at_most}.",
            code="gate_bounds",
            fix="Give finite bounds, at_least not above at_most.",
        )
    _require_possible(gate)
    require_direction(gate)
    _require_measured(gate, spec)
    if gate.worse_by_percent is not None and gate.metric not in RELATIVE:
        raise InvalidRequest(
            f"A percentage of {gate.metric} means nothing.",
            code="gate_against",
            why="It may be near zero, or has an upper end.",
            fix="Say it in its own unit: worse_by.",
        )
    if gate.output is not None and gate.metric in _OF_NO_OUTPUT:
        raise InvalidRequest(
            f"{gate.metric} is not measured for each output.",
            code="gate_without_output",
            why=f"The gate names the output {gate.output[:80]!r}.",
            fix="Leave output out of this gate.",
        )
    if gate.output is not None:
        _require_one_of(gate.output, outputs, "output")
    if gate.target is not None and gate.target not in spec.targets:
        raise InvalidRequest(
            f"A gate names {gate.target}, which the build does not build.",
            code="gate_target_unknown",
            fix=did_you_mean(str(gate.target), map(str, spec.targets)),
        )


def _require_measured(gate: Gate, spec: BuildSpec) -> None:
    """Refuse a gate on what the build does not ask for."""
    if gate.metric.of_model_file and spec.precision.stage is None:
        raise InvalidRequest(
            f"A gate looks at {gate.metric}, but the build asks for no precision.",
            code="gate_without_precision",
            why="The model file is measured where it is cast or calibrated.",
            fix=f"Ask for a precision, or look at the engine: {gate.metric.plain}.",
        )
    if gate.metric in OF_METRIC and spec.evaluation_metric is None:
        raise InvalidRequest(
            f"A gate looks at {gate.metric}, but the build has no evaluation_metric.",
            code="gate_without_metric",
            fix="Say which metric: evaluation_metric, or --metric on the command line.",
        )


def _require_possible(gate: Gate) -> None:
    """Refuse a bound that no engine can meet, before one is built in vain."""
    least, greatest, closed = _RANGES[gate.metric.plain]
    too_high = gate.at_least is not None and gate.at_least > greatest
    too_low = gate.at_most is not None and (
        gate.at_most < least or (gate.at_most == least and not closed)
    )
    if too_high or too_low:
        bound = f">= {gate.at_least}" if too_high else f"<= {gate.at_most}"
        start = f"is at least {least:g}" if closed else f"is above {least:g}"
        end = "" if greatest == _INFINITE else f" and at most {greatest:g}"
        raise InvalidRequest(
            f"No engine can meet the gate {gate.metric} {bound}.",
            code="gate_bounds",
            why=f"{gate.metric} {start}{end}.",
            fix="Give a bound that can be met.",
            metric=str(gate.metric),
        )


def _require_one_of(name: str, known: Sequence[str], what: str) -> None:
    if name not in known:
        raise InvalidRequest(
            f"The model has no {what} {name[:80]!r}.",
            code=f"unknown_{what}",
            fix=did_you_mean(name, known),
        )
