"""Make an instance of any class of data, with every field filled or with only those it needs."""

from __future__ import annotations

import re
import types
import typing
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

from pydantic import BaseModel, JsonValue

from enginefarm import comparison_report, precision, report, spec
from enginefarm.target import Target

Data = TypeVar("Data", bound=BaseModel)
TEXTS = ("text «é»\n", "name", f"sha256:{'0' * 64}", "text/plain", "c" * 43)
PLAIN: dict[object, object] = {
    bool: True,
    bytes: b"bytes",
    datetime: datetime(2026, 11, 30, 12, 0, 0, 250_000, tzinfo=UTC),
    float: 0.1,
    int: 11,
    str: TEXTS[0],
    Target: "tensorrt-rtx@sm_89",
    Any: "anything",
    JsonValue: {"any": [1, None, 0.5, "«é»"]},
}
# Fields whose bounds exclude the plain value.
CHOSEN: dict[object, dict[str, object]] = {
    spec.CompileOptions: {"optimization_level": 3, "build_route": "-knob=on"},
    spec.BenchmarkOptions: {"max_duration_ms": 2000},
    precision.Precision: {"percentile": 99.9, "block_size": 32},
    spec.BuildSpec: {"priority": 1, "until": "check", "measure_on": ["l4"]},
    spec.Gate: {"against": None, "worse_by": None, "worse_by_percent": None},
}
NEEDED: dict[object, dict[str, object]] = {
    comparison_report.SideRuns: {"runs_ms": [0.1, 0.2]},
    report.Histogram: {"edges": [0.1, 0.2], "counts": [11]},
    spec.Gate: {"at_least": 0.99},
    spec.FixedInput: {"value": 16000, "shape": [1]},
    spec.SyntheticInput: {"low": -1.0, "high": 1.0, "value": None},
}


def filled(kind: type[Data], *, optional: bool) -> Data:
    """Return an instance; with ``optional``, what may be absent is there as well."""
    return kind.model_validate(_fields(kind, optional=optional))


def _fields(kind: type[BaseModel], *, optional: bool) -> dict[str, Any]:
    chosen = NEEDED.get(kind, {}) | (CHOSEN.get(kind, {}) if optional else {})
    hints = typing.get_type_hints(kind, include_extras=True)
    made = {
        name: chosen[name] if name in chosen else _value(hints[name], optional=optional)
        for name, field in kind.model_fields.items()
        if optional or field.is_required() or name in chosen
    }
    return {kind.model_fields[name].alias or name: value for name, value in made.items()}


def _value(kind: Any, *, optional: bool) -> Any:  # noqa: ANN401, PLR0911 - a value of any field
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if origin is typing.Annotated:
        return _matching(inner) if inner[0] is str else _value(inner[0], optional=optional)
    if origin in {typing.Union, types.UnionType}:
        absent = not optional and type(None) in inner
        return None if absent else _value(inner[0], optional=optional)
    if origin is tuple:
        return [_value(inner[0], optional=optional)]
    if origin in {list, dict}:
        made = [_value(each, optional=optional) for each in inner]
        return made if origin is list else dict([made])
    if issubclass(kind, Enum):
        return next(iter(kind)).value
    return _fields(kind, optional=optional)


def _matching(annotated: tuple[Any, ...]) -> str:
    """Return a text that all patterns of an annotated ``str`` match."""
    patterns = [getattr(each, "pattern", None) for each in annotated[1:]]
    return next(
        text
        for text in TEXTS
        if all(re.fullmatch(pattern, text) for pattern in patterns if pattern is not None)
    )
