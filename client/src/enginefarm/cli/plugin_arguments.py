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
from enginefarm.plugins import require_takes_plugins


def in_options(options: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return options by stage with the digests of the plugins that are named in them.

    Raises:
        InvalidRequest: one is neither a file nor a digest (code ``plugin_unknown``), or the backend
            loads none (``plugin_backend``).
    """
    named = options.get("plugins")
    if not isinstance(named, dict):
        return options
    for backend in named:
        require_takes_plugins(backend)
    return options | {"plugins": {backend: _read(text) for backend, text in named.items()}}


def _read(text: JsonValue) -> JsonValue:
    return [library_digest(part.strip()) for part in str(text).split(",")]


def library_digest(text: str) -> str:
    """Return the digest that is meant; of a file, that of its bytes.

    Raises:
        InvalidRequest: it is neither a file nor a digest (code ``plugin_unknown``).
    """
    return digest(text) if is_reference(text) else _of_file(Path(text))


def _of_file(path: Path) -> str:
    if not path.is_file():
        raise InvalidRequest(
            f"The plugin {str(path)[:200]!r} is no file here.",
            code="plugin_unknown",
            fix="Name the library's file; where one is only meant, its digest will do, as"
            " `enginefarm plugins` lists it.",
        )
    return digest_of_file(path)


def libraries_for(wanted: Sequence[str], files: Sequence[Path]) -> list[Path]:
    """Return the files of the plugins that an engine needs, each the one that it was built with.

    A file is known by its bytes, whatever it is called.

    Raises:
        FarmError: one is not given, or a file is none of them (code ``plugin_needed``).
        InvalidRequest: a file is not there (code ``plugin_unknown``).
    """
    given = {_of_file(path): path for path in files}
    stray = [f"{path} is {each}" for each, path in given.items() if each not in wanted]
    missing = [each for each in wanted if each not in given]
    if missing or stray:
        raise FarmError(
            f"The engine needs the plugin {missing[0]}, and it is not given."
            if missing
            else "A library is given that the engine was not built with.",
            code="plugin_needed",
            why=f"It was built with {', '.join(wanted) or 'no plugin'}"
            + (f"; {'; '.join(stray)}." if stray else "."),
            fix="Name the file of each with --plugin, and no other; only the very bytes will do.",
            plugins=list[JsonValue](missing),
        )
    return [given[each].absolute() for each in wanted]
