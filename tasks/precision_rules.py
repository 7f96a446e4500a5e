"""Whether a precision makes sense at all, before any node is asked. Pure."""

from __future__ import annotations

from enginefarm.errors import InvalidRequest
from enginefarm.precision import TOOLS, TYPES, CalibrationMethod, Precision, PrecisionKind
from enginefarm.preflight.tables import capabilities_of
from enginefarm.spec import BuildSpec
from enginefarm.target import Target

_OF_INT8 = ("method", "percentile", "per_channel", "sensitivity")
_OF_ANY = ("tool", "op_types", "exclude", "calibration", "samples")
_NO_BF16 = frozenset({"onnxruntime@cpu"})
"""Targets without kernels in bf16."""


def check_precision(spec: BuildSpec) -> None:
    """Refuse a precision that cannot be had as it is asked for, or on one of the targets.

    Raises:
        InvalidRequest: ``precision_option_unused``, ``precision_tool``, ``calibration_missing``,
            ``calibration_is_evaluation``, ``precision_not_on_architecture``.
    """
    asked = spec.precision
    _check_options(asked)
    if asked.kind is PrecisionKind.AS_IS:
        return
    if asked.tool is not None and asked.tool is not TOOLS[asked.kind]:
        raise InvalidRequest(
            f"{asked.tool} does not make {asked.kind}.",
            code="precision_tool",
            fix=f"Leave tool out, or name {TOOLS[asked.kind]}.",
        )
    if asked.kind is PrecisionKind.INT8 and asked.calibration is None:
        raise InvalidRequest(
            "int8 is asked for, but no calibration data is given.",
            code="calibration_missing",
            why="Ranges come from real inputs; the farm never makes them up.",
            fix="Upload samples of what the engine will see, and give their digest as"
            " precision.calibration.",
        )
    if asked.calibration is not None and asked.calibration == spec.evaluation:
        raise InvalidRequest(
            "The same dataset is given for calibration and for evaluation.",
            code="calibration_is_evaluation",
            why="On the samples that ranges were taken from a model looks better than it is.",
            fix="Split the dataset, and evaluate on samples that the calibration has not seen.",
        )
    for target in spec.targets:
        _check_target(asked.kind, target)


def _check_options(asked: Precision) -> None:
    given = asked.model_dump(mode="json")
    unused = [] if asked.kind is PrecisionKind.INT8 else list(_OF_INT8)
    unused += list(_OF_ANY) if asked.kind is PrecisionKind.AS_IS else []
    if asked.method is not None and asked.method is not CalibrationMethod.PERCENTILE:
        unused.append("percentile")
    for name in unused:
        if given[name] not in (None, []):
            raise InvalidRequest(
                f"precision.{name} is not used for {asked.kind}.",
                code="precision_option_unused",
                why=f"The precision is {asked.kind}"
                + (f", with the method {asked.method}." if asked.method else "."),
                fix=f"Leave {name} out, or ask for the precision that takes it.",
            )


def _check_target(kind: PrecisionKind, target: Target) -> None:
    able = capabilities_of(target.backend, None).types_by_arch.get(TYPES[kind])
    lacking = able is not None and target.arch not in able
    if lacking or (kind is PrecisionKind.BF16 and str(target) in _NO_BF16):
        raise InvalidRequest(
            f"{target} has no {kind}.",
            code="precision_not_on_architecture",
            why=f"It takes no {TYPES[kind]}.",
            fix="Choose another precision for it, in a build of its own.",
            target=str(target),
        )
