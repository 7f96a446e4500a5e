"""``python -m workers.probe``: print what this machine is and which backends really load, as JSON.

Each backend is tried in a process of its own, so one that crashes while loading is only absent. So
is a tool that has an environment of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from enginefarm.errors import Failure, InvalidRequest
from tasks.messages import BackendDescription, Device
from workers import hardware
from workers.backends.registry import MODULES, open_backend
from workers.settings import child_environment
from workers.tool_script import ask_versions, version_of

TIMEOUT_S = 120
DEVICES: TypeAdapter[list[Device]] = TypeAdapter(list[Device])


class Probe(BaseModel):
    """What was found. ``absent`` holds the reason for each backend that does not load."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hostname: str
    cpu: str
    cores: int
    memory_bytes: int
    devices: list[Device]
    backends: list[BackendDescription]
    absent: dict[str, str]


class _Refused(BaseModel):
    """A probe that was asked for GPUs that are not here."""

    failure: Failure | None = None


REFUSED: TypeAdapter[_Refused] = TypeAdapter(_Refused)


def probe(pythons: Mapping[str, Path], wanted: Sequence[str] = ()) -> Probe:
    """Look at this machine, at the GPUs that are wanted alone.

    Every backend is tried, and every tool with a python of its own.
    """
    devices = hardware.devices(wanted)
    found: list[BackendDescription] = []
    absent: dict[str, str] = {}
    for name in MODULES:
        described = _try_backend(name, devices)
        if isinstance(described, str):
            absent[name] = described
        else:
            found.append(described)
    for name, python in pythons.items():
        described = _try_tool(name, python)
        if isinstance(described, str):
            absent[name] = described
        else:
            found.append(described)
    return Probe(
        hostname=hardware.hostname(),
        cpu=hardware.cpu_model(),
        cores=hardware.cores(),
        memory_bytes=hardware.memory_bytes(),
        devices=devices,
        backends=found,
        absent=absent,
    )


def probe_in_child(wanted: Sequence[str] = (), pythons: Mapping[str, Path] | None = None) -> Probe:
    """Run this module as a child: the caller stays free of NVML and of runtimes.

    Raises:
        InvalidRequest: what is wanted names no GPU, or several (code ``device_unknown``).
    """
    named = [f"{name}={python}" for name, python in (pythons or {}).items()]
    asked = [part for each in named for part in ("--tool", each)]
    said = _ask([*asked, *(["--only", *wanted] if wanted else [])])
    refused = REFUSED.validate_json(said)
    if refused.failure is not None:
        raise InvalidRequest(
            refused.failure.message,
            code=refused.failure.code,
            why=refused.failure.why,
            fix=refused.failure.fix,
        )
    return Probe.model_validate_json(said)


def _try_backend(name: str, devices: list[Device]) -> BackendDescription | str:
    given = DEVICES.dump_json(devices).decode()
    try:
        said = _ask(["--backend", name, "--devices", given])
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr).strip().splitlines()
        return f"status {error.returncode}: {lines[-1] if lines else 'it said nothing'}"
    except subprocess.TimeoutExpired:
        return f"it did not load within {TIMEOUT_S} s"
    return BackendDescription.model_validate_json(said)


def _try_tool(name: str, python: Path) -> BackendDescription | str:
    try:
        version = version_of(ask_versions(python, importing=True))
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr).strip().splitlines()
        return f"status {error.returncode}: {lines[-1] if lines else 'it said nothing'}"
    except (OSError, subprocess.TimeoutExpired, ValueError, LookupError) as error:
        return f"{type(error).__name__}: {error}"
    return BackendDescription(name=name, version=version, builds=["cpu"], measures=[])


def _ask(arguments: list[str]) -> str:
    """Run a probe with a child's environment and return the last line it prints."""
    with tempfile.TemporaryDirectory(prefix="probe-") as folder:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "workers.probe", *arguments],
            check=True,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S * (len(MODULES) + 1),
            cwd=folder,
            env=child_environment(Path(folder)),
        )
    return done.stdout.strip().splitlines()[-1]


def main(arguments: list[str]) -> int:
    """Print the whole probe, or one backend's description."""
    parser = argparse.ArgumentParser(prog="workers.probe", description=__doc__)
    parser.add_argument("--backend", choices=sorted(MODULES))
    parser.add_argument("--only", nargs="+", default=[], metavar="GPU")
    parser.add_argument("--devices", type=DEVICES.validate_json, default=[])
    parser.add_argument("--tool", action="append", default=[], help="modelopt=PYTHON")
    asked = parser.parse_args(arguments)
    if asked.backend is None:
        named = [each.partition("=") for each in asked.tool]
        try:
            made: BaseModel = probe({name: Path(python) for name, _, python in named}, asked.only)
        except InvalidRequest as error:
            made = _Refused(failure=error.as_failure())
    else:
        made = open_backend(asked.backend).describe(asked.devices)
    print(made.model_dump_json())  # noqa: T201 - printing is what this is for
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
