"""Uploads in parts: what is declared, what is asked for, and how far it is.

A model of many or large files is declared first, each file by size and sha256. What the tenant has
already is not sent again; the rest is sent in parts, in any order, by as many connections as one
likes, and goes on where it stopped.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from enginefarm.digest import Digest
from enginefarm.errors import Failure
from enginefarm.state import UploadState

MAX_PARTS_ASKED = 100
MAX_PARTS = 10_000
"""How many parts a file can have: S3's own limit."""
_LARGEST = 5 << 40


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _View(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class DeclaredFile(_Asked):
    """A file that will be sent."""

    name: str = Field(description="Its name beside the model; the .onnx file may have any.")
    size: Annotated[int, Field(ge=1, le=_LARGEST)]
    digest: Digest


class UploadSpec(_Asked):
    """What a person declares: the one ``.onnx`` file, and each file of its external data."""

    files: Annotated[list[DeclaredFile], Field(min_length=1)]
    name: str | None = Field(default=None, description="A name to show; else the file's.")


class AskedPart(_Asked):
    """One part that is about to be sent."""

    file: Annotated[int, Field(ge=0, description="Which file, in the order of the declaration.")]
    number: Annotated[int, Field(ge=1, le=MAX_PARTS, description="Which part of it, from 1.")]
    digest: Digest


class PartsSpec(_Asked):
    """Parts that are about to be sent."""

    parts: Annotated[list[AskedPart], Field(min_length=1, max_length=MAX_PARTS_ASKED)]


class PartSlot(_View):
    """Where a part goes: a PUT of exactly its bytes with these headers.

    Without ``url`` it goes through the farm: ``PUT /v1/uploads/{id}/files/{file}?part={number}``.
    """

    file: int
    number: int
    url: str | None
    headers: dict[str, str] = {}


class PartSlots(_View):
    """A slot for each part that was asked for, in that order."""

    parts: list[PartSlot]


class UploadFileView(_View):
    """A declared file. Part ``n`` has the bytes from ``(n - 1) * part_bytes``."""

    name: str
    size: int
    digest: Digest
    present: bool = Field(description="The tenant has these bytes; nothing is to be sent.")
    part_bytes: int
    part_count: int
    received: list[int] = Field(default=[], description="The parts that are here, by number.")


class UploadView(_View):
    """An upload in parts, and how far it is."""

    id: str
    state: UploadState
    name: str
    size: int = Field(description="Bytes that are to be sent, of all files together.")
    files: list[UploadFileView]
    verified_bytes: int = Field(description="Bytes that the farm has read again and hashed.")
    model: Digest | None = Field(default=None, description="The model that it became.")
    failure: Failure | None = Field(default=None, description="Why it became none.")
    created_at: datetime
    expires_at: datetime = Field(description="When it is given up unless something is asked.")
