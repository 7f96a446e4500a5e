"""What a node says a stage found: read strictly before anything is built upon it. Pure."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from enginefarm.errors import JobFailed
from enginefarm.manifest import ENGINE_TYPES, safe_file_name
from enginefarm.report import AccuracyReport, CompileReport, LatencyReport, Machine
from enginefarm.state import Blame, Stage
from enginefarm.target import Target

ENGINE_ROLE = "engine"
RESERVED_NAMES = frozenset(
    {"manifest.json", "config.json", "report.json", "provenance.sigstore.json"}
)
"""Files that every artifact, or every folder it is installed in, has already."""


class _CompileFacts(BaseModel):
    model_config = ConfigDict(extra="ignore")

    compile: CompileReport
    versions: dict[str, str] = {}


class _BenchmarkFacts(BaseModel):
    model_config = ConfigDict(extra="ignore")

    latency: list[LatencyReport]
    accuracy: AccuracyReport | None
    versions: dict[str, str] = {}


_MACHINE: TypeAdapter[Machine | None] = TypeAdapter(Machine | None)


def engine_of(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the engine among a compile job's outputs."""
    outputs = (result or {}).get("outputs", [])
    row = next((row for row in outputs if row["role"] == ENGINE_ROLE), None)
    if row is None:
        return None
    return {name: row[name] for name in ("name", "digest", "size", "media_type")}


def check_result(stage: Stage, target: Target, result: dict[str, Any]) -> None:
    """Refuse a result that the next stages could not use.

    Raises:
        JobFailed: the node's fault (code ``result_invalid``).
    """
    try:
        names = [safe_file_name(row["name"]) for row in result["outputs"]]
        _require(len(set(names)) == len(names), "two outputs have the same name")
        reserved = RESERVED_NAMES & {name.lower() for name in names}
        _require(not reserved, f"an output is called {min(reserved, default='')}")
        _MACHINE.validate_python(result["machine"])
        if stage is Stage.COMPILE:
            _check_engine(target, result)
        elif stage is Stage.BENCHMARK:
            facts = _BenchmarkFacts.model_validate(result["facts"])
            _require(bool(facts.latency), "no latency was measured")
    except (KeyError, TypeError, ValueError) as error:
        raise JobFailed(
            f"What the node says of its {stage} cannot be used.",
            blame=Blame.NODE,
            code="result_invalid",
            why=_first_line(error),
            fix="Bring the node to the farm's version.",
        ) from error


def check_storable(value: object) -> None:
    """Refuse what the database cannot keep as JSON: NaN, infinities, NUL characters.

    Raises:
        ValueError: says which it is.
    """
    json.dumps(value, allow_nan=False)
    _require_text(value)


def _require_text(value: object) -> None:
    if isinstance(value, str):
        _require("\0" not in value, "text contains a NUL character")
        value.encode()  # refuses half of a surrogate pair
    elif isinstance(value, dict):
        for key, part in value.items():
            _require_text(key)
            _require_text(part)
    elif isinstance(value, list | tuple):
        for part in value:
            _require_text(part)


def _check_engine(target: Target, result: dict[str, Any]) -> None:
    facts = _CompileFacts.model_validate(result["facts"])
    engines = [row for row in result["outputs"] if row["role"] == ENGINE_ROLE]
    _require(len(engines) == 1, f"{len(engines)} engines were uploaded instead of one")
    engine = engines[0]
    wanted = ENGINE_TYPES[target.backend]
    _require(engine["media_type"] == wanted, f"the engine is no {wanted}")
    _require(
        engine["size"] == facts.compile.engine_bytes,
        f"the engine has {engine['size']} bytes, the report says {facts.compile.engine_bytes}",
    )


def _require(holds: bool, message: str) -> None:  # noqa: FBT001 - reads as an assertion
    if not holds:
        raise ValueError(message)


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        return f"{place}: {first['msg']}."
    return f"{type(error).__name__}: {error}."
