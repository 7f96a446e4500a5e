"""Try each library of the operator's folder in a process of its own, as a job would load it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from tasks.messages import BackendDescription, PluginDescription
from workers import asking
from workers.plugins.copying import copy_hashed
from workers.plugins.folder import Library, look, opened


@dataclass(frozen=True)
class Tried:
    """The libraries that load, what they said of themselves, and why others are not taken."""

    libraries: list[Library] = field(default_factory=list)
    descriptions: dict[str, list[PluginDescription]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def announced_by(self, backends: Sequence[BackendDescription]) -> list[BackendDescription]:
        """Return the backends, each with its plugins."""
        return [
            row.model_copy(update={"plugins": self.descriptions.get(row.name, [])})
            for row in backends
        ]


def tried(folder: Path, backends: Sequence[BackendDescription]) -> Tried:
    """Look at a folder, and try what it holds for the backends that load here."""
    looked = look(folder)
    found = Tried(absent=looked.refused)
    there = {row.name for row in backends}
    for library in looked.libraries:
        said = (
            _try(library)
            if library.backend in there
            else f"{library.backend} does not load on this node"
        )
        if isinstance(said, str):
            found.absent[library.label] = said
        else:
            found.libraries.append(library)
            found.descriptions.setdefault(library.backend, []).append(said)
    return found


def _try(library: Library) -> PluginDescription | str:
    try:
        with tempfile.TemporaryDirectory(prefix="plugin-") as folder:
            copy = Path(folder) / library.name
            if _copied(library, copy) != library.digest:
                return "it was changed while it was looked at"
            said = asking.ask(["--backend", library.backend, "--plugin", str(copy)])
        return PluginDescription.model_validate_json(said)
    except subprocess.CalledProcessError as error:
        return asking.last_words(error)
    except subprocess.TimeoutExpired:
        return f"it did not load within {asking.TIMEOUT_S} s"
    except ValidationError as error:
        return f"what it said of itself is not understood: {error.errors()[0]['msg']}"
    except OSError as error:
        return error.strerror or str(error)


def _copied(library: Library, goal: Path) -> str:
    source = opened(library.path)
    try:
        return copy_hashed(source, goal)
    finally:
        os.close(source)
