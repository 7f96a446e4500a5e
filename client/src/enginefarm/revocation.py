"""Taking an artifact back: what is asked for, and what is told of it afterwards."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from enginefarm.digest import Digest
from enginefarm.strict import Strict
from enginefarm.target import Target

LONGEST_REASON = 500
Reason = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, min_length=1, max_length=LONGEST_REASON, pattern=r"^[^\x00]*$"
    ),
]


class RevokeRequest(Strict):
    """Why an artifact is revoked."""

    reason: Reason = Field(description="Told to everybody who asks for the artifact from now on.")


class RevocationView(BaseModel):
    """Why an artifact may be installed and run nowhere any more, who said so and when."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    digest: Digest
    target: Target
    build: str
    reason: str
    revoked_at: datetime
    revoked_by: str = Field(description="The id of the access key.")
