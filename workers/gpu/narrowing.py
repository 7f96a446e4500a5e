"""Which of the GPUs that are here a node uses: those that its operator names. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from enginefarm.errors import InvalidRequest
from enginefarm.nearest import did_you_mean
from tasks.messages import Device

NONE_OF_THEM = "none"


def narrowed(
    gpus: Sequence[Device], wanted: Sequence[str], numbers: Mapping[int, str]
) -> list[Device]:
    """Return the GPUs that are named, by UUID, its beginning, or the driver's number.

    ``numbers`` are the driver's, and the UUID of each card. A number or UUID of a card in MIG mode
    means all of its instances; ``none`` means no GPU, and naming nothing every one.

    Raises:
        InvalidRequest: a name fits no GPU, or cards that are not one (code ``device_unknown``).
    """
    if not wanted:
        return list(gpus)
    if list(wanted) == [NONE_OF_THEM]:
        return []
    chosen = {row.uuid for name in wanted for row in _named(gpus, name, numbers)}
    return [row for row in gpus if row.uuid in chosen]


def _named(gpus: Sequence[Device], name: str, numbers: Mapping[int, str]) -> list[Device]:
    if name.isdecimal():
        found = [row for row in gpus if numbers.get(int(name)) == _card(row)]
    else:
        exact = [row for row in gpus if name == row.uuid]
        found = exact or [
            row for row in gpus if (row.uuid or "").startswith(name) or _card(row).startswith(name)
        ]
    if not found or len({_card(row) for row in found}) > 1:
        known = [row.uuid or "" for row in gpus]
        raise InvalidRequest(
            f"{name[:80]!r} names {'several GPUs' if found else 'no GPU of this machine'}.",
            code="device_unknown",
            why=f"Here are {', '.join(known) or 'none'}.",
            fix=did_you_mean(name, known) if known else "Name none, or look at the driver.",
        )
    return found


def _card(row: Device) -> str:
    return row.card or row.uuid or ""
