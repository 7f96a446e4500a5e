"""Load plugin libraries into TensorRT's registry, the one that builders, parsers and runtimes ask.

A library tells its creators when it is loaded. Networks here are strongly typed, and such a network
takes operators of the newest interface alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from enginefarm.compile_options import CompileOptions
from workers.backends.loaded import Loaded, refused
from workers.backends.trt.recording import Record, plain
from workers.diagnosis import shorten

_USUAL = "1"
"""The version of an operator that the parser asks for where the model names none."""


def load(trt: ModuleType, label: str, record: Record, library: Path) -> Loaded:
    """Load a library for all builders, parsers and runtimes of this process.

    Raises:
        JobFailed: it does not load, adds none, or some of another interface (``plugin_refused``).
    """
    registry = trt.get_plugin_registry()
    before = {_key(creator) for creator in registry.all_creators}
    said_before = len(record.errors)
    handle = registry.load_library(str(library))
    said = [plain(text) for text in record.errors[said_before:]]
    record.errors[said_before:] = []  # not the build's
    if handle is None or said:
        folder = f"{library.parent}/"
        raise refused(label, library, shorten(" ".join(said).replace(folder, ""), 300))
    added = [row for row in registry.all_creators if _key(row) not in before]
    if not added:
        raise refused(label, library, "it adds no operator")
    others = [row for row in added if not isinstance(row, trt.IPluginCreatorV3One)]
    if others:
        named = ", ".join(_name(creator) for creator in others)
        why = f"{named}: only operators with IPluginCreatorV3One go into a strongly typed network"
        raise refused(label, library, shorten(why, 300))
    return Loaded(library, sorted(_name(creator) for creator in added))


def carried(
    options: CompileOptions,
    plugins: Sequence[Loaded],
    parser: Any,  # noqa: ANN401 - the runtime's class
) -> list[str]:
    """Return the libraries that go into an engine, by their paths.

    Those that were asked for; and into a version-compatible engine TensorRT's own that the model
    needs, since no runtime has them otherwise.
    """
    asked = [str(row.library) for row in plugins] if options.serialize_plugins else []
    own = list(parser.get_used_vc_plugin_libraries()) if options.version_compatible else []
    return [*asked, *(path for path in own if path not in asked)]


def _key(creator: Any) -> tuple[str, str, str]:  # noqa: ANN401 - the runtime's class
    return creator.name, creator.plugin_version, creator.plugin_namespace


def _name(creator: Any) -> str:  # noqa: ANN401 - the runtime's class
    """Return an operator's name, with its namespace and version where they are not the usual."""
    space = f"{creator.plugin_namespace}::" if creator.plugin_namespace else ""
    version = "" if creator.plugin_version == _USUAL else f" {creator.plugin_version}"
    return f"{space}{creator.name}{version}"
