"""A report as one HTML page that needs nothing: no network, no script, no font."""

from __future__ import annotations

import base64
import hashlib

from enginefarm.report import BuildReport
from enginefarm.report_page import precision, sections
from enginefarm.report_page.layers import layers
from enginefarm.report_page.markup import Markup, tag
from enginefarm.report_page.measuring import measuring, streams
from enginefarm.report_page.portability import portability

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:66rem;margin:2rem auto;padding:0 1rem}
body{color:#1b1f24}h1{font-size:1.5rem}h3{font-size:1rem}
h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #d8dee4}
table{border-collapse:collapse;margin:.5rem 0;display:block;overflow-x:auto}
th,td{padding:.2rem .5rem;border-bottom:1px solid #eaeef2;vertical-align:top;text-align:left}
th{font-weight:600;white-space:nowrap}.n{text-align:right;font-variant-numeric:tabular-nums}
.w{min-width:4.5rem}.d{overflow-wrap:anywhere}p{overflow-wrap:break-word}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}
dt{color:#59636e}dd{margin:0;overflow-wrap:anywhere}.note{color:#59636e}
.good{color:#1a7f37;font-weight:600}.bad{color:#b42318;font-weight:600}
figure{margin:1rem 0}figcaption{color:#59636e;overflow-wrap:anywhere}svg{max-width:100%;height:auto}
svg text{font-size:11px;fill:#59636e}line{stroke:#afb8c1}.bar{fill:#4393c3}.mean{fill:#b2182b}
polyline{fill:none}.mid{stroke:#2166ac;stroke-width:2}.slow{stroke:#d6604d;stroke-width:.7}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}
h2,th,td{border-color:#30363d}dt,.note,figcaption{color:#9198a1}svg text{fill:#9198a1}
.good{color:#3fb950}.bad{color:#f85149}}
"""


def render(report: BuildReport) -> bytes:
    """Return the page of a report; the same report gives the same bytes."""
    return document(
        f"Report: {report.model_name or report.model} for {report.target}",
        sections.head(report),
        sections.gates(report),
        precision.verdict(report),
        precision.precision(report),
        sections.accuracy(report),
        layers(report),
        sections.latency(report),
        streams(report),
        portability(report),
        measuring(report),
        sections.changes(report),
        sections.findings(report),
        sections.machines(report),
        sections.origin(report),
    )


def document(title: str, *parts: Markup) -> bytes:
    """Return a whole page of these parts; its policy allows nothing but its own style."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    page = tag("html", head, tag("body", *parts), lang="en")
    return f"<!doctype html>\n{page}\n".encode()
