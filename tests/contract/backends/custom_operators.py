"""A real library of ONNX Runtime's custom operators, models that need it, and libraries that fail.

``onnxruntime-extensions`` is used for its library alone: nothing of its Python is imported.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import onnx
import pytest
from onnx import helper

from tests.contract.backends import made

DOMAIN = "ai.onnx.contrib"
CRASHES = "__attribute__((constructor)) static void crash(void) { __builtin_trap(); }"
EMPTY = "int nothing_of_a_plugin;"


def library() -> Path:
    """Return the real library's file."""
    found = importlib.util.find_spec("onnxruntime_extensions")
    assert found is not None
    assert found.origin is not None
    (path,) = Path(found.origin).parent.glob("_extensions_pydll*.so")
    return path


def laid(folder: Path, *more: Path) -> Path:
    """Return a folder of plugins as an operator makes one, with the real library and more."""
    place = folder / "plugins" / "onnxruntime"
    place.mkdir(parents=True)
    for each in (folder / "plugins", place):
        each.chmod(0o755)
    shutil.copyfile(library(), place / "custom.so")
    for each in more:
        shutil.copyfile(each, place / each.name)
    for each in place.iterdir():
        each.chmod(0o644)
    return folder / "plugins"


def compiled(folder: Path, name: str, source: str, language: str = "c") -> Path:
    """Return a library of a few lines of C or C++; skips where no compiler of it is."""
    compiler = shutil.which({"c": "cc", "cpp": "c++"}[language])
    if compiler is None:
        pytest.skip(f"no compiler of {language} is here")
    file = folder / f"{name}.{language}"
    file.write_text(source)
    goal = folder / f"{name}.so"
    words = [compiler, "-shared", "-fPIC", "-o", str(goal), str(file)]
    subprocess.run(words, check=True, capture_output=True)
    return goal


def inverse() -> onnx.ModelProto:
    """Return a model that inverts a matrix x [2, 2], by the library's operator, and adds one."""
    nodes = [
        helper.make_node("Inverse", ["x"], ["i"], name="invert", domain=DOMAIN),
        helper.make_node("MatMul", ["i", "w"], ["m"], name="multiply"),
        helper.make_node("Relu", ["m"], ["y"], name="rectify"),
    ]
    model = made.model_of(
        nodes,
        weights=[made.weight("w", 2, 2)],
        inputs=[made.info("x", [2, 2])],
        outputs=[made.info("y", [2, 2])],
    )
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return model
