"""How a tool with an environment of its own is started, and which versions it has.

Light: the node's probe asks for versions before any runtime is imported.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from workers.settings import tool_environment

SCRIPT = Path(__file__).resolve().parent / "precision" / "tools" / "modelopt_script.py"
_TIMEOUT_S = 120


def ask_versions(python: Path, *, importing: bool = False) -> dict[str, str]:
    """Return the versions in a tool's environment; ``importing``: having imported all of it.

    Raises:
        OSError, CalledProcessError, TimeoutExpired, ValueError: it does not work.
    """
    done = subprocess.run(
        [str(python), "-P", "-s", str(SCRIPT), "--describe" if importing else "--version"],
        check=True,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        env=tool_environment(Path("/")),
    )
    found: dict[str, str] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def version_of(versions: Mapping[str, str]) -> str:
    """Return one version for an environment: of ModelOpt, and of what decides its results."""
    own, onnx, runtime = (versions[name] for name in ("nvidia-modelopt", "onnx", "onnxruntime"))
    return f"{own}+onnx{onnx}.onnxruntime{runtime}"
