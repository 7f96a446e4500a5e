"""Turn a validation error into one of ours: where it is, what is wrong, and the nearest name."""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, JsonValue, ValidationError

from enginefarm import spec
from enginefarm.errors import InvalidRequest
from enginefarm.gate_direction import require_direction
from enginefarm.gate_words import no_metric
from enginefarm.nearest import did_you_mean
from enginefarm.spec import BuildSpec

_SHOWN = 10
_UNIONS = (typing.Union, types.UnionType)
_BOUNDS = {"le": "of at most", "lt": "below", "ge": "of at least", "gt": "above"}
_QUOTED = re.compile(r"'([^']*)'")


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> InvalidRequest:
    """Return the error that people read, for a body that does not fit ``model``.

    Without ``model`` it is the class of ``enginefarm.spec`` that the error names.
    """
    known = model or getattr(spec, error.title, None)
    return explain_rows(error.errors(include_url=False), known)


def valid_spec(asked: Mapping[str, JsonValue]) -> BuildSpec:
    """Read a body.

    Raises:
        InvalidRequest: it does not fit; the error names the field. A gate in the wrong direction is
            ``gate_direction``.
    """
    try:
        read = BuildSpec.model_validate(asked)
    except ValidationError as error:
        raise explain(error, BuildSpec) from error
    for gate in read.gates:
        require_direction(gate)
    return read


def explain_rows(
    rows: Sequence[Mapping[str, Any]], model: type[BaseModel] | None = None
) -> InvalidRequest:
    """As :func:`explain`, from the rows of a pydantic or FastAPI error.

    A misspelt field is told first: it often is why another is missing.
    """
    first = min(rows, key=lambda row: row["type"] != "extra_forbidden")
    loc = [part for part in first["loc"] if part != "body"]
    said: list[JsonValue] = [
        {"field": _path(row["loc"]), "problem": _plain(row["msg"])} for row in rows[:_SHOWN]
    ]
    if first["type"] == "extra_forbidden":
        return InvalidRequest(
            f"There is no field {_path(loc)!r}.",
            code="unknown_field",
            fix=_nearest_field(str(loc[-1]), _type_at(model, loc[:-1])),
            errors=said,
        )
    if first["type"] == "missing":
        return InvalidRequest(
            f"The field {_path(loc)!r} is missing.",
            code="missing_field",
            fix="Add it; /openapi.json says what it is.",
            errors=said,
        )
    what = f"field {_path(loc)!r}" if loc else "body"
    why, fix = _why(loc, first)
    return InvalidRequest(
        f"The {what} cannot be right.", code="invalid_field", why=why, fix=fix, errors=said
    )


def _why(loc: Sequence[Any], row: Mapping[str, Any]) -> tuple[str, str]:
    """Say what is wrong with a value, and what to write instead."""
    told = no_metric(str(row.get("input"))[:80]) if loc[-1:] == ["metric"] else None
    if told is not None:
        return told
    given = _given(row)
    fix = "Write the number itself, without quotes." if given else _nearest_value(row)
    return f"{_plain(row['msg'])}{given}.", fix


def _nearest_field(name: str, here: object) -> str:
    if _is_model(here):
        return did_you_mean(name, here.model_fields)
    return "Leave it out."


def _nearest_value(row: Mapping[str, Any]) -> str:
    """Name the nearest of a few allowed values, where that is what the field wants."""
    context = row.get("ctx", {})
    for bound, words in _BOUNDS.items():
        if bound in context:
            return f"Give a number {words} {context[bound]}."
    allowed = _QUOTED.findall(str(context.get("expected", "")))
    given = row.get("input")
    if allowed and isinstance(given, str):
        return did_you_mean(given[:80], allowed)
    return "Mend it; /openapi.json says what it may be."


def _given(row: Mapping[str, Any]) -> str:
    """Say what stands where a number belongs: true and "3" look like one to many a program."""
    value = row.get("input")
    if row["type"] not in {"int_type", "float_type"} or not isinstance(value, bool | int | str):
        return ""
    return f", and this is {json.dumps(value)[:80]}"


def _plain(message: str) -> str:
    text = str(message).removeprefix("Value error, ").rstrip(".")
    return f"{text[:1].upper()}{text[1:]}"


def _path(loc: Sequence[Any]) -> str:
    text = ""
    for part in (part for part in loc if part != "body"):
        shown = str(part)[:80]
        text += f"[{part}]" if isinstance(part, int) else f".{shown}" if text else shown
    return text or "body"


def _type_at(model: object, loc: Sequence[Any]) -> object:
    """Return the type of what is at a place of a model, as far as its annotations tell."""
    here = model
    for part in loc:
        here = _step(_bare(here), part)
    return _bare(here)


def _step(here: object, part: object) -> object:
    if _is_model(here):
        field = here.model_fields.get(str(part))
        return field.annotation if field is not None else None
    arguments = typing.get_args(here)
    if typing.get_origin(here) is dict:
        return arguments[1]
    return arguments[0] if arguments else None


def _bare(kind: object) -> object:
    """Return a type without its annotations and without the None beside it."""
    while True:
        origin = typing.get_origin(kind)
        if origin is typing.Annotated:
            kind = typing.get_args(kind)[0]
        elif origin in _UNIONS:
            kind = next(each for each in typing.get_args(kind) if each is not type(None))
        else:
            return kind


def _is_model(value: object) -> typing.TypeGuard[type[BaseModel]]:
    return isinstance(value, type) and issubclass(value, BaseModel)
