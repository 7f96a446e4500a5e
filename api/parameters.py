"""Parameters that several paths share: digests, flags and ids, each refused with its own code."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import BeforeValidator

from enginefarm.digest import require_digest

EXAMPLE_DIGEST = "sha256:" + "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"


def _flag(value: object) -> object:
    """Take the bare form: ``?explain`` is ``?explain=1``."""
    return True if value == "" else value


DigestPath = Annotated[
    str,
    Path(description="sha256: and 64 lowercase hex digits.", examples=[EXAMPLE_DIGEST]),
    BeforeValidator(require_digest),
]
BuildId = Annotated[
    str, Path(max_length=64, description="A build's id.", examples=["bld_06fh2k9w0q4s1x3z"])
]
JobId = Annotated[
    str, Path(max_length=64, description="A job's id.", examples=["job_06fh2k9w0q4s1x40"])
]
Limit = Annotated[int, Query(ge=1, le=200, description="How many at most.")]
Flag = Annotated[bool, BeforeValidator(_flag)]
