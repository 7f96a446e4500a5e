"""What a report's page, the command line and the manifest tell of how a latency was measured."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from enginefarm.cli.measuring_lines import device_grid, streams_grid, streams_line, trust_lines
from enginefarm.cli.results import is_noisy, noise
from enginefarm.cli.tables import nodes_table
from enginefarm.manifest import LABELS
from enginefarm.report import TAINTED, LatencyReport, TimingsReport
from enginefarm.report_page import sections
from enginefarm.report_page.measuring import measuring, streams
from tasks.compose import _annotations
from tests.unit.client.test_cli_widths import NODE
from tests.unit.enginefarm import reports

TRUST: dict[str, Any] = {
    "exclusive": True,
    "exclusive_proof": "only its own process was shown",
    "samples": 30,
    "sm_clock": {"start": 345, "median": 1980.0, "end": 1965, "max": 1980},
    "throttle_reasons": [],
    "temperature_max_c": 41,
    "power_mean_w": 210.4,
    "energy_per_inference_mj": 512.3,
    "absent": {"governor": "this system shows none"},
}
BAD = "not alone on the device: process 7 was there before the job"


def row(*tainted: str, **changed: object) -> LatencyReport:
    """Return a latency on a GPU."""
    times = reports.latency()["end_to_end_ms"]
    names = ("latency_ms", "enqueue_ms", "h2d_ms", "gpu_compute_ms", "d2h_ms")
    device = dict.fromkeys(names, times) | {
        "throughput_qps": 480.0,
        "cuda_graph": True,
        "stable": True,
        "notes": ["a note of the device"],
    }
    told: dict[str, Any] = {"device": device, "trust": TRUST | {"tainted": list(tainted)}} | changed
    return LatencyReport.model_validate(reports.latency(**told))


def test_a_sweep_over_streams_is_a_curve_a_table_and_a_label_for_the_best() -> None:
    times = reports.latency()["end_to_end_ms"]
    rows = [
        {"streams": count, "throughput_qps": qps, "end_to_end_ms": times, "best": count == 2}
        for count, qps in ((1, 100.0), (2, 190.0), (4, 192.0))
    ]
    told = row(streams=rows, streams_reason="8 at a time do not run here: no memory")
    page = str(streams(reports.report().model_copy(update={"latency": [told]})))
    assert "Throughput by streams" in page
    assert page.count("<circle") == 1
    assert "8 at a time do not run here" in page
    grid = streams_grid([told])
    assert [cells[1:3] for cells in grid.rows] == [("1", "100.0"), ("2", "190.0"), ("4", "192.0")]
    rows[2]["trust"] = TRUST | {"tainted": [BAD]}
    doubted = row(streams=rows)
    assert streams_grid([doubted]).rows[2][2] == "~192.0"
    assert list(streams_line(doubted)) == [f"~ 4 streams at x 1x4, tainted: {BAD}"]
    assert [cells[-1] for cells in grid.rows] == ["", "best", ""]
    assert list(streams_line(told)) == ["streams   8 at a time do not run here: no memory"]
    assert str(streams(reports.report())) == ""


def test_a_tainted_latency_is_in_doubt_with_its_reason() -> None:
    assert not is_noisy(row())
    assert is_noisy(row(BAD))
    assert noise(row(BAD)) == f"tainted: {BAD}"


@pytest.mark.parametrize("tainted", [[], [BAD]])
def test_an_artifact_with_a_tainted_latency_has_the_label(tainted: list[str]) -> None:
    report = reports.report().model_copy(update={"latency": [row(*tainted)]})
    assert report.measurement_labels == ([TAINTED] if tainted else [])
    assert _annotations(report).get(LABELS) == (TAINTED if tainted else None)


def test_the_command_line_tells_the_conditions() -> None:
    said = "\n".join(trust_lines(row()))
    assert "SM 345 → 1980 → 1965 MHz" in said
    assert "held down by nothing" in said
    assert "512 mJ each" in said
    assert "yes: only its own process was shown" in said
    assert "on the device: a note of the device" in said
    assert list(trust_lines(LatencyReport.model_validate(reports.latency()))) == []


def test_the_command_line_has_trtexecs_metrics() -> None:
    console = Console(width=200)
    with console.capture() as shown:
        console.print(device_grid([row(), LatencyReport.model_validate(reports.latency())]))
    said = shown.get()
    assert "GPU compute" in said
    assert "480.0" in said


def test_a_node_says_of_each_gpu_that_is_out_why() -> None:
    gpus = [
        {"arch": "sm_90", "name": "NVIDIA H200", "uuid": "GPU-1", "fault": "Xid 79"},
        {"arch": "sm_90", "name": "NVIDIA H200", "uuid": "GPU-2", "fault": None},
    ]
    node = NODE.model_copy(update={"devices": [{"arch": "cpu", "name": "c"}, *gpus]})
    console = Console(width=400)
    with console.capture() as shown:
        console.print(nodes_table([node]))
    said = shown.get()
    assert "GPU-1 is out: Xid 79" in said
    assert "GPU-2 is out" not in said
    assert said.count("NVIDIA H200") == 2


def test_the_page_tells_all_of_it_and_what_taints() -> None:
    report = reports.report().model_copy(update={"latency": [row(BAD)]})
    page = measuring(report)
    for words in ("GPU compute", f"Tainted: {BAD}", "345 at the start", "this system shows none"):
        assert words in page
    assert measuring(reports.report()) == ""


def test_why_a_device_has_no_times_is_on_the_page() -> None:
    report = reports.report().model_copy(
        update={"latency": [row(device=None, device_reason="an output is text")]}
    )
    assert "an output is text" in measuring(report)


def test_a_node_says_why_a_backend_uses_no_gpu_that_is_there() -> None:
    row = NODE.backends[0].model_copy(update={"gpus_unused": "libcublas.so.13: not found"})
    console = Console(width=400)
    with console.capture() as shown:
        console.print(nodes_table([NODE.model_copy(update={"backends": [row]}), NODE]))
    said = shown.get()
    assert said.count("uses no GPU: libcublas.so.13: not found") == 1


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"begun_with": True, "hits": 118}, "118 came from earlier builds"),
        ({"begun_with": True}, "of earlier builds, too"),
        ({"begun_with": False, "hits": 0}, "began with none of earlier builds"),
        ({"begun_with": False, "refused": "header mismatch"}, "refused: header mismatch"),
    ],
)
def test_a_report_says_what_earlier_timings_did_for_a_build(
    told: dict[str, Any], says: str
) -> None:
    timings = TimingsReport.model_validate(told)
    assert says in timings.said
    report = reports.report()
    compiled = report.compile.model_copy(update={"timings": timings})
    assert says in str(sections.head(report.model_copy(update={"compile": compiled})))
    assert "timings" not in str(sections.head(report))
