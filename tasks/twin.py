"""The twin of an engine in another precision: what would be built if it were not worth it. Pure.

Its stages come after the engine's compile, so that an engine that cannot be built costs no twin,
and before the benchmark, which measures both. Each has the recipe, and so the key, that it would
have in a build of its own: what such a build has made, or is making, is taken from there.
"""

from __future__ import annotations

from dataclasses import dataclass

from enginefarm.precision import TYPES, Precision, PrecisionKind
from enginefarm.preflight.tables import capabilities_of
from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from enginefarm.target import Target

_HALF = frozenset({PrecisionKind.FP16, PrecisionKind.BF16})


@dataclass(frozen=True)
class Twin:
    """The precision of a twin, and the version of the tool that makes it."""

    kind: PrecisionKind
    tool_version: str | None = None

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that build it."""
        cast = () if self.kind is PrecisionKind.AS_IS else (Stage.CAST,)
        return (Stage.REPAIR, *cast, Stage.CHECK, Stage.COMPILE)


def twin_kind(asked: PrecisionKind, target: Target) -> PrecisionKind:
    """Return the precision to hold another one against, if whoever makes it is there.

    That is fp16 for what is coarser, on devices that compute in fp16, and otherwise what the model
    came in. A processor takes fp16 and computes in fp32.
    """
    able = capabilities_of(target.backend, None).types_by_arch.get(TYPES[PrecisionKind.FP16])
    computes = target.arch != "cpu" and (able is None or able.issuperset(target.archs))
    return PrecisionKind.FP16 if asked not in _HALF and computes else PrecisionKind.AS_IS


def spec_of(spec: BuildSpec, kind: str | None) -> BuildSpec:
    """Return what a build that wanted only the twin would ask for; for None the build itself."""
    if kind is None:
        return spec
    return spec.model_copy(update={"precision": Precision(kind=PrecisionKind(kind))})
