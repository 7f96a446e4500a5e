"""Whether a precision makes sense at all, before any node is asked. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from enginefarm.errors import InvalidRequest
from enginefarm.precision import (
    KIND_OPS,
    MAKERS,
    METHODS,
    TYPES,
    CalibrationMethod,
    Precision,
    PrecisionKind,
    PrecisionTool,
)
from enginefarm.preflight.tables import capabilities_of
from enginefarm.spec import BuildSpec
from enginefarm.target import Target

_OF_METHOD = ("method", "percentile", "per_channel", "block_size", "sensitivity")
_OF_ANY = ("tool", "op_types", "exclude", "calibration", "samples", "min_cosine", "on_slower")
_NO_KERNELS = frozenset(
    {(PrecisionKind.BF16, "onnxruntime@cpu"), (PrecisionKind.FP8, "onnxruntime@cpu")}
)
"""Targets that compute in no such type, though they may load it."""


def check_precision(spec: BuildSpec) -> None:
    """Refuse a precision that cannot be had as it is asked for, or on one of the targets.

    Raises:
        InvalidRequest: ``precision_option_unused``, ``precision_tool``, ``calibration_missing``,
            ``calibration_is_evaluation``, ``precision_method``, ``precision_operator``,
            ``precision_not_on_architecture``.
    """
    asked = spec.precision
    _check_tool(asked)
    _check_options(asked)
    if asked.kind is PrecisionKind.AS_IS:
        return
    if asked.needs_data and asked.calibration is None:
        raise InvalidRequest(
            f"{_wanted(asked)} is asked for, but no calibration data is given.",
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


def _check_tool(asked: Precision) -> None:
    """Refuse a tool that does not make the kind, and a method or operator that the tool lacks."""
    makers = MAKERS.get(asked.kind, ())
    if asked.maker is not None and asked.maker not in makers:
        raise InvalidRequest(
            f"{asked.tool} does not make {asked.kind}.",
            code="precision_tool",
            fix=f"Leave tool out, or name {_one_of(makers)}.",
        )
    methods = () if asked.maker is None else METHODS.get((asked.kind, asked.maker), ())
    if methods and asked.method is not None and asked.method not in methods:
        raise InvalidRequest(
            f"{asked.maker} has no method {asked.method} for {asked.kind}.",
            code="precision_method",
            fix=f"Leave method out, or name {_one_of(methods)}.",
        )
    able = KIND_OPS.get(asked.kind)
    beyond = [] if able is None else sorted(set(asked.op_types) - set(able))
    if able is not None and beyond:
        raise InvalidRequest(
            f"There is no {beyond[0]} in {asked.kind}.",
            code="precision_operator",
            why=f"{asked.maker} makes {', '.join(able)}.",
            fix="Name others in op_types, or leave it out.",
        )


def _one_of(names: Iterable[object]) -> str:
    return " or ".join(map(str, names))


def _wanted(asked: Precision) -> str:
    return f"{asked.kind} by {asked.method}" if asked.method is not None else str(asked.kind)


def _check_options(asked: Precision) -> None:
    given = asked.model_dump(mode="json")
    unused = [name for name in _OF_METHOD if name not in _heard(asked)]
    unused += list(_OF_ANY) if asked.kind is PrecisionKind.AS_IS else []
    for name in unused:
        if given[name] not in (None, []):
            raise InvalidRequest(
                f"precision.{name} is not used for {asked.kind}.",
                code="precision_option_unused",
                why=f"The precision is {asked.kind}{_how(asked)}.",
                fix=f"Leave {name} out, or ask for the precision that takes it.",
            )


def _heard(asked: Precision) -> set[str]:
    """Return the options of methods that the kind, the tool and the method listen to."""
    heard = set() if asked.chosen_method is None else {"method"}
    if asked.chosen_method is CalibrationMethod.PERCENTILE:
        heard.add("percentile")
    if heard and asked.maker is PrecisionTool.ONNXRUNTIME:
        heard.add("per_channel")
    special = {PrecisionKind.INT8: {"sensitivity"}, PrecisionKind.INT4: {"block_size"}}
    return heard | special.get(asked.kind, set())


def _how(asked: Precision) -> str:
    tool = f" by {asked.tool}" if asked.tool else ""
    return tool + (f", with the method {asked.method}" if asked.method else "")


def _check_target(kind: PrecisionKind, target: Target) -> None:
    able = capabilities_of(target.backend, None).types_by_arch.get(TYPES[kind])
    lacking = [arch for arch in target.archs if able is not None and arch not in able]
    if lacking or (kind, str(target.plain)) in _NO_KERNELS:
        raise InvalidRequest(
            f"{target} has no {kind}.",
            code="precision_not_on_architecture",
            why=f"{' and '.join(lacking) or 'It'} computes in no {TYPES[kind]}.",
            fix="Choose another precision for it, in a build of its own.",
            target=str(target),
        )
