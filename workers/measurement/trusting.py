"""Whether a latency can be relied on: what was seen of the machine, judged. Pure.

On a GPU a spread above trtexec's 2.5 %, clocks that were held down, or anybody else on the device
taint the number. A processor is always shared with its own system, so there the same record tells
what there is and judges nothing; ``stable`` and the notes speak for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from enginefarm.trust_record import Clock, TrustRecord
from workers.gpu.exclusive import Onlookers
from workers.gpu.port import Gpu, Reading
from workers.gpu.sampler import Seen

MOST_COV = 0.025
"""trtexec's bound on the coefficient of variation of the GPU compute time."""
OF_THE_CARD = "NVML tells it of the whole card, not of a MIG instance"
NOT_TOLD = "this device or driver does not tell it"
SHARED = "a processor is shared with whatever else the machine runs"
Spread = tuple[str, float] | None
"""Of which times, and their coefficient of variation; None where that taints nothing."""


@dataclass(frozen=True)
class Load:
    """The processor's side: its governor, and the load average before and after."""

    governor: str | None
    before: float
    after: float


@dataclass(frozen=True)
class Spent:
    """Energy between two looks at the counter, and the inferences between them."""

    energy_mj: int | None
    inferences: int


def of_processor(load: Load) -> TrustRecord:
    """Return the record of a measurement on the processor."""
    absent = {} if load.governor else {"governor": "this system shows none"}
    return TrustRecord(
        exclusive=None,
        exclusive_proof=SHARED,
        governor=load.governor,
        load_before=load.before,
        load_after=load.after,
        absent=absent | {"exclusive": SHARED},
    )


def of_gpu(
    gpu: Gpu, seen: Seen, onlookers: Onlookers, spread: Spread, spent: Spent, load: Load
) -> TrustRecord:
    """Return the record of one measurement on a GPU."""
    alone, proof = onlookers.verdict()
    rows = seen.readings
    power = [row.power_w for row in rows if row.power_w is not None]
    heat = [row.temperature_c for row in rows if row.temperature_c is not None]
    throttle = _throttle(rows)
    told: dict[str, object] = {
        "exclusive": alone,
        "sm_clock": _clock([row.sm_mhz for row in rows], gpu.max_sm_mhz),
        "memory_clock": _clock([row.memory_mhz for row in rows], gpu.max_memory_mhz),
        "throttle_reasons": throttle,
        "temperature_start_c": heat[0] if heat else None,
        "temperature_max_c": max(heat, default=None),
        "power_mean_w": round(fmean(power), 1) if power else None,
        "power_max_w": max(power, default=None),
        "power_limit_w": gpu.power_limit_w,
        "energy_per_inference_mj": _per_inference(spent),
        "ecc": gpu.ecc,
        "persistence": gpu.persistence,
        "driver": gpu.driver,
        "governor": load.governor,
    }
    return TrustRecord.model_validate(
        told
        | {
            "exclusive_proof": proof,
            "tainted": _taints(seen, onlookers, throttle, spread),
            "samples": len(rows),
            "mig": gpu.card is not None,
            "load_before": load.before,
            "load_after": load.after,
            "absent": {name: _why(name, gpu) for name, value in told.items() if value is None},
        }
    )


def _taints(
    seen: Seen, onlookers: Onlookers, throttle: list[str] | None, spread: Spread
) -> list[str]:
    what, cov = spread or ("", 0.0)
    found = [f"not alone on the device: {words}" for words in onlookers.strangers]
    if throttle:
        found.append(f"clocks were held down: {', '.join(throttle)}")
    if cov > MOST_COV:
        found.append(f"{what} varies by {cov:.1%}, more than {MOST_COV:.1%}")
    if seen.lost is not None:
        found.append(f"the device did not answer: {seen.lost}")
    return found


def _throttle(rows: Sequence[Reading]) -> list[str] | None:
    told = [row.throttle for row in rows if row.throttle is not None]
    return sorted(frozenset().union(*told)) if told else None


def _clock(values: Sequence[int | None], most: int | None) -> Clock | None:
    there = [value for value in values if value is not None]
    if not there:
        return None
    return Clock(start=there[0], median=median(there), end=there[-1], max=most)


def _per_inference(spent: Spent) -> float | None:
    if spent.energy_mj is None or spent.inferences == 0:
        return None
    return round(spent.energy_mj / spent.inferences, 3)


def _why(name: str, gpu: Gpu) -> str:
    if name == "exclusive":
        return "the driver shows neither processes nor memory here"
    if name == "governor":
        return "this system shows none"
    of_card = gpu.card is not None and name.startswith(("power_m", "energy"))
    return OF_THE_CARD if of_card else NOT_TOLD
