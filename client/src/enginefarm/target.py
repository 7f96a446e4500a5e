"""A target: which backend builds, and for which architecture: ``tensorrt-rtx@sm_89``.

The architecture routes (queue ``compile.sm_89``). Backends and architectures named here are those
the farm knows at all; whether a live node serves one is another question, and for the backends that
this version has no code for the answer is no.
"""

from __future__ import annotations

import re
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_serializer, model_validator

from enginefarm.errors import InvalidRequest
from enginefarm.nearest import did_you_mean

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
BUILDS_ON_ITS_GPU = frozenset({"tensorrt"})
"""Backends that choose among kernels by timing them, on the device that the engine is for."""

ARCHITECTURES = ("cpu", *GPU_ARCHITECTURES)
_SHAPE = re.compile(r"(?P<backend>[^@\s]+)@(?P<arch>[^@\s]+)")


class Target(BaseModel):
    """A backend and an architecture; its JSON form is the text ``backend@arch``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: str
    arch: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``backend@arch``.

        Raises:
            InvalidRequest: the shape, backend, architecture or their combination is unknown; the
                message names the nearest (codes ``invalid_target``, ``unknown_backend``,
                ``unknown_architecture``, ``unsupported_architecture``).
        """
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise InvalidRequest(
                f"{text[:80]!r} is not a target.",
                code="invalid_target",
                fix="Write backend@architecture, for example onnxruntime@cpu.",
            )
        backend, arch = match["backend"], match["arch"]
        _require_known(backend, arch)
        return cls(backend=backend, arch=arch)

    def __str__(self) -> str:
        """Return ``backend@arch``."""
        return f"{self.backend}@{self.arch}"

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:  # noqa: ANN401 - pydantic hands over anything
        if isinstance(value, str):
            parsed = cls.parse(value)
            return {"backend": parsed.backend, "arch": parsed.arch}
        return value

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        _require_known(self.backend, self.arch)
        return self

    @model_serializer
    def _to_text(self) -> str:
        return str(self)


_ANY_GPU = frozenset({"gpu", "cuda", "nvidia"})
"""What people write for a GPU whose architecture they did not look up."""


def _require_known(backend: str, arch: str) -> None:
    if backend not in BACKEND_ARCHITECTURES:
        raise InvalidRequest(
            f"There is no backend {backend[:40]!r}.",
            code="unknown_backend",
            fix=did_you_mean(backend, BACKEND_ARCHITECTURES),
        )
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
