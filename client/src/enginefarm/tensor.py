"""What an input or output looks like from outside. Light: whoever reads a file loads no more."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class TensorView(BaseModel):
    """An input or output of a model. A dim is a number, a name, or null if it has neither."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    dtype: str
    shape: list[int | str | None]
