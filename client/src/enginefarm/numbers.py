"""Numbers as JSON has them: neither ``true`` nor the text ``"3"`` is taken for one."""

from __future__ import annotations

from typing import Annotated

from pydantic import Strict

Whole = Annotated[int, Strict()]
"""A whole number, written as one."""
Real = Annotated[float, Strict()]
"""A number, whole or not."""
