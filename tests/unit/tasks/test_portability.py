"""What is said of one engine on several SKUs: the worst decides, and each keeps its own numbers."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.gate import Gate
from enginefarm.portability_rows import sku_rows, summary
from enginefarm.report import TAINTED, UNMEASURED_SKU, BuildReport, Machine
from enginefarm.report_page import render
from enginefarm.verdict_report import VerdictReport
from tasks.portability import together
from tests.unit.enginefarm.precise_reports import VERDICT
from tests.unit.enginefarm.reports import latency, machine, output, report

COSINE = Gate.model_validate({"metric": "cosine", "at_least": 0.99})
SIZE = Gate.model_validate({"metric": "engine_bytes", "at_most": 1 << 30})
GONE = "not measured on l4: no node took it within the pending limit"


def on(device: str, middle: float = 2.0, **changed: Any) -> BuildReport:  # noqa: ANN401 - any field
    rows = changed.pop("latency", [latency(middle, batch=1)])
    where = machine(device=device, driver="580.1")
    return report(measure_machine=where, latency=rows, **changed)


def verdict(value: float | None, *, met: bool, **more: object) -> dict[str, Any]:
    return {"gate": "cosine >= 0.99", "value": value, "met": met} | more


def built_on(device: str) -> Machine:
    return Machine.model_validate(machine(device=device))


def test_ratios_are_to_the_sku_that_the_engine_was_built_on() -> None:
    both = {"l4": on("NVIDIA L4", 2.0), "l40s": on("NVIDIA L40S", 1.0)}
    told = together(both, [], built_on("NVIDIA L40S"))
    assert told.portability is not None
    assert (told.portability.compiled_on, told.portability.reference) == ("l40s", "l40s")
    assert told.latency == both["l40s"].latency
    ratios = {row.sku: row.ratios[0] for row in told.portability.skus}
    assert ratios["l40s"] == 1.0
    assert ratios["l4"] == pytest.approx(2.0, rel=0.05)


def test_without_a_measurement_there_the_first_that_was_measured_is_the_reference() -> None:
    gone = on("NVIDIA L4").model_copy(
        update={"measured": False, "reason": GONE, "latency": [], "measure_machine": None}
    )
    told = together({"l4": gone, "l40s": on("NVIDIA L40S")}, [], built_on("NVIDIA L4"))
    assert told.portability is not None
    assert (told.portability.compiled_on, told.portability.reference) == ("l4", "l40s")
    assert told.measured
    assert told.measurement_labels == [UNMEASURED_SKU]
    lines = [(row.sku, row.p50_ms is None, row.doubt) for row in sku_rows(told.portability)]
    assert lines == [("l4", True, GONE), ("l40s", False, "")]
    assert "built on l4" in summary(told.portability)
    page = render(told).decode()
    assert "On several SKUs" in page
    assert GONE in page


def test_shapes_that_the_reference_was_not_measured_at_have_no_ratio() -> None:
    more = [latency(), latency(shapes={"x": [8, 4]})]
    told = together({"l4": on("NVIDIA L4"), "l40s": on("NVIDIA L40S", latency=more)}, [], None)
    assert told.portability is not None
    assert [len(row.ratios) for row in told.portability.skus] == [1, 2]
    assert told.portability.skus[1].ratios[1] is None


def test_the_worst_sku_decides_each_gate_and_what_is_the_same_on_all_is_said_once() -> None:
    size = {"gate": "engine_bytes <= 1073741824", "value": 1000.0, "met": True}
    right = verdict(0.999, met=True)
    wrong = verdict(0.5, met=False, missed_by=0.49)
    blind = verdict(None, met=False, reason=GONE)
    reports = {
        "l4": on("NVIDIA L4", gates=[blind, size]),
        "a": on("NVIDIA A", gates=[right, size]),
        "b": on("NVIDIA B", gates=[wrong, size]),
    }
    cosine, bytes_ = together(reports, [COSINE, SIZE], None).gates
    assert (cosine.met, cosine.value, cosine.missed_by) == (False, 0.5, 0.49)
    assert cosine.reason == "on b, the worst of 3 SKUs; missed on l4, too"
    assert (bytes_.met, bytes_.reason) == (True, None)
    del reports["b"]
    (cosine, _) = together(reports, [COSINE, SIZE], None).gates
    assert (cosine.met, cosine.value, cosine.reason) == (False, None, GONE)
    near = verdict(0.991, met=True)
    reports["l4"] = on("NVIDIA L4", gates=[near, size])
    (cosine, _) = together(reports, [COSINE, SIZE], None).gates
    assert (cosine.met, cosine.value) == (True, 0.991)


def judged(device: str, word: str | None, *, held: bool) -> BuildReport:
    told = VERDICT | {"verdict": word, "held_back": held, "reason": f"of {device}"}
    return on(device, precision_verdict=VerdictReport.model_validate(told))


@pytest.mark.parametrize(
    ("words", "worst"),
    [
        (("accept", "accept"), "accept"),
        (("accept", None), None),
        (("slower", None), "slower"),
        (("slower", "regression"), "regression"),
    ],
)
def test_a_precision_is_what_it_is_on_the_worst_sku(
    words: tuple[str | None, ...], worst: str | None
) -> None:
    heavy = {"slower", "regression"}
    reports = {
        f"sku-{n}": judged(f"NVIDIA SKU {n}", word, held=word in heavy)
        for n, word in enumerate(words)
    }
    told = together(reports, [], None).precision_verdict
    assert told is not None
    assert (told.verdict, told.held_back) == (worst, worst in heavy)
    assert told.reason.startswith(f"on sku-{words.index(worst)}: of NVIDIA SKU")


def test_a_latency_that_is_tainted_on_any_sku_is_warned_of() -> None:
    stranger = "a stranger was on the device"
    trust = {"exclusive": False, "exclusive_proof": stranger, "tainted": [stranger]}
    taint = [latency(trust=trust)]
    told = together({"a": on("NVIDIA A"), "b": on("NVIDIA B", latency=taint)}, [], None)
    assert told.measurement_labels == [TAINTED]
    assert told.portability is not None
    assert [row.doubt for row in sku_rows(told.portability)] == ["", stranger]


def test_an_engine_that_is_wrong_on_one_sku_shows_its_worst_output_there() -> None:
    bad = on("NVIDIA B", outputs=[output("y", cosine=0.4), output("z")])
    told = together({"a": on("NVIDIA A"), "b": bad}, [], None)
    assert told.portability is not None
    assert [row.cosine for row in sku_rows(told.portability)] == [0.999, 0.4]
