"""``python -m workers.probe``: print what this machine is and which backends really load, as JSON.

Each backend is tried in a process of its own, so one that crashes while loading is only absent. So
is a tool that has an environment of its own, and each plugin library of a backend that loads.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from pydantic import BaseModel, ConfigDict, TypeAdapter

from enginefarm import logs
from enginefarm.digest import digest_of_file
from enginefarm.errors import Failure, FarmError, InvalidRequest, NotServed
from tasks.messages import BackendDescription, Device, PluginDescription
from workers import asking, hardware
from workers.backends.base import TakesPlugins
from workers.backends.registry import MODULES, open_backend
from workers.plugins import trying
from workers.plugins.folder import Library
from workers.settings import show_gpus
from workers.tool_script import ask_versions, version_of

MOST_OPERATORS = 256
"""How many of a library's operators are announced."""
_WHOLE_S = asking.TIMEOUT_S * (len(MODULES) + 1)
DEVICES: TypeAdapter[list[Device]] = TypeAdapter(list[Device])


class Probe(BaseModel):
    """What was found. ``absent`` holds the reason for each backend that does not load.

    ``libraries`` are the files of the plugins that the backends announce; ``plugins_absent`` has
    the reason for each that was refused or does not load.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    hostname: str
    cpu: str
    cores: int
    memory_bytes: int
    devices: list[Device]
    backends: list[BackendDescription]
    absent: dict[str, str]
    libraries: list[Library] = []
    plugins_absent: dict[str, str] = {}


class _Refused(BaseModel):
    """A probe that was asked for GPUs that are not here."""

    failure: Failure | None = None


REFUSED: TypeAdapter[_Refused] = TypeAdapter(_Refused)


def probe(
    pythons: Mapping[str, Path], wanted: Sequence[str] = (), plugins: Path | None = None
) -> Probe:
    """Look at this machine, at the GPUs that are wanted alone.

    Every backend is tried, every tool with a python of its own, and every library of ``plugins``.
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
    tried = trying.Tried() if plugins is None else trying.tried(plugins, found)
    return Probe(
        hostname=hardware.hostname(),
        cpu=hardware.cpu_model(),
        cores=hardware.cores(),
        memory_bytes=hardware.memory_bytes(),
        devices=devices,
        backends=tried.announced_by(found),
        absent=absent,
        libraries=tried.libraries,
        plugins_absent=tried.absent,
    )


def probe_in_child(
    wanted: Sequence[str] = (),
    pythons: Mapping[str, Path] | None = None,
    plugins: Path | None = None,
) -> Probe:
    """Run this module as a child: the caller stays free of NVML and of runtimes.

    It may take long where ``plugins`` is a folder of large libraries; the child logs each.

    Raises:
        InvalidRequest: what is wanted names no GPU, or several (code ``device_unknown``).
    """
    named = [f"{name}={python}" for name, python in (pythons or {}).items()]
    asked = [part for each in named for part in ("--tool", each)]
    asked += [] if plugins is None else ["--plugins", str(plugins.absolute())]
    asked += ["--only", *wanted] if wanted else []
    said = asking.ask_whole(asked, _WHOLE_S if plugins is None else None)
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
        said = asking.ask(["--backend", name, "--devices", given])
    except subprocess.CalledProcessError as error:
        return asking.last_words(error)
    except subprocess.TimeoutExpired:
        return f"it did not load within {asking.TIMEOUT_S} s"
    return BackendDescription.model_validate_json(said)


def _try_tool(name: str, python: Path) -> BackendDescription | str:
    try:
        version = version_of(ask_versions(python, importing=True))
    except subprocess.CalledProcessError as error:
        return asking.last_words(error)
    except (OSError, subprocess.TimeoutExpired, ValueError, LookupError) as error:
        return f"{type(error).__name__}: {error}"
    return BackendDescription(name=name, version=version, builds=["cpu"], measures=[])


def _load(name: str, library: Path) -> PluginDescription:
    """Load a library as a job does, and return what can be told of it.

    Raises:
        FarmError: the backend loads none, or not this one.
    """
    backend = open_backend(name)
    if not isinstance(backend, TakesPlugins):
        raise NotServed(f"{name} loads no plugins.", code="plugin_backend")
    operators = backend.take_plugin(library)
    return PluginDescription(
        name=library.name,
        digest=digest_of_file(library),
        operators=None if operators is None else operators[:MOST_OPERATORS],
    )


def _leave(said: str, status: int) -> NoReturn:
    """End at once: what a library does while it is torn down is no matter here."""
    # On a line of its own, whatever the library has printed while it was loaded.
    print(f"\n{said}", file=sys.stderr if status else sys.stdout, flush=True)
    os._exit(status)


def main(arguments: list[str]) -> int:
    """Print the whole probe, or one backend's description, or that of one library for it."""
    parser = argparse.ArgumentParser(prog="workers.probe", description=__doc__)
    parser.add_argument("--backend", choices=sorted(MODULES))
    parser.add_argument("--only", nargs="+", default=[], metavar="GPU")
    parser.add_argument("--devices", type=DEVICES.validate_json, default=[])
    parser.add_argument("--tool", action="append", default=[], help="modelopt=PYTHON")
    parser.add_argument("--plugins", type=Path, help="the folder of plugin libraries")
    parser.add_argument("--plugin", type=Path, help="one of them, to load it")
    asked = parser.parse_args(arguments)
    if asked.plugin is not None:
        try:
            _leave(_load(asked.backend, asked.plugin).model_dump_json(), 0)
        except FarmError as error:
            _leave(" ".join(f"{error.message} {error.why}".split()), 1)
    if asked.backend is None:
        logs.configure()
        named = [each.partition("=") for each in asked.tool]
        try:
            pythons = {name: Path(python) for name, _, python in named}
            made: BaseModel = probe(pythons, asked.only, asked.plugins)
        except InvalidRequest as error:
            made = _Refused(failure=error.as_failure())
    else:
        # A builder opens a GPU: not one that is another node's, who may be measuring on it.
        show_gpus([row.uuid for row in asked.devices if row.uuid is not None])
        made = open_backend(asked.backend).describe(asked.devices)
    print(made.model_dump_json())  # noqa: T201 - printing is what this is for
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
