"""What a node says a stage found: read strictly before anything is built upon it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from enginefarm.digest import canonical_json, digest_of
from enginefarm.errors import JobFailed
from enginefarm.finding import Finding
from enginefarm.manifest import ENGINE_TYPES, LAYERS_TYPE, RUNTIME_CACHE_TYPE, safe_file_name
from enginefarm.precision_report import PrecisionReport
from enginefarm.repair_report import Outcome, RepairReport
from enginefarm.report import AccuracyReport, CompileReport, LatencyReport, Machine
from enginefarm.runtime_cache import RuntimeCacheReport, file_name, is_cache_name
from enginefarm.state import PRECISION_STAGES, Blame, Stage
from enginefarm.target import Target
from enginefarm.verdict_report import PairedRuns
from enginefarm.views import TensorView
from tasks.place import require_place
from tasks.recipe import Made

ENGINE_ROLE = "engine"
LAYERS_ROLE, LAYERS_FILE = "layers", "layers.json"
CACHE_ROLE = "runtime-cache"
MODEL_ROLE, MODEL_FILE = "model", "model.onnx"
MODEL_ROLES = frozenset({MODEL_ROLE, "external-data"})
RESERVED_NAMES = frozenset(
    {"manifest.json", "config.json", "report.json", "report.html", "provenance.sigstore.json"}
)
"""Files that every artifact, or every folder it is installed in, has already."""


_FINDINGS: TypeAdapter[list[Finding]] = TypeAdapter(list[Finding])


class _CompileFacts(BaseModel):
    model_config = ConfigDict(extra="ignore")

    compile: CompileReport
    versions: dict[str, str] = {}


class _BenchmarkFacts(BaseModel):
    model_config = ConfigDict(extra="ignore")

    latency: list[LatencyReport]
    accuracy: AccuracyReport | None
    accuracy_reason: str | None = None
    comparison: list[PairedRuns] = []
    comparison_reason: str | None = None
    runtime_cache: RuntimeCacheReport | None = None
    versions: dict[str, str] = {}


class _Interface(BaseModel):
    model_config = ConfigDict(extra="forbid")

    inputs: list[TensorView]
    outputs: list[TensorView]


class _RepairFacts(BaseModel):
    model_config = ConfigDict(extra="ignore")

    repair: RepairReport
    interface: _Interface | None = None
    versions: dict[str, str] = {}


class _PrecisionFacts(BaseModel):
    model_config = ConfigDict(extra="ignore")

    precision: PrecisionReport
    interface: _Interface
    versions: dict[str, str] = {}


_MACHINE: TypeAdapter[Machine | None] = TypeAdapter(Machine | None)


def engine_of(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the engine among a compile job's outputs."""
    return _output_of(result, ENGINE_ROLE)


def begun_with_timings(result: dict[str, Any] | None) -> bool:
    """Tell whether a build had the timings that it was given; nodes did not always tell."""
    told = (result or {}).get("facts", {}).get("compile", {}).get("timings")
    return told is None or bool(told["begun_with"])


def layers_of(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the file in which an engine tells of its layers, if it told anything."""
    return _output_of(result, LAYERS_ROLE)


def runtime_cache_of(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the runtime cache that a benchmark has left, if it left one."""
    return _output_of(result, CACHE_ROLE)


def _output_of(result: dict[str, Any] | None, role: str) -> dict[str, Any] | None:
    outputs = (result or {}).get("outputs", [])
    row = next((row for row in outputs if row["role"] == role), None)
    if row is None:
        return None
    return {name: row[name] for name in ("name", "digest", "size", "media_type")}


def model_of(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the model that a stage has written, with its digest, if it has written one."""
    outputs = (result or {}).get("outputs", [])
    rows = [row for row in outputs if row["role"] in MODEL_ROLES]
    if not any(row["role"] == MODEL_ROLE for row in rows):
        return None
    files = [
        {name: row[name] for name in ("digest", "name", "size")}
        for row in sorted(rows, key=lambda row: str(row["name"]))
    ]
    # As the digest of a model that a person sends: the same files are the same model.
    return {"digest": digest_of(canonical_json({"files": files})), "files": files}


def interface_of(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the inputs and outputs of the model that a stage has written, as its node saw them."""
    told = (result or {}).get("facts", {}).get("interface")
    return None if told is None or model_of(result) is None else dict(told)


def input_names(result: dict[str, Any] | None) -> tuple[str, ...] | None:
    """Return the names of the inputs of the model that a stage has written."""
    told = interface_of(result)
    return None if told is None else tuple(row["name"] for row in told["inputs"])


def repairs_of(result: dict[str, Any] | None) -> list[str]:
    """Return the names of the passes that changed the model, if the job repaired one."""
    told = (result or {}).get("facts", {}).get("repair")
    return [] if told is None else [row.name for row in RepairReport.model_validate(told).applied]


def repairs_left_of(result: dict[str, Any] | None) -> list[str]:
    """Return the passes that would have been of use and were undone or not done, with why."""
    told = (result or {}).get("facts", {}).get("repair")
    rows = [] if told is None else RepairReport.model_validate(told).passes
    left = {Outcome.UNDONE, Outcome.NOT_APPLIED}
    return [f"{row.name}: {row.why}" for row in rows if row.outcome in left]


def findings_of(result: dict[str, Any] | None, failure: dict[str, Any] | None) -> list[Finding]:
    """Return what a check found, whether it let the build go on or not."""
    told = (result or {}).get("facts") or (failure or {}).get("context") or {}
    try:
        return _FINDINGS.validate_python(told.get("findings") or [])
    except ValidationError:
        return []  # written by a node of another version; its failure is there as it came


@dataclass(frozen=True)
class Done:
    """A stage that has succeeded: its key, and what it made."""

    key: str
    result: dict[str, Any]


def made_of(done: Mapping[Stage, Done], twin: Done | None = None) -> Made:
    """Return what the stages of one target that have succeeded have made.

    Whichever stage writes a model, the newest is what the next one gets. ``twin`` is the compile of
    the engine that this one is held against.
    """
    keys = {stage: row.key for stage, row in done.items()}
    writers = [done[stage] for stage in Stage if stage in done and model_of(done[stage].result)]
    newest = writers[-1].result if writers else None
    return Made(
        model=model_of(newest),
        inputs=input_names(newest),
        repair_key=keys.get(Stage.REPAIR),
        precision_key=next((keys[stage] for stage in PRECISION_STAGES if stage in keys), None),
        engine=engine_of(done[Stage.COMPILE].result) if Stage.COMPILE in done else None,
        compile_key=keys.get(Stage.COMPILE),
        benchmark_key=keys.get(Stage.BENCHMARK),
        twin=None if twin is None else engine_of(twin.result),
        twin_key=None if twin is None else twin.key,
    )


def check_result(
    stage: Stage, target: Target, result: dict[str, Any], sku: str | None = None
) -> None:
    """Refuse a result that the next stages could not use; ``sku`` was to be measured on.

    Raises:
        JobFailed: the node's fault (code ``result_invalid``).
    """
    try:
        names = [safe_file_name(row["name"]) for row in result["outputs"]]
        _require(len(set(names)) == len(names), "two outputs have the same name")
        reserved = RESERVED_NAMES & {name.lower() for name in names}
        _require(not reserved, f"an output is called {min(reserved, default='')}")
        machine = _MACHINE.validate_python(result["machine"])
        require_place(machine, stage, target, sku)
        if stage is Stage.REPAIR:
            _check_repair(result)
        elif stage in PRECISION_STAGES:
            _check_precision(result)
        elif stage is Stage.COMPILE:
            _check_engine(target, result)
        elif stage is Stage.BENCHMARK:
            _check_benchmark(target, result, machine)
    except (KeyError, TypeError, ValueError) as error:
        raise JobFailed(
            f"What the node says of its {stage} cannot be used.",
            blame=Blame.NODE,
            code="result_invalid",
            why=_first_line(error),
            fix="Bring the node to the farm's version.",
        ) from error


def _models_in(result: dict[str, Any]) -> int:
    """Count the models among a job's outputs: none or one, under its own name."""
    names = [row["name"] for row in result["outputs"] if row["role"] == MODEL_ROLE]
    _require(len(names) <= 1, f"{len(names)} models were uploaded instead of one")
    _require(names in ([], [MODEL_FILE]), f"the model is not called {MODEL_FILE}")
    return len(names)


def _check_precision(result: dict[str, Any]) -> None:
    facts = _PrecisionFacts.model_validate(result["facts"])
    _require(_models_in(result) == 1, "no model was uploaded")
    _require(facts.precision.changed > 0, "the model was not changed")
    told = facts.precision.model_accuracy is not None or facts.precision.model_accuracy_reason
    _require(bool(told), "the model's accuracy is absent without a reason")


def _check_repair(result: dict[str, Any]) -> None:
    facts = _RepairFacts.model_validate(result["facts"])
    written = _models_in(result)
    _require((written == 1) is facts.repair.changed, "the report and the files tell two stories")
    _require((written == 1) is (facts.interface is not None), "the interface is not as the files")


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
    _require(not is_cache_name(engine["name"]), "the engine is called like a runtime cache")
    _check_layers(result)


def _check_layers(result: dict[str, Any]) -> None:
    told = [row for row in result["outputs"] if row["role"] != ENGINE_ROLE]
    _require(len(told) <= 1, f"{len(told)} files were uploaded beside the engine")
    for row in told:
        _require(row["role"] == LAYERS_ROLE, f"a compile job makes no {row['role']}")
        _require(row["name"] == LAYERS_FILE, f"the list of layers is not called {LAYERS_FILE}")
        _require(row["media_type"] == LAYERS_TYPE, f"the list of layers is no {LAYERS_TYPE}")


def _check_benchmark(target: Target, result: dict[str, Any], machine: Machine | None) -> None:
    facts = _BenchmarkFacts.model_validate(result["facts"])
    _require(bool(facts.latency), "no latency was measured")
    told = facts.accuracy is not None or bool(facts.accuracy_reason)
    _require(told, "accuracy is absent without a reason")
    left, cache = result["outputs"], facts.runtime_cache
    _require(len(left) == (cache is not None), "the files and what is told of them differ")
    if cache is not None:
        made, (row,) = cache.made_for, left
        here = (machine.device, machine.driver) if machine is not None else None
        _require(target.backend == "tensorrt-rtx", f"{target.backend} leaves no runtime cache")
        _require((row["role"], row["media_type"]) == (CACHE_ROLE, RUNTIME_CACHE_TYPE), "no cache")
        _require(row["name"] == file_name(made.gpu), "the runtime cache has another name")
        _require(row["size"] == cache.size, "the runtime cache has another size")
        _require(here == (made.gpu, made.driver), "the runtime cache is for another machine")


def _require(holds: bool, message: str) -> None:  # noqa: FBT001 - reads as an assertion
    if not holds:
        raise ValueError(message)


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        return f"{place}: {first['msg']}."
    return f"{type(error).__name__}: {error}."
