"""Plugin libraries on the command line: a digest, or a file here whose digest is meant.

The file itself is never sent: a farm's nodes load what their operator has installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from enginefarm.cli.arguments import digest, is_reference
from enginefarm.digest import digest_of_file
from enginefarm.errors import FarmError, InvalidRequest


def in_options(options: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return options by stage with the digests of the plugins that are named in them.

    Raises:
        InvalidRequest: one is neither a file nor a digest (code ``plugin_unknown``).
    """
    named = options.get("plugins")
    if not isinstance(named, dict):
        return options
    return options | {"plugins": {backend: _read(text) for backend, text in named.items()}}


def _read(text: JsonValue) -> JsonValue:
    return [library_digest(part.strip()) for part in str(text).split(",")]


def library_digest(text: str) -> str:
    """Return the digest that is meant.

    Raises:
        InvalidRequest: it is neither a file nor a digest (code ``plugin_unknown``).
    """
    if is_reference(text):
        return digest(text)
    if not Path(text).is_file():
        raise InvalidRequest(
            f"The plugin {text[:200]!r} is neither a file here nor a digest.",
            code="plugin_unknown",
            fix="Name the library's file, or its digest as `enginefarm plugins` lists it.",
        )
    return digest_of_file(Path(text))


def libraries_for(wanted: Sequence[str], files: Sequence[Path]) -> list[Path]:
    """Return the files of the plugins that an engine needs, each the one that it was built with.

    Raises:
        FarmError: one is not given, or a file is none of them (code ``plugin_needed``).
        InvalidRequest: a file is not there (code ``plugin_unknown``).
    """
    given = {library_digest(str(path)): path for path in files}
    missing = [each for each in wanted if each not in given]
    if missing:
        raise FarmError(
            f"The engine needs the plugin {missing[0]}, and it is not given.",
            code="plugin_needed",
            why="It has operators of its own; they are in the library that it was built with.",
            fix="Name that library's file with --plugin; only the very bytes will do.",
            plugins=list[JsonValue](missing),
        )
    stray = next((path for each, path in given.items() if each not in wanted), None)
    if stray is not None:
        raise FarmError(
            f"{stray} is none of the plugins that the engine was built with.",
            code="plugin_needed",
            why=f"It needs {', '.join(wanted) or 'none'}.",
            fix="Leave it out.",
        )
    return [given[each].absolute() for each in wanted]
