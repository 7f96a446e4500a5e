"""The tools that live in a node's own environment: the farm's caster, and ONNX Runtime's."""

from __future__ import annotations

from dataclasses import dataclass

import onnxruntime as ort

from workers.precision.changing import Changed, Work, cast, quantized


@dataclass(frozen=True)
class _Own:
    """Both go by ONNX Runtime's version: it runs what the caster tries."""

    name: str = "onnxruntime"

    @property
    def version(self) -> str:
        """Return ONNX Runtime's version."""
        return str(ort.__version__)

    def versions(self) -> dict[str, str]:
        """Return nothing: the stage names its own environment."""
        return {}


class Caster(_Own):
    """Casts to half."""

    def change(self, work: Work) -> Changed:
        """Return the model in half precision, but for what must stay in fp32."""
        return cast(work)


class OnnxRuntime(_Own):
    """Quantizes to int8."""

    def change(self, work: Work) -> Changed:
        """Return the model with Q/DQ nodes around what computes in int8."""
        return quantized(work)
