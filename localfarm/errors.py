"""What can go wrong before there is a farm to ask."""

from __future__ import annotations

from enginefarm.errors import FarmError


class LocalFarmError(FarmError):
    """A process of the local farm could not be started or has ended."""

    default_code = "local_farm"
