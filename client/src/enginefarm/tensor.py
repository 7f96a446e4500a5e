"""What an input or output looks like from outside. Light: whoever reads a file loads no more."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class TensorView(BaseModel):
    """An input or output of a model. A dim is a number, a name, or null if it has neither."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    dtype: str
    shape: list[int | str | None]


class StoredArray(TensorView):
    """An array of a dataset, as it was seen when it was uploaded."""

    low: float | None = Field(
        default=None, description="The least value; absent for text, and before it was looked for."
    )
    high: float | None = None
