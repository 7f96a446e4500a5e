"""How many inferences at a time a device takes best, as data: throughput and latency by streams.

As trtexec's ``infStreams``: so many threads run one engine at once, each with inputs and outputs of
its own in the host's memory. Latencies are milliseconds of whole runs, while the others run, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from enginefarm.percentiles import Percentiles
from enginefarm.trust_record import TrustRecord

NEAR_BEST = 0.97
"""What has so much of the highest throughput is as good, and the fewest streams wait the least."""
MAX_STREAMS = 64


class StreamsReport(BaseModel):
    """One number of streams at one shape."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    streams: Annotated[int, Field(ge=1, le=MAX_STREAMS)]
    throughput_qps: float = Field(
        gt=0, description="Inferences per second of wall time, all streams together."
    )
    end_to_end_ms: Percentiles = Field(description="Of single inferences, among the others.")
    best: bool = Field(
        default=False,
        description="The fewest streams within 3 % of the highest throughput of the sweep.",
    )
    trust: TrustRecord | None = None


def with_best(rows: Sequence[StreamsReport]) -> list[StreamsReport]:
    """Return the sweep with its best labelled; what cannot be relied on is none."""
    known = [row for row in rows if row.trust is None or not row.trust.tainted]
    most = max((row.throughput_qps for row in known), default=0.0)
    near = [row.streams for row in known if row.throughput_qps >= NEAR_BEST * most]
    fewest = min(near, default=None)
    return [row.model_copy(update={"best": row.streams == fewest}) for row in rows]
