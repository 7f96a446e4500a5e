"""Runtime caches of TensorRT-RTX: which machine one is for. Pure.

TensorRT-RTX compiles an engine's kernels on the GPU, the first time that it is started there. What
this leaves is code for one version of it, one kind of GPU and system, and this major version of the
driver, as old as here or newer: anything else its runtime refuses, and compiles again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from enginefarm.digest import canonical_json
from enginefarm.manifest import RUNTIME_CACHE, Descriptor
from enginefarm.sku import sku_of

Milliseconds = Annotated[float, Field(ge=0)]
Name = Annotated[str, StringConstraints(max_length=200)]
Number = Annotated[str, StringConstraints(max_length=64)]
"""Of a version; a manifest has them as an annotation, and is bounded as a whole."""
SYSTEM = "linux"
"""The family of systems that nodes run."""
_MOST_DIGITS = 64


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class MadeFor(_Data):
    """What must be as it was where a cache was made."""

    version: Number = Field(description="Of TensorRT-RTX, in full.")
    gpu: Name = Field(description="The driver's name of the GPU.")
    driver: Number = Field(description="The same major version, as old or newer.")
    system: Number = SYSTEM

    @property
    def annotation(self) -> str:
        """The text that a manifest has of it."""
        return canonical_json(self.model_dump()).decode()


class RuntimeCacheReport(_Data):
    """A cache that a measurement has left, and what it is worth at the first start."""

    made_for: MadeFor
    size: Annotated[int, Field(gt=0)]
    first_start_ms: Milliseconds = Field(description="From the file to the first answer, without.")
    with_cache_ms: Milliseconds | None = Field(
        default=None, description="The same, with the cache; absent: the runtime did not take it."
    )


def first_start(report: RuntimeCacheReport) -> str:
    """Say what a cache is worth."""
    took = report.with_cache_ms
    saved = (
        "its runtime did not take the cache" if took is None else f"{took:.0f} ms with the cache"
    )
    return f"first start on {report.made_for.gpu}: {report.first_start_ms:.0f} ms, {saved}"


class Place(_Data):
    """A machine that an engine is to run on, as far as it is known."""

    gpus: tuple[str, ...] = ()
    driver: str = ""
    system: str = SYSTEM


def file_name(gpu: str) -> str:
    """Return the name of a cache's file beside its engine."""
    return f"runtime-{sku_of(gpu)}.cache"


def is_cache_name(name: str) -> bool:
    """Tell whether only a runtime cache may be called so, in a folder of either kind of case."""
    return name.lower().startswith("runtime-") and name.lower().endswith(".cache")


def is_cache(file: Descriptor) -> bool:
    """Tell whether a file of an artifact is a runtime cache, without which the engine runs, too."""
    return RUNTIME_CACHE in file.annotations


def misfit(file: Descriptor, place: Place) -> str | None:
    """Say why a cache is of no use in a place; None if it is."""
    try:
        made = MadeFor.model_validate_json(file.annotations[RUNTIME_CACHE])
    except ValidationError:
        return "it does not say what it is for"
    if made.system != place.system:
        return f"it is for {made.system}"
    if made.gpu not in place.gpus and sku_of(made.gpu) not in map(sku_of, place.gpus):
        return f"it is for {made.gpu}; here is {', '.join(place.gpus) or 'no GPU that is known'}"
    here, there = _numbers(place.driver), _numbers(made.driver)
    if not here or not there or here[0] != there[0] or here < there:
        return f"it is for driver {made.driver} or newer of the same major version; here is " + (
            place.driver or "one that is not known"
        )
    return None


def none_of_use(files: Iterable[Descriptor], place: Place) -> str | None:
    """Say why an artifact has no cache that is of use in a place; None if it has one."""
    found = {row.name: misfit(row, place) for row in files if is_cache(row)}
    if not found:
        return "the artifact has none"
    if None in found.values():
        return None
    return "; ".join(f"{name}: {why}" for name, why in found.items())


def _is_number(part: str) -> bool:
    return part.isdecimal() and len(part) <= _MOST_DIGITS


def _numbers(version: str) -> list[int]:
    parts = version.split(".")
    return [int(part) for part in parts] if all(_is_number(part) for part in parts) else []
