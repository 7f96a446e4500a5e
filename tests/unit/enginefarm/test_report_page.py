"""The page of a report: whole, harmless, and the same wherever it is made."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from enginefarm.codes import CODES
from enginefarm.digest import digest_of
from enginefarm.precision_report import PrecisionReport
from enginefarm.report import BuildRecipe, BuildReport
from enginefarm.report_page import render
from enginefarm.report_page.markup import LONG, MAX_TEXT, UNSEEN, plain, table, tag
from enginefarm.report_page.page import STYLE
from enginefarm.sensitivity_report import SensitivityReport
from tests.contract.filled import filled
from tests.unit.enginefarm import reports

ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "section", "h1", "h2", "h3", "p", "span"),
    *("table", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "figure", "figcaption"),
    *("svg", "text", "rect", "line", "circle", "polyline"),
}
UNCLOSED = {"meta"}
PLUGIN = digest_of(b"a library")


class Reader(HTMLParser):
    """Reads a page and refuses what it does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in UNCLOSED:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: bytes) -> Reader:
    reader = Reader()
    reader.feed(page.decode("utf-8"))
    reader.close()
    assert reader.open == []
    return reader


def test_the_page_tells_what_the_report_has() -> None:
    page = read(render(reports.report()))
    for said in ("doubler", "onnxruntime@cpu", "cosine", "44", "0.98", "Samples to look at first"):
        assert said in page.text
    assert page.tags.count("svg") == 4  # errors by output, their histogram, latency, over time
    assert "17" in page.text
    assert "It had no gates to meet." in page.text


def test_the_page_names_the_plugins_that_the_engine_was_built_with() -> None:
    recipe = BuildRecipe(key=PLUGIN, plugins={"tensorrt": [PLUGIN]})
    told = reports.report().model_copy(update={"recipe": recipe})
    assert f"tensorrt {PLUGIN}" in read(render(told)).text
    assert "plugins" not in read(render(reports.report())).text


def test_the_same_report_gives_the_same_bytes() -> None:
    assert render(reports.report()) == render(
        BuildReport.model_validate_json(reports.report().model_dump_json())
    )


def test_nothing_of_a_hostile_report_becomes_markup() -> None:
    data = render(reports.hostile())
    page = read(data)

    assert set(page.tags) <= ALLOWED
    assert b"<script" not in data
    assert "<script>alert(1)</script>" in page.text  # as text, for everybody to see
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on") or name in {"style", "href", "src"}}
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text
    assert UNSEEN in page.text


def test_the_page_loads_nothing_and_its_policy_allows_nothing_but_its_style() -> None:
    data = render(reports.report()).decode()
    page = read(data.encode())
    policy = next(value for name, value in page.attributes if name == "content")
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

    assert policy is not None
    assert "default-src 'none'" in policy
    assert f"'sha256-{digest}'" in policy
    assert f"<style>{STYLE}</style>" in data
    assert not re.search(r"https?:|url\(|@import|//", data.replace("<!doctype html>", ""))


@pytest.mark.parametrize("optional", [True, False], ids=["all fields", "only what it needs"])
def test_whatever_a_report_has_or_lacks_there_is_a_page(*, optional: bool) -> None:
    assert read(render(filled(BuildReport, optional=optional))).text


def test_what_was_not_measured_says_why() -> None:
    told = reports.report(measured=False, reason="no <device>", latency=[], repair_reason="none")
    page = read(render(told.model_copy(update={"accuracy": None})))
    assert page.text.count("Not measured: no <device>") == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"outputs": [reports.output(max_abs_error=0.0, mean_abs_error=0.0, exact=True)]},
        {"outputs": [reports.output(max_abs_error=5e-324, mean_abs_error=0.0)]},
        {"outputs": [reports.output(max_abs_error=3.4e38, mean_abs_error=1e-30)]},
        {"latency": [reports.latency(over_time=[{"at_ms": 0, "p50": 0, "max": 0}])]},
        {"latency": [reports.latency(histogram={"edges": [2.0, 2.0], "counts": [9]})]},
        {"latency": [reports.latency(histogram={"edges": [2.0, 3.0], "counts": [0]})]},
    ],
    ids=["exact", "tiny", "huge", "no time", "one bin", "empty bin"],
)
def test_odd_numbers_are_drawn(changed: dict[str, object]) -> None:
    page = render(reports.report(**changed))
    assert b"nan" not in page
    assert b"inf" not in page.replace(b"information", b"")
    read(page)


def test_a_long_measurement_is_drawn_to_its_end() -> None:
    moments = [{"at_ms": 20.0 * n, "p50": 18.5, "max": 19.5} for n in range(240)]
    page = render(reports.report(latency=[reports.latency(over_time=moments)])).decode()
    lines = re.findall(r'<polyline points="([^"]*)"', page)
    assert len(lines) == 2
    for line in lines:
        # A drawing program drops the whole line for one point that it cannot read.
        assert all(re.fullmatch(r"[\d.]+,[\d.]+", point) for point in line.split())
        assert len(line.split()) == 240


def test_a_page_of_very_many_outputs_stays_bounded() -> None:
    page = render(reports.report(outputs=[reports.output(f"y{n}") for n in range(3000)]))
    assert len(page) < 400_000
    assert "2800 more are in report.json" in read(page).text


def test_text_is_escaped_and_bounded_wherever_it_stands() -> None:
    made = tag("td", "<&>", title='"><b>')
    assert made == '<td title="&quot;&gt;&lt;b&gt;">&lt;&amp;&gt;</td>'
    assert len(plain("x" * 10_000)) == MAX_TEXT + 1


def test_a_code_is_never_cut_in_two_and_a_digest_may_be() -> None:
    code, digest = "precision_not_on_architecture", "sha256:" + "a" * 64
    made = table(["why", "value"], [[f"{code} of {digest}", digest]], left=1)
    assert f'<td class="w">{code} of <span class="d">{digest}</span></td>' in made
    assert max(map(len, CODES)) <= LONG
    breaking = [rule for rule in STYLE.split("}") if "anywhere" in rule]
    assert all(".w" not in rule and "td" not in rule for rule in breaking)


def layer(name: str, loss: float | None) -> dict[str, object]:
    return {"node": name, "operator": "Conv", "cosine_loss": loss, "sqnr_db": 30.0}


@pytest.mark.parametrize("worst", [0.0, 1e-12, 0.25, 2.0])
def test_what_layers_cost_is_drawn_costliest_first(worst: float) -> None:
    told = filled(PrecisionReport, optional=False)
    rows = [layer("<hurt>", worst), layer("other", 0.0), layer("untried", None)]
    costs = SensitivityReport.model_validate(
        {
            "how": "one at a time",
            "layers_count": 3,
            "tried": 2,
            "estimate_samples": 9,
            "trial_samples": 4,
            "layers": rows,
            "steps": [{"kept": 0, "cosine": 0.75}, {"kept": 2, "cosine": 1.0}],
        }
    )
    with_costs = told.model_copy(update={"sensitivity": costs})
    data = render(reports.report().model_copy(update={"precision": with_costs}))
    page = read(data)
    assert page.text.index("<hurt>") < page.text.index("other") < page.text.index("untried")
    assert "2 of 3 layers were tried on 4 samples" in page.text
    assert page.tags.count("svg") == 5
    assert b"nan" not in data


def test_why_nothing_is_known_of_layers_is_said_and_nothing_where_nobody_asked() -> None:
    told = filled(PrecisionReport, optional=False)
    silent = reports.report().model_copy(update={"precision": told})
    why = told.model_copy(update={"sensitivity_reason": "no <output>"})
    assert "layers cost" not in read(render(silent)).text
    page = read(render(silent.model_copy(update={"precision": why})))
    assert "Not measured: no <output>" in page.text
