"""NVIDIA ModelOpt, in an environment of its own: what it is asked for, and what came of it.

Its pins and ours exclude each other, so a child of the job's child runs it; see
:mod:`workers.precision.tools.modelopt_script`. What is not quantized stays in fp32: ONNX Runtime
would compute a graph that is half besides otherwise than a GPU does, and nothing could judge it.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.lib import format as npy

from enginefarm.precision import PrecisionKind
from workers.backends.base import MODEL_BYTES_IN_ONE_FILE
from workers.measurement.inputs import Feeds
from workers.precision import refusals
from workers.precision.changing import Changed, Work, raised
from workers.precision.quantizing import declare_as
from workers.precision.rounding import half_interface
from workers.precision.running import save
from workers.precision.sensitivity import Bench, sensitivity
from workers.precision.tidying import constants_as_weights, named
from workers.precision.tools.choosing import (
    Choice,
    chosen,
    quantized_names,
    told_cast,
    told_quantized,
)
from workers.settings import tool_environment
from workers.tool_script import SCRIPT, ask_versions, version_of

_OPSETS = {
    PrecisionKind.FP16: 13,
    PrecisionKind.BF16: 22,
    PrecisionKind.INT8: 19,
    PrecisionKind.FP8: 19,
    PrecisionKind.INT4: 21,
}
"""What ModelOpt would raise a model to by itself, without a look at what it then gives."""
_TICK_S = 1.0
_MOST_SAID, _MOST_DIGITS = 1 << 20, 12
_OF_THE_NODE = frozenset(
    getattr(errno, name)
    for name in ("EDQUOT", "EFBIG", "EIO", "EMFILE", "ENFILE", "ENOMEM", "ENOSPC")
)
"""What keeps the tool from its work whatever the model; any other error is about the model."""


@dataclass(frozen=True)
class ModelOpt:
    """ModelOpt, run with the ``python`` of its environment."""

    python: Path
    name: str = "modelopt"

    @cached_property
    def _versions(self) -> dict[str, str]:
        return ask_versions(self.python)

    @property
    def version(self) -> str:
        """Return its version, and those of what it computes with."""
        return version_of(self._versions)

    def versions(self) -> dict[str, str]:
        """Return the versions in its environment, marked as of there."""
        return {f"modelopt/{name}": each for name, each in self._versions.items()}

    def change(self, work: Work) -> Changed:
        """Return the model in the precision that the recipe names."""
        recipe, least = work.recipe, _OPSETS[work.recipe.kind]
        model = raised(work, least)
        version = next((row.version for row in model.opset_import if not row.domain), 0)
        if version < least:
            said = f"opset {least} is needed, and in it the model would not give what it gives now"
            raise refusals.tool_failed(recipe.kind, said)
        half = half_interface(model, recipe.kind) if recipe.method is None else []
        if half:
            raise refusals.tool_failed(recipe.kind, f"the interface is half already: {half[0]}")
        constants_as_weights(model.graph)
        named(model.graph)
        choice = chosen(model.graph, recipe)
        if not choice.able - set(choice.excluded):
            raise refusals.nothing_changed(recipe.kind, choice.nothing)
        folder = work.folder / "modelopt"
        folder.mkdir()
        made = self._made(work, model, choice, folder)
        # As it was before it was raised, which infers shapes as well.
        declare_as(work.model.graph.input, made.graph.input)
        declare_as(work.model.graph.output, made.graph.output)
        if recipe.method is None:
            return told_cast(model, made, recipe, choice)
        return _with_costs(work, model, told_quantized(model, made, recipe, choice))

    def _made(
        self, work: Work, model: onnx.ModelProto, choice: Choice, folder: Path
    ) -> onnx.ModelProto:
        """Let ModelOpt write the model, in a folder that holds nothing else."""
        source, goal = folder / "source.onnx", folder / "made" / "made.onnx"
        for part in (goal.parent, folder / "samples"):
            part.mkdir()
        save(model, source)
        recipe = work.recipe
        if recipe.calibration is not None or recipe.method is None:
            _write(work.every, folder / "samples", work.alive)
        asked: dict[str, Any] = {
            "kind": str(recipe.kind),
            "method": str(recipe.method),
            "block_size": recipe.block_size,
            "op_types": recipe.op_types,
            "exclude": choice.excluded,
            "leave": choice.left,
            "large": model.ByteSize() > MODEL_BYTES_IN_ONE_FILE,
            "folder": str(folder),
            "model": str(source),
            "made": str(goal),
        }
        _raise_if_failed(recipe.kind, self._answer(asked, folder, work.alive))
        try:
            return onnx.load(str(goal))
        except (DecodeError, FileNotFoundError, onnx.checker.ValidationError) as error:
            raise refusals.tool_failed(
                recipe.kind, f"what it wrote is no model: {error}"
            ) from error

    def _answer(
        self, asked: Mapping[str, Any], folder: Path, alive: Callable[[str, str], None]
    ) -> dict[str, Any]:
        request, told = folder / "request.json", folder / "answer.json"
        request.write_text(json.dumps(asked))
        taken = ""
        # In the group of this process: whatever ends the job ends it, too.
        with subprocess.Popen(
            [str(self.python), "-P", "-s", str(SCRIPT), str(request), str(told)],
            cwd=folder,
            env=tool_environment(folder),
            stdin=subprocess.DEVNULL,
        ) as child:
            while child.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(_TICK_S)
                now = _count_in(folder / "taken")
                if now != taken:
                    taken = now
                    alive("calibrating", f"{taken} samples")
        if child.returncode == 0 and told.exists():
            return _answered(told)
        alive("calibrating", f"{taken or 0} samples")  # raises where the job was stopped
        return {"memory": True} if child.returncode == -signal.SIGKILL else _ended(child.returncode)


def _with_costs(work: Work, model: onnx.ModelProto, found: Changed) -> Changed:
    """Add what each layer costs, where that is asked for."""
    if work.recipe.sensitivity is None:
        return found
    layers = sorted(quantized_names(model.graph, found.model.graph))
    bench = Bench(model, found.model, work.few, work.every, work.folder, work.alive)
    return replace(found, sensitivity=sensitivity(bench, layers, work.recipe.sensitivity))


def _ended(status: int) -> dict[str, Any]:
    how = f"signal {-status}" if status < 0 else f"status {status}"
    return {"error": f"it ended with {how} and said nothing"}


def _raise_if_failed(kind: PrecisionKind, answer: Mapping[str, Any]) -> None:
    """Raise what ModelOpt met with; a full disk or memory is none of the model's fault."""
    if answer.get("memory"):
        raise MemoryError
    said = answer.get("error")
    if answer.get("errno") in _OF_THE_NODE:
        raise OSError(answer["errno"], str(said))
    if said is not None:
        raise refusals.tool_failed(kind, str(said))


def _write(samples: Iterable[Feeds], folder: Path, alive: Callable[[str, str], None]) -> None:
    """Write each sample to a file of its own; they may differ in their sizes."""
    for number, feeds in enumerate(samples):
        # Not by numpy.savez, of which an input may have an argument's name.
        with zipfile.ZipFile(folder / f"{number:07d}.npz", "w") as stored:
            for name, array in feeds.items():
                with stored.open(f"{name}.npy", "w", force_zip64=True) as stream:
                    npy.write_array(stream, np.asarray(array), allow_pickle=False)
        alive("writing the samples", f"{number + 1} samples")


def _answered(path: Path) -> dict[str, Any]:
    """Return an answer; what is none is an error of the tool."""
    try:
        found = json.loads(_read(path, _MOST_SAID))
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"error": "it answered what is no answer"}


def _count_in(path: Path) -> str:
    said = _read(path, _MOST_DIGITS)
    return said if said.isdecimal() else ""


def _read(path: Path, most: int) -> str:
    """Return the beginning of a file that the tool wrote; nothing where it is no plain one."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as stream:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return stream.read(most).decode(errors="replace")
