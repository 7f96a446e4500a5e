"""What a node announces of the libraries that it has tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginefarm.digest import digest_of
from enginefarm.plugins import TAKES_PLUGINS
from tasks.enrol import MOST_DESCRIPTION_BYTES
from tasks.messages import BackendDescription, PluginDescription
from workers.plugins import trying
from workers.plugins.folder import MOST_LIBRARIES, Library, Looked
from workers.probe import MOST_OPERATORS


def test_as_many_libraries_and_operators_as_are_taken_keep_no_node_from_enrolling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    libraries = [
        Library(
            backend=backend,
            name=f"{number:0125}.so",
            path=Path("lib.so"),
            digest=digest_of(f"{backend}{number}".encode()),
        )
        for backend in TAKES_PLUGINS
        for number in range(MOST_LIBRARIES)
    ]
    operators = [f"MyOperatorNumber{number:05}" for number in range(MOST_OPERATORS)]
    monkeypatch.setattr(trying, "look", lambda _folder: Looked(libraries, {}))
    monkeypatch.setattr(
        trying,
        "_try",
        lambda row: PluginDescription(name=row.name, digest=row.digest, operators=operators),
    )
    here = [
        BackendDescription(name=name, version="1", builds=[], measures=[]) for name in TAKES_PLUGINS
    ]
    told = trying.tried(Path("plugins"), here).announced_by(here)
    plugins = [row for backend in told for row in backend.plugins]
    assert [row.digest for row in plugins] == [row.digest for row in libraries]
    assert plugins[0].operators == operators
    assert plugins[-1].operators is None
    # What is left is for the machine and its devices.
    assert sum(len(row.model_dump_json()) for row in told) < MOST_DESCRIPTION_BYTES * 7 // 8
