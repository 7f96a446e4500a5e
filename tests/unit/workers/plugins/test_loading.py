"""A job's libraries are loaded into what takes them, in their order, or the job ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from enginefarm.errors import JobFailed
from enginefarm.state import Blame
from workers.backends.base import Backend
from workers.plugins.loading import load, names_of

ONE, OTHER = Path("/job/a.so"), Path("/job/b.so")


class Takes:
    """A backend that takes libraries."""

    name = "tensorrt"

    def __init__(self) -> None:
        self.taken: list[Path] = []

    def take_plugin(self, library: Path) -> list[str] | None:
        self.taken.append(library)
        return None


class TakesNone:
    """One that does not."""

    name = "tensorrt-rtx"


def backend(made: Any) -> Backend:  # noqa: ANN401 - a backend in miniature
    return cast("Backend", made)


def test_they_are_loaded_one_after_the_other() -> None:
    takes = Takes()
    load(backend(takes), [OTHER, ONE])
    assert takes.taken == [OTHER, ONE]
    assert names_of({"tensorrt": [OTHER, ONE]}) == "tensorrt: b.so, a.so"


def test_what_takes_none_is_not_run_without_them() -> None:
    load(backend(TakesNone()), [])
    with pytest.raises(JobFailed) as refused:
        load(backend(TakesNone()), [ONE])
    assert (refused.value.code, refused.value.blame) == ("plugin_refused", Blame.FARM)
