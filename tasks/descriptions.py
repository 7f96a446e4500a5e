"""What a node says of itself: its devices, its backends, and what it takes. Pure words."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from enginefarm.digest import Digest
from enginefarm.numbers import Whole
from enginefarm.state import Stage


class _Description(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Device(_Description):
    """A device of a node. ``arch`` is ``cpu`` or ``sm_NN``; a MIG instance is a device."""

    arch: str
    name: str
    uuid: str | None = None
    memory_bytes: Whole | None = None
    driver: str | None = None
    cuda: str | None = None
    card: str | None = Field(default=None, description="The GPU that an instance is a part of.")
    ecc: bool | None = None
    persistence: bool | None = None
    fault: str | None = Field(default=None, description="Why it is given no work for now.")


class PluginDescription(_Description):
    """A library that a node's operator installed for a backend, and that really loads there."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._+-]{1,128}$")]
    digest: Digest
    operators: Annotated[list[str], Field(max_length=256)] | None = Field(
        default=None, description="Those it adds; absent: the backend cannot tell."
    )


class BackendDescription(_Description):
    """A backend that really loads on a node, probed in a child process."""

    name: str
    version: str
    builds: list[str] = Field(description="Architectures it can build for here.")
    measures: list[str] = Field(description="Architectures it can run on here.")
    on_device: list[str] = Field(
        default=[], description="Of those it builds for, the ones it needs a device of here for."
    )
    plugins: list[PluginDescription] = []
    cuda: str | None = Field(
        default=None, description="The CUDA that it was built for, where it comes for several."
    )
    gpus_unused: Annotated[str, Field(max_length=1000)] | None = Field(
        default=None, description="Why it uses none of the GPUs here that it is for."
    )


class NodeDescription(_Description):
    """What a node says of itself."""

    hostname: str
    cpu: str
    cores: Whole
    memory_bytes: Whole
    devices: list[Device]
    backends: list[BackendDescription]
    stages: list[Stage]
    slots: Whole = 1
    job_memory_bytes: Whole | None = Field(
        default=None, description="Most memory of one job; absent: all that the node has."
    )
    reads_refined_targets: bool = Field(
        default=False, description="Reads targets that name more than one architecture."
    )
    farm_version: str
    compares: bool = Field(
        default=False, description="Whether it measures two engines side by side when asked to."
    )
