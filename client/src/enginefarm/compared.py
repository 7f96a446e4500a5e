"""The part of a build that compares two artifacts and makes none: which two."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from enginefarm.digest import Digest
from enginefarm.strict import Strict


class Compared(Strict):
    """Two artifacts of one tenant, to be measured in turns on one device."""

    first: Digest
    second: Digest
    backend_version: str | None = Field(
        default=None, description="The one that loads both; absent: the newest that there is."
    )
    again: Annotated[str, StringConstraints(max_length=255)] | None = Field(
        default=None, description="Tells this measurement from an earlier one of the same two."
    )
