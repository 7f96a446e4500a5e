"""Parameters that several paths share: digests, flags and ids, each refused with its own code."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator, BeforeValidator

from enginefarm.digest import require_digest

EXAMPLE_DIGEST = "sha256:" + "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"


def _flag(value: object) -> object:
    """Take the bare form: ``?explain`` is ``?explain=1``."""
    return True if value == "" else value


def a_word(value: str) -> str:
    """Let what can be no id be one that nobody has: it is answered like any other."""
    return value if re.fullmatch(r"[A-Za-z0-9_-]+", value) else "-"


DigestPath = Annotated[
    str,
    Path(description="sha256: and 64 lowercase hex digits.", examples=[EXAMPLE_DIGEST]),
    BeforeValidator(require_digest),
]
BuildId = Annotated[
    str,
    AfterValidator(a_word),
    Path(max_length=64, description="A build's id.", examples=["bld_06fh2k9w0q4s1x3z"]),
]
JobId = Annotated[
    str,
    AfterValidator(a_word),
    Path(max_length=64, description="A job's id.", examples=["job_06fh2k9w0q4s1x40"]),
]
Limit = Annotated[int, Query(ge=1, le=200, description="How many at most.")]
Flag = Annotated[bool, BeforeValidator(_flag)]
