"""Reading a spec, a registry or a node's code imports no runtime; a fresh interpreter proves it."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import workers

HEAVY = {
    # The modules that own a runtime; only a child imports them.
    "workers.backends.graph",
    "workers.backends.onnxruntime",
    "workers.backends.ort_device",
    "workers.backends.ort_session",
    "workers.backends.ort_provider",
    "workers.backends.strangers",
    "workers.checking.activations",
    "workers.checking.trials",
    "workers.checking.whole",
}
REWRITING = ("workers.repair.", "workers.precision.")
"""They work on ONNX's own messages; only a child imports them, when it rewrites a model."""
RUNTIMES = ("onnxruntime", "onnx", "tensorrt", "tensorrt_rtx", "tensorrt_rtx_bindings", "torch")
CELERY_PROCESS = ("workers.entry", "workers.executor", "workers.node", "workers.probe")

IMPORT_BLOCKED = """
import importlib, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Blocked())
for name in {names!r}:
    importlib.import_module(name)
"""


def modules() -> list[str]:
    """Return every module of the package that a node imports without being a child."""
    found = [
        info.name
        for info in pkgutil.walk_packages(workers.__path__, "workers.")
        if info.name not in HEAVY | {"workers.__main__", "workers.backends.tensorrt_rtx"}
        and not info.name.startswith(REWRITING)
    ]
    assert len(found) > 20
    return found


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter."""
    root = Path(workers.__file__).parent.parent
    return subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )


def test_every_light_module_imports_with_all_runtimes_blocked() -> None:
    done = run(IMPORT_BLOCKED.format(blocked=RUNTIMES, names=modules()))
    assert done.returncode == 0, done.stderr


def test_the_specs_and_messages_import_with_all_runtimes_blocked() -> None:
    names = [
        "enginefarm.spec",
        "enginefarm.report",
        "enginefarm.preflight.check",
        "tasks.messages",
        "tasks.routing",
    ]
    done = run(IMPORT_BLOCKED.format(blocked=(*RUNTIMES, "numpy", "celery"), names=names))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", CELERY_PROCESS)
def test_the_celery_process_is_light(module: str) -> None:
    done = run(IMPORT_BLOCKED.format(blocked=(*RUNTIMES, "numpy"), names=[module]))
    assert done.returncode == 0, done.stderr


def test_the_block_itself_works() -> None:
    done = run(IMPORT_BLOCKED.format(blocked=RUNTIMES, names=["workers.backends.onnxruntime"]))
    assert "blocked: onnx" in done.stderr
