"""Where the time of a run goes on a GPU, by trtexec's names and definitions. Milliseconds."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from enginefarm.percentiles import Percentiles


class DeviceTimes(BaseModel):
    """One measurement with CUDA events between the steps of each run, all on one stream.

    Each run copies its inputs from pinned memory to the device, runs the engine and copies the
    outputs back to pinned memory; the next begins when it has ended.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    latency_ms: Percentiles = Field(description="H2D, GPU compute and D2H of each run together.")
    enqueue_ms: Percentiles = Field(
        description="How long the host took to hand the run over to the device."
    )
    h2d_ms: Percentiles = Field(description="Inputs to the device.")
    gpu_compute_ms: Percentiles = Field(
        description="From before the run to after it, on the device."
    )
    d2h_ms: Percentiles = Field(description="Outputs to the host.")
    throughput_qps: float = Field(gt=0, description="Runs per second of wall time, one stream.")
    cuda_graph: bool = Field(description="Whether the runs were replays of one CUDA graph.")
    stable: bool = Field(description="Whether the median settled before the time limit.")
    notes: list[str] = []
