"""Which layers an int8 model loses most by, as data: part of what is told of a precision.

Layers are tried one at a time: each by itself in int8, all others as they came. How much the noise
of a layer's own tensors is, is told of all of them, tried or not.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
Cosine = Annotated[float, Field(ge=-1, le=1)]
MAX_LAYERS = 512
"""Layers that are told of by name."""


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class LayerSensitivity(_Data):
    """One layer. Ratios of signal to noise are in dB; absent: there is no such tensor, or no noise.

    ``cosine_loss`` and ``snr_db`` are of the model's worst output; absent: the layer was not tried.
    """

    node: str
    operator: str
    weight_sqnr_db: float | None = Field(default=None, description="Of its weights in int8.")
    input_sqnr_db: float | None = Field(default=None, description="Of what it reads.")
    output_sqnr_db: float | None = Field(default=None, description="Of what it writes.")
    sqnr_db: float | None = Field(
        default=None, description="Of all of these together: the first estimate."
    )
    cosine_loss: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="1 - cosine of the worst output, with only this layer in int8."
    )
    snr_db: float | None = Field(default=None, description="Of that output.")


class KeptStep(_Data):
    """The model if the costliest so many layers stayed as they came, and all others were int8."""

    kept: Count
    cosine: Cosine = Field(description="Of the worst output.")


class SensitivityReport(_Data):
    """What the layers cost, the costliest first; those that were not tried by their estimate."""

    how: str
    layers_count: Count = Field(description="Layers in int8.")
    tried: Count = Field(description="Layers that were tried one at a time.")
    estimate_samples: Count
    trial_samples: Count
    layers: Annotated[list[LayerSensitivity], Field(max_length=MAX_LAYERS)]
    steps: list[KeptStep] = Field(
        description="From nothing kept to everything that was tried kept, on the trial's samples."
    )
