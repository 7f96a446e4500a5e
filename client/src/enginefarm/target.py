"""A target: which backend builds, and for which GPUs: ``tensorrt-rtx@sm_89``.

The architecture routes (queue ``compile.sm_89``). Behind it may stand what is narrower or wider:

- ``tensorrt@sm_89:l4``: one SKU of it, by the name that its driver gives (see ``sku``);
- ``tensorrt@sm_89+same_compute_capability``: the same plan on other SKUs, too;
- ``tensorrt-rtx@sm_86+sm_89``: one file with code for several architectures.

Backends and architectures named here are those the farm knows at all; whether a live node serves
one is another question, and for the backends that this version has no code for the answer is no.
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_serializer, model_validator

from enginefarm.errors import InvalidRequest
from enginefarm.nearest import did_you_mean
from enginefarm.sku import LONGEST_SKU, is_sku, sku_of
from enginefarm.target_text import Parts, Portability, in_order, read_parts, takes_ampere_plus

GPU_ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")

BACKEND_ARCHITECTURES: dict[str, tuple[str, ...]] = {
    "onnxruntime": ("cpu", *GPU_ARCHITECTURES),
    # TensorRT-RTX has no Hopper (sm_90) and no sm_100 code generator.
    "tensorrt-rtx": ("sm_75", "sm_80", "sm_86", "sm_89", "sm_120"),
    "tensorrt": GPU_ARCHITECTURES,
    "tensorrt-llm": ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100"),
}
NOT_IN_THIS_VERSION = frozenset({"tensorrt-llm"})
"""Backends whose names are kept, and for which this version's nodes have no code."""
ARCHITECTURES = ("cpu", *GPU_ARCHITECTURES)

SKU_BACKENDS = frozenset({"onnxruntime", "tensorrt", "tensorrt-llm"})
"""Backends that build on the GPU that the engine is for, so that its SKU makes a difference."""
PORTABLE_BACKENDS = frozenset({"tensorrt"})
"""Backends that can be told to build for other GPUs than the one they build on."""
SET_BACKENDS = frozenset({"tensorrt-rtx"})
"""Backends whose engines can hold code for several architectures."""


class Target(BaseModel):
    """A backend and what it builds for; its JSON form is the text ``backend@arch…``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: str
    arch: str
    """The architecture that routes: of several, the oldest."""
    beside: tuple[str, ...] = ()
    """The other architectures that one file has code for."""
    sku: str | None = None
    portability: Portability | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``backend@arch[+arch…][:sku][+portability]``; the order of several is no matter.

        Raises:
            InvalidRequest: the shape, a name or their combination is unknown; the message names
                the nearest (codes ``invalid_target``, ``unknown_backend``,
                ``unknown_architecture``, ``unsupported_architecture``, ``architectures_refused``,
                ``sku_refused``, ``portability_refused``).
        """
        parts = read_parts(text)
        if parts is None:
            raise InvalidRequest(
                f"{text[:80]!r} is not a target.",
                code="invalid_target",
                fix="Write backend@architecture, for example onnxruntime@cpu.",
            )
        _require_known(parts)
        if parts.sku is not None and ":" not in text.partition("+")[0]:
            raise InvalidRequest(
                f"{text[:80]!r} is not a target.",
                code="invalid_target",
                why="A SKU stands behind its architecture.",
                fix=f"Write {parts.text}.",
            )
        return cls.model_validate(_fields(parts))

    @property
    def archs(self) -> tuple[str, ...]:
        """Every architecture that it has code for, the oldest first."""
        return (self.arch, *self.beside)

    @property
    def plain(self) -> Target:
        """The target of the same architectures that names nothing else."""
        return self.model_copy(update={"sku": None, "portability": None})

    @property
    def refined(self) -> bool:
        """Whether it names more than one architecture."""
        return bool(self.beside or self.sku or self.portability)

    def __str__(self) -> str:
        """Return the text, which is the same for the same target."""
        return self._parts.text

    def __lt__(self, other: Target) -> bool:
        """Order by text."""
        return str(self) < str(other)

    @property
    def _parts(self) -> Parts:
        marks = () if self.portability is None else (str(self.portability),)
        return Parts(self.backend, self.archs, self.sku, marks)

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:  # noqa: ANN401 - pydantic hands over anything
        return _fields(cls.parse(value)._parts) if isinstance(value, str) else value  # noqa: SLF001 - its own

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        _require_known(self._parts)
        if self.archs != in_order(self.archs):
            message = f"the architectures of {self} are not in order"
            raise ValueError(message)
        return self

    @model_serializer
    def _to_text(self) -> str:
        return str(self)


def _fields(parts: Parts) -> dict[str, Any]:
    return {
        "backend": parts.backend,
        "arch": parts.archs[0],
        "beside": parts.archs[1:],
        "sku": parts.sku,
        "portability": next(iter(parts.marks), None),
    }


_ANY_GPU = frozenset({"gpu", "cuda", "nvidia"})
"""What people write for a GPU whose architecture they did not look up."""


def _require_known(parts: Parts) -> None:
    if parts.backend not in BACKEND_ARCHITECTURES:
        raise InvalidRequest(
            f"There is no backend {parts.backend[:40]!r}.",
            code="unknown_backend",
            fix=did_you_mean(parts.backend, BACKEND_ARCHITECTURES),
        )
    for arch in parts.archs:
        _require_architecture(parts.backend, arch)
    if len(parts.archs) > 1:
        _require_set(parts)
    if parts.sku is not None:
        _require_sku(parts, parts.sku)
    for mark in parts.marks:
        _require_portability(parts, mark)


def _require_architecture(backend: str, arch: str) -> None:
    if arch not in ARCHITECTURES:
        raise InvalidRequest(
            f"There is no architecture {arch[:40]!r}.",
            code="unknown_architecture",
            fix="Name the architecture of the GPU, such as sm_89; `enginefarm targets` lists them."
            if arch in _ANY_GPU
            else did_you_mean(arch, ARCHITECTURES),
        )
    if arch not in BACKEND_ARCHITECTURES[backend]:
        raise InvalidRequest(
            f"{backend} cannot build for {arch}.",
            code="unsupported_architecture",
            why=f"{backend} supports {', '.join(BACKEND_ARCHITECTURES[backend])}.",
            fix="Choose one of these, or another backend.",
        )


def _require_set(parts: Parts) -> None:
    each = tuple(dict.fromkeys(parts.archs))
    if parts.backend not in SET_BACKENDS:
        raise InvalidRequest(
            f"An engine of {parts.backend} is for one architecture.",
            code="architectures_refused",
            why=f"Only {', '.join(sorted(SET_BACKENDS))} puts code for several into one file.",
            fix=f"Name a target for each: {', '.join(f'{parts.backend}@{arch}' for arch in each)}.",
        )
    if each != parts.archs:
        raise InvalidRequest(
            f"{parts.text[:80]!r} names an architecture twice.",
            code="architectures_refused",
            fix=f"Write {parts.backend}@{'+'.join(each)}.",
        )


def _require_sku(parts: Parts, sku: str) -> None:
    plain = f"{parts.backend}@{'+'.join(parts.archs)}"
    if parts.backend not in SKU_BACKENDS or parts.archs == ("cpu",):
        raise InvalidRequest(
            f"A target of {plain} has no SKU.",
            code="sku_refused",
            why="What is built is the same for every processor."
            if parts.archs == ("cpu",)
            else f"{parts.backend} builds ahead of time and times nothing on a GPU: its engine is "
            "the same for every SKU of an architecture.",
            fix=f"Write {plain}.",
        )
    if not is_sku(sku):
        raise InvalidRequest(
            f"{sku[:40]!r} is not the name of a SKU.",
            code="sku_refused",
            why="It is the name that the driver gives, in small letters and digits joined by -, "
            "without the vendor.",
            fix=f"Write {plain}:{sku_of(sku)[:LONGEST_SKU].strip('-') or 'l4'}.",
        )


def _require_portability(parts: Parts, mark: str) -> None:
    plain = f"{parts.backend}@{'+'.join(parts.archs)}" + (f":{parts.sku}" if parts.sku else "")
    if mark not in set(Portability) or len(parts.marks) > 1:
        raise InvalidRequest(
            f"{'+'.join(parts.marks)[:40]!r} is not what a target can be portable by.",
            code="portability_refused",
            why=f"It is one of {' and '.join(Portability)}, or none.",
            fix=f"Write {plain}."
            if mark == "none" or len(parts.marks) > 1
            else did_you_mean(mark.replace("-", "_"), Portability),
        )
    if parts.backend not in PORTABLE_BACKENDS:
        raise InvalidRequest(
            f"{parts.backend} has no {mark}.",
            code="portability_refused",
            why=_NEEDS_NO_MODE[parts.backend],
            fix=f"Write {plain}.",
        )
    if mark == Portability.AMPERE_PLUS and not takes_ampere_plus(parts.archs[0]):
        raise InvalidRequest(
            f"No engine for Ampere and newer can be built on {parts.archs[0]}.",
            code="portability_refused",
            why="It is older than Ampere, and an engine is built on a GPU that it runs on.",
            fix=f"Write {parts.backend}@sm_80+{mark}, or {plain}.",
        )


_NEEDS_NO_MODE = {
    "onnxruntime": "Its engine is a graph, and no code for a GPU: it runs on any.",
    "tensorrt-rtx": "Its engine is for every GPU of its architectures; for more of them, name "
    "each, as in tensorrt-rtx@sm_86+sm_89.",
    "tensorrt-llm": "Its engines are for the GPUs of one model.",
}
