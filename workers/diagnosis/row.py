"""One known failure: what a runtime says, and what that means for a person."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from enginefarm.state import Blame


class Runtime(StrEnum):
    """Whose words a row is about."""

    ANY = "any"
    TENSORRT = "tensorrt"
    ONNXRUNTIME = "onnxruntime"
    ONNX = "onnx"
    TENSORRT_LLM = "tensorrt-llm"


@dataclass(frozen=True)
class Row:
    """One known failure. ``pattern`` is searched in the runtime's text."""

    pattern: str
    code: str
    why: str
    fix: str
    runtime: Runtime = Runtime.ANY
    blame: Blame = Blame.PERSON
