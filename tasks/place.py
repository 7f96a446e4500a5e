"""Whether a result was made on the GPU that was asked for, by what its node says. Pure."""

from __future__ import annotations

from enginefarm.report import Machine
from enginefarm.sku import sku_of
from enginefarm.state import Stage
from enginefarm.target import Target


def require_place(
    machine: Machine | None, stage: Stage, target: Target, sku: str | None = None
) -> None:
    """Refuse what was made on another SKU than ``sku``, or else the target, names.

    A compile may have used no GPU: the device of its machine is a processor then.

    Raises:
        ValueError: it was.
    """
    wanted = sku or (target.sku if stage in {Stage.COMPILE, Stage.BENCHMARK} else None)
    if wanted is None or (stage is Stage.COMPILE and (machine is None or machine.device == "cpu")):
        return
    there = sku_of(machine.device) if machine is not None else "an unknown device"
    if there != wanted:
        did = "built" if stage is Stage.COMPILE else "measured"
        message = f"it was {did} on {there} instead of {wanted}"
        raise ValueError(message)
