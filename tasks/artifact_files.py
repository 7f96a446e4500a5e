"""The files of an artifact that nodes have made: its engine, and what else jobs have left of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from enginefarm.errors import JobFailed, VerificationFailed
from enginefarm.manifest import RUNTIME_CACHE, TITLE, Descriptor, Manifest, read_manifest
from enginefarm.runtime_cache import RuntimeCacheReport
from enginefarm.state import Blame
from storage.models import Job
from tasks.results import engine_of, layers_of, runtime_cache_of


def engine_file(compiled: Job) -> Descriptor:
    """Return the engine of a compile job.

    Raises:
        JobFailed: there is none (code ``engine_missing``).
    """
    row = engine_of(compiled.result)
    if row is None:
        raise JobFailed("There is no engine to publish.", blame=Blame.FARM, code="engine_missing")
    return _descriptor(row)


def layer_files(compiled: Job) -> list[Descriptor]:
    """Return the file in which an engine tells of its layers, if it told anything."""
    row = layers_of(compiled.result)
    return [] if row is None else [_descriptor(row)]


def cache_files(measured: Iterable[Job]) -> list[Descriptor]:
    """Return the runtime caches that benchmarks have left, each saying what it is for."""
    found = []
    for job in measured:
        row, told = runtime_cache_of(job.result), cache_report(job.result)
        if row is not None and told is not None:
            found.append(_descriptor(row, {RUNTIME_CACHE: told.made_for.annotation}))
    return found


def cache_report(result: dict[str, Any] | None) -> RuntimeCacheReport | None:
    """Return what a benchmark says of the runtime cache that it has left, if it left one."""
    told = (result or {}).get("facts", {}).get("runtime_cache")
    return None if told is None else RuntimeCacheReport.model_validate(told)


def require_readable(manifest: Manifest) -> None:
    """Refuse to sign what every reader refuses; names and annotations in it are nodes' words.

    Raises:
        JobFailed: the node's fault (code ``result_invalid``).
    """
    try:
        read_manifest(manifest.render())
    except VerificationFailed as error:
        raise JobFailed(
            "Nobody could read the manifest over what the nodes have made.",
            blame=Blame.NODE,
            code="result_invalid",
            why=error.why,
            fix="Bring the nodes to the farm's version, and submit the build again.",
        ) from error


def _descriptor(row: Mapping[str, Any], more: Mapping[str, str] | None = None) -> Descriptor:
    return Descriptor(
        media_type=row["media_type"],
        digest=row["digest"],
        size=row["size"],
        annotations={TITLE: row["name"], **(more or {})},
    )
