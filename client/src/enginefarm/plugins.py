"""Plugin libraries: operators that a backend lacks, as code that an operator installed on nodes.

A build names them by digest, and nobody sends one. ONNX Runtime's custom-operator libraries are the
same thing under another name. A stage needs those of what it runs: the target's backend, and ONNX
Runtime where the model itself is run, to repair it or to be compared with. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from enginefarm.digest import Digest
from enginefarm.errors import InvalidRequest
from enginefarm.state import PRECISION_STAGES, Stage
from enginefarm.target import Target

REFERENCE = "onnxruntime"
"""What runs the model itself."""
TAKES_PLUGINS = ("onnxruntime", "tensorrt")
"""Backends that load plugins; TensorRT-RTX adds no layer of one to a network."""
MOST_PLUGINS = 8
_PLAIN = re.compile(r"[^A-Za-z0-9._+-]")
_LONGEST_NAME = 128


def _ordered(digests: list[str]) -> list[str]:
    """Sort: in which order somebody names libraries must not make another build."""
    if len(set(digests)) != len(digests):
        message = "the same plugin is named twice"
        raise ValueError(message)
    return sorted(digests)


Libraries = Annotated[
    list[Digest], Field(min_length=1, max_length=MOST_PLUGINS), AfterValidator(_ordered)
]
Plugins = dict[Annotated[str, StringConstraints(max_length=64)], Libraries]
"""The plugins of a build, by the backend that loads them."""
Named = Mapping[str, Sequence[str]]
"""The same, as it lies in a recipe."""


def needed(stage: Stage, target: Target, plugins: Named) -> dict[str, list[str]]:
    """Return those that a stage on a target needs; of what a stage needs, it is all."""
    if stage is Stage.REPAIR or stage in PRECISION_STAGES:
        heard = {REFERENCE}
    elif stage is Stage.COMPILE:
        heard = {target.backend}
    elif stage in {Stage.CHECK, Stage.BENCHMARK}:
        heard = {REFERENCE, target.backend}
    else:
        heard = set()
    return {name: sorted(plugins[name]) for name in sorted(heard & plugins.keys()) if plugins[name]}


def require_takes_plugins(backend: str) -> None:
    """Refuse a backend that loads none.

    Raises:
        InvalidRequest: code ``plugin_backend``.
    """
    if backend in TAKES_PLUGINS:
        return
    raise InvalidRequest(
        f"{backend[:64]!r} loads no plugins.",
        code="plugin_backend",
        why="TensorRT-RTX takes no layer of a plugin into a network."
        if backend == "tensorrt-rtx"
        else f"Plugins are loaded by {' and '.join(TAKES_PLUGINS)}.",
        fix=f"Name them for {' or '.join(TAKES_PLUGINS)}, or write the operators with standard"
        " ones.",
    )


def plain_name(name: str) -> str:
    """Return the name of a library's file as it may be shown anywhere."""
    return _PLAIN.sub("_", name)[:_LONGEST_NAME] or "_"
