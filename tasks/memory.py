"""What memory a job will take, as measured on jobs like it, and which nodes have that much. Pure.

A measurement says something of a job of the same model, target, version and options. At the same
sizes it says what suffices; at smaller ones what is needed at least; at larger ones nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from enginefarm.digest import canonical_json, digest_of
from enginefarm.errors import NotServed
from enginefarm.portable import in_options
from enginefarm.precision import PrecisionKind
from enginefarm.repairs import passes_for
from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from enginefarm.target import Target
from tasks.messages import NodeDescription
from tasks.routing import serves

MIB = 1 << 20
Sizes = list[dict[str, list[int]]]
"""The largest shape of each input, profile by profile."""
_NO_MATTER = {
    *("targets", "profiles", "gates", "seed", "priority", "labels", "wait_for_node", "limits"),
    *("until", "measure_on"),
}
_OF_MEASURING = {"evaluation"}
_OF_VERDICTS = {"min_cosine", "on_slower"}


@dataclass(frozen=True)
class Measured:
    """One measurement. ``enough``: a job succeeded with it; else one failed that needed as much."""

    peak_bytes: int
    sizes: Sizes
    enough: bool
    build_id: str


@dataclass(frozen=True)
class Known:
    """The memory that a job needs. ``enough``: it suffices, too; else it is the least."""

    peak_bytes: int
    enough: bool
    build_id: str

    @property
    def words(self) -> str:
        """Say the number and where it is from."""
        least = "" if self.enough else "at least "
        return f"{least}{mib(self.peak_bytes)}, measured in build {self.build_id}"


def likeness(stage: Stage, spec: BuildSpec, target: Target, version: str) -> str:
    """Return the digest of all of a build, but for sizes, that the memory of a stage depends on.

    It is of the whole of what was asked for, less what is known to have no influence: so an option
    that is added later makes builds unlike instead of being overlooked.
    """
    spec, target = in_options(spec, target)
    asked = spec.model_dump(mode="json", exclude=_NO_MATTER)
    asked["precision"] = {
        name: value for name, value in asked["precision"].items() if name not in _OF_VERDICTS
    }
    if stage is not Stage.BENCHMARK:
        asked["options"].pop("benchmark")
        asked = {name: value for name, value in asked.items() if name not in _OF_MEASURING}
    passes = passes_for(
        target.backend,
        spec.options.repair,
        precise=spec.precision.kind is not PrecisionKind.AS_IS,
    )
    return digest_of(
        canonical_json(
            {
                "stage": str(stage),
                "target": str(target),
                "backend_version": version,
                "passes": [row.model_dump(mode="json") for row in passes],
                "asked": asked,
            }
        )
    )


def sizes_of(spec: BuildSpec) -> Sizes:
    """Return the largest shapes of a build's profiles."""
    return [{name: list(row.max) for name, row in profile.items()} for profile in spec.profiles]


def within(some: Sizes, others: Sizes) -> bool:
    """Tell whether each profile of ``some`` has a profile in ``others`` that is nowhere smaller."""
    return len(some) <= len(others) and all(
        any(_is_within(profile, other) for other in others) for profile in some
    )


def _is_within(profile: dict[str, list[int]], other: dict[str, list[int]]) -> bool:
    return profile.keys() == other.keys() and all(
        len(shape) == len(other[name])
        and all(one <= most for one, most in zip(shape, other[name], strict=True))
        for name, shape in profile.items()
    )


def known_of(measured: Iterable[Measured], sizes: Sizes) -> Known | None:
    """Return what is known of a job of these sizes, if anything is."""
    best: Known | None = None
    for row in measured:
        if not within(row.sizes, sizes) or (best is not None and best.peak_bytes >= row.peak_bytes):
            continue
        best = Known(row.peak_bytes, row.enough and within(sizes, row.sizes), row.build_id)
    return best


def room_of(node: NodeDescription) -> int:
    """Return the memory that a node gives one job."""
    return min(node.memory_bytes, node.job_memory_bytes or node.memory_bytes)


def rooms(
    nodes: Iterable[NodeDescription], stage: Stage, target: Target, version: str | None
) -> list[int]:
    """Return the memory that each of the nodes that can do a stage gives to one job."""
    return [room_of(node) for node in nodes if serves(node, stage, target, version)]


def lacking(stage: Stage, target: Target, known: Known, there: Sequence[int]) -> NotServed:
    """Say that no live node has the memory that a job is known to need."""
    most = max(there, default=0)
    context: dict[str, Any] = {
        "stage": str(stage),
        "target": str(target),
        "peak_bytes": known.peak_bytes,
        "memory_bytes": most,
    }
    return NotServed(
        f"No live node has the memory to {stage} this model for {target}.",
        code="memory_not_served",
        why=f"It needs {known.words}; the most that a live node gives a job is {mib(most)}.",
        fix="Reduce the profile's max, start a node that gives a job more memory, or set "
        "wait_for_node to the seconds you are willing to wait.",
        **context,
    )


def mib(size: int) -> str:
    """Return bytes in MiB, as measured memory is told."""
    return f"{-(-size // MIB)} MiB"
