"""Turn a validation error into one of ours: where it is, what is wrong, and the nearest name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, JsonValue, ValidationError

from enginefarm.errors import InvalidRequest
from enginefarm.nearest import did_you_mean

_SHOWN = 10


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> InvalidRequest:
    """Return the error that people read; ``model`` helps to name the nearest field."""
    return explain_rows(error.errors(include_url=False), model)


def explain_rows(
    rows: Sequence[Mapping[str, Any]], model: type[BaseModel] | None = None
) -> InvalidRequest:
    """As :func:`explain`, from the rows of a pydantic or FastAPI error."""
    first = rows[0]
    path = _path(first["loc"])
    said: list[JsonValue] = [
        {"field": _path(row["loc"]), "problem": str(row["msg"])} for row in rows[:_SHOWN]
    ]
    if first["type"] == "extra_forbidden":
        name = str(first["loc"][-1])
        known = _fields_at(model, first["loc"][:-1])
        return InvalidRequest(
            f"There is no field {path!r}.",
            code="unknown_field",
            fix=did_you_mean(name, known) if known else "Remove it.",
            errors=said,
        )
    return InvalidRequest(
        f"Field {path!r} cannot be right: {_sentence(str(first['msg']))}",
        code="missing_field" if first["type"] == "missing" else "invalid_field",
        fix="See the schema under /openapi.json.",
        errors=said,
    )


def _sentence(message: str) -> str:
    text = message.removeprefix("Value error, ").rstrip(".")
    return f"{text[:1].lower()}{text[1:]}."


def _path(loc: Sequence[Any]) -> str:
    parts = [part for part in loc if part != "body"]
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "body"


def _fields_at(model: type[BaseModel] | None, loc: Sequence[Any]) -> list[str]:
    """Return the fields of the object at a place of a model, as far as its types tell."""
    here: Any = model
    for part in loc:
        if part == "body" or here is None:
            continue
        if isinstance(part, int):
            continue  # an element of a list: its type was unwrapped with the field
        row = here.model_fields.get(part) if _is_model(here) else None
        here = _model_in(row.annotation) if row is not None else None
    return sorted(here.model_fields) if _is_model(here) else []


def _model_in(annotation: Any) -> Any:  # noqa: ANN401 - a type expression
    if _is_model(annotation):
        return annotation
    inner = getattr(annotation, "__args__", ())
    return next((found for found in map(_model_in, inner) if found is not None), None)


def _is_model(value: Any) -> bool:  # noqa: ANN401 - a type expression
    return isinstance(value, type) and issubclass(value, BaseModel)
