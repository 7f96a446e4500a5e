"""What all that a person writes has in common: fields are allow-listed, numbers are numbers."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

Name = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]


class Strict(BaseModel):
    """A part of a body."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
