"""The real bucket with one fault at a time: for what a healthy one never does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from enginefarm.errors import Unavailable
from tasks.farm import Farm


class FaultyObjects:
    """Passes everything on to the real bucket, but asks ``fault`` before a confirmation."""

    def __init__(self, real: Any, fault: Callable[[str], Exception | None]) -> None:  # noqa: ANN401 - stands before any store
        self._real = real
        self._fault = fault

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the real one has
        """Pass on what has no fault."""
        return getattr(self._real, name)

    def confirm(self, digest: str, size: int) -> None:
        error = self._fault(digest)
        if error is not None:
            raise error
        self._real.confirm(digest, size)


def faulty(farm: Farm, fault: Callable[[str], Exception | None]) -> Farm:
    return replace(farm, objects=FaultyObjects(farm.objects, fault))


def away(_digest: str) -> Unavailable:
    return Unavailable("The bucket does not answer.", code="bucket_away")


def crash(_digest: str) -> ValueError:
    return ValueError("a bug")
