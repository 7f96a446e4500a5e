"""``--precision auto`` asks for a search, follows it, and says what was found, be it a no."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.report_page.front import render_search
from enginefarm.search_views import SearchPage
from tests.unit.client.support.searches import (
    DATA,
    FAILURE,
    TARGET,
    candidate,
    outcome,
    search,
)
from tests.unit.client.support.server import Handler, LoopbackFarm
from tests.unit.client.support.views import ARTIFACT, MODEL

AUTO = ["submit", MODEL, "-t", TARGET, "--precision", "auto"]


def searching(farm: LoopbackFarm, *states: str, **more: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Let the farm take searches that stand so, one after another; return the bodies that come."""
    bodies: list[dict[str, Any]] = []
    left = list(states)

    def begun(handler: Handler) -> None:
        bodies.append(json.loads(handler.body()))
        empty = search("running", candidates=[], chosen=None, artifact=None, verdict="")
        handler.reply(201, empty.model_dump_json().encode())

    def shown(handler: Handler) -> None:
        view = search(left.pop(0) if len(left) > 1 else left[0], **more)
        handler.reply(200, view.model_dump_json().encode())

    farm.routes["/v1/searches"] = begun
    farm.routes["/v1/searches/srch_1"] = shown
    return bodies


def test_a_line_asks_for_a_search_with_all_that_was_written(farm_env: LoopbackFarm) -> None:
    bodies = searching(farm_env, "succeeded")
    line = [
        *("--calibration", DATA, "--require", "cosine>=0.99", "--require", "latency_p99_ms<=5"),
        *("--budget", "6,30m", "--prefer", "size", "--option", "precision.kinds=int8,fp16"),
        *("--option", "precision.exclude=head*", "--option", "precision.layers=8"),
        *("--option", "compile.graph_optimization=basic", "--priority", "2"),
    ]
    assert invoke([*AUTO, *line]) == ExitCode.OK
    body = bodies[0]
    assert body["calibration"] == DATA
    assert [row["metric"] for row in body["require"]] == ["cosine", "latency_p99_ms"]
    assert (body["budget"]["candidates"], body["budget"]["seconds"]) == (6, 1800)
    assert body["prefer"] == "size"
    assert (body["space"]["kinds"], body["space"]["exclude"]) == (["int8", "fp16"], ["head*"])
    assert body["space"]["layers"] == 8
    assert body["build"]["precision"]["kind"] == "as-is"
    assert body["build"]["options"]["compile"]["graph_optimization"] == "basic"
    assert body["build"]["priority"] == 2


def test_it_is_followed_to_its_end_and_the_table_and_the_digest_are_told(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginefarm.client.searches.time.sleep", lambda _: None)
    searching(farm_env, "running", "succeeded")
    assert invoke(AUTO) == ExitCode.OK
    told = capsys.readouterr()
    notes = told.err.index("note: tried are the model as it came, int8, fp16")
    assert notes < told.err.index("2: int8 2 kept is over")
    assert "exact" in told.out
    assert "0.9931" in told.out
    assert "candidate 3 failed [precision_not_finite]" in told.out
    assert "Candidate 2 is the best." in told.out
    assert f"enginefarm pull {ARTIFACT}" in told.out


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("unmet", ExitCode.BUILD_FAILED),
        ("failed", ExitCode.BUILD_FAILED),
        ("cancelled", ExitCode.CANCELLED),
    ],
)
def test_how_it_ended_is_in_the_exit_code(
    farm_env: LoopbackFarm, state: str, code: ExitCode
) -> None:
    searching(farm_env, state, chosen=None, artifact=None)
    assert invoke(["search", "watch", "srch_1"]) == code


def test_profiles_to_try_are_named_and_written_as_the_builds_own(
    farm_env: LoopbackFarm,
) -> None:
    bodies = searching(farm_env, "succeeded")
    line = [
        *("--profile", "x:0=1x4:2x4:4x4", "--option", "benchmark.shapes=x:0=2x4"),
        *("--try-profile", "wide:x:0=1x4:8x4:8x4"),
        *("--try-profile", "each:x:0=1x4,x:0=2x4", "--try-profile", "each:x:0=4x4"),
    ]
    assert invoke([*AUTO, *line]) == ExitCode.OK
    body = bodies[0]
    space = body["space"]["profiles"]
    assert [row["x:0"]["opt"] for row in space["wide"]] == [[8, 4]]
    assert [row["x:0"]["opt"] for row in space["each"]] == [[1, 4], [2, 4], [4, 4]]
    assert body["build"]["options"]["benchmark"]["shapes"] == [{"x:0": [2, 4]}]


def test_the_profile_of_each_candidate_is_shown_where_there_are_several(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = {"x": {"min": [1], "opt": [1], "max": [1]}}
    asked = search().spec.model_dump(mode="json") | {"space": {"profiles": {"wide": [profile]}}}
    candidates = [
        candidate(1, "as-is", outcome=outcome(None, 5.0, accuracy_of="original")),
        candidate(2, outcome=outcome(0.9931), on_front=True, profile="wide"),
    ]
    searching(farm_env, "succeeded", candidates=candidates, spec=asked)
    assert invoke(["search", "watch", "srch_1"]) == ExitCode.OK
    told = capsys.readouterr()
    assert "2: int8 2 kept, profile wide is over" in told.err
    assert "wide" in told.out
    assert "as asked" in told.out
    page = Page(render_search(search(candidates=candidates, spec=asked)))
    assert "wide" in page.text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["--budget", "6,7"], "--budget"),
        (["--try-profile", "x=1x4:2x4:4x4"], "small:x="),
        (["--try-profile", "wide:x=1by4"], "1by4"),
        (["--try-profile", "Wide Open:x=1x4"], "Wide Open"),
        (["--budget", "soon"], "--budget"),
        (["--require", "cosin>=0.9"], "cosine"),
        (["--require", "cosine<=0.9"], "cosine"),
        (["--option", "precision.metods=minmax"], "methods"),
        (["--prefer", "beauty"], "latency"),
        (["--dry-run"], "planned"),
        (["-t", "tensorrt-rtx@sm_89"], "one target"),
        (["--calibration", "nothing-here.npz"], "nothing-here.npz"),
    ],
)
def test_what_is_misspelt_is_told_before_anything_is_begun(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str], line: list[str], said: str
) -> None:
    bodies = searching(farm_env, "succeeded")
    assert invoke([*AUTO, *line]) in {ExitCode.USAGE, ExitCode.BAD_INPUT}
    assert said in capsys.readouterr().err
    assert bodies == []


@pytest.mark.parametrize(
    "option",
    [["--require", "cosine>=0.9"], ["--budget", "3"], ["--try-profile", "a:x=1x4"]],
)
def test_what_is_for_searches_is_refused_without_one(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    assert invoke(["submit", MODEL, "-t", TARGET, *option]) == ExitCode.USAGE
    assert "--precision auto" in capsys.readouterr().err


def test_searches_are_listed_shown_and_cancelled(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    searching(farm_env, "succeeded")
    page = SearchPage(items=[search()], next_cursor=None)
    farm_env.routes["/v1/searches"] = lambda handler: handler.reply(
        200, page.model_dump_json().encode()
    )
    farm_env.routes["/v1/searches/srch_1/cancel"] = lambda handler: handler.reply(
        200, search("cancelled").model_dump_json().encode()
    )
    assert invoke(["search", "list"]) == ExitCode.OK
    assert "3 of 12" in capsys.readouterr().out
    assert invoke(["search", "show", "srch_1", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["chosen"] == 2
    assert invoke(["search", "cancel", "srch_1"]) == ExitCode.OK
    assert capsys.readouterr().out == "srch_1 cancelled\n"


class Page(HTMLParser):
    """Collects tags and text."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(data.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_of_a_search_draws_its_candidates_and_loads_nothing(
    farm_env: LoopbackFarm, tmp_path: Path
) -> None:
    searching(farm_env, "succeeded")
    path = tmp_path / "front.html"
    assert invoke(["search", "show", "srch_1", "--html", str(path)]) == ExitCode.OK
    data = path.read_bytes()
    page = Page(data)
    assert page.tags.count("svg") == 1
    assert page.tags.count("circle") == 2
    assert "script" not in page.tags
    assert b"default-src &#x27;none&#x27;" in data
    assert "Candidate 2 is the best." in page.text
    assert data == render_search(search())


@pytest.mark.parametrize(
    "candidates",
    [
        [],
        [candidate(1, outcome=outcome(0.5, None))],
        [candidate(1, outcome=outcome(0.0, 0.0)), candidate(2, outcome=outcome(0.0, 0.0))],
        [candidate(1, outcome=None, build=None, build_state=None)],
        [candidate(1, why="</svg><script>alert(1)</script>", outcome=outcome(0.5))],
    ],
    ids=["none", "not run", "all alike", "under way", "hostile"],
)
def test_whatever_became_of_candidates_there_is_a_page(candidates: list[Any]) -> None:
    data = render_search(search(candidates=candidates, chosen=None, artifact=None))
    assert b"nan" not in data
    assert "script" not in Page(data).tags


def test_a_tainted_latency_is_never_shown_without_a_word(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    told = outcome(0.9931, tainted=["clocks were held down: SwPowerCap"])
    gone = {"failure": FAILURE | {"message": "It was not tried: no live node has modelopt."}}
    candidates = [
        candidate(1, "as-is", outcome=outcome(None, 5.0, accuracy_of="original")),
        candidate(2, outcome=told, on_front=True),
        candidate(3, "fp8", outcome=gone | {"untried": True}, build=None, build_state=None),
    ]
    searching(farm_env, "succeeded", candidates=candidates, chosen=1)
    assert invoke(["search", "show", "srch_1"]) == ExitCode.OK
    shown = capsys.readouterr().out
    assert "2.50 ms tainted" in shown
    assert "yes, tainted" in shown
    assert "candidate 2: its latency is tainted: clocks were held down" in shown
    assert "not tried" in shown
    assert "candidate 3: It was not tried: no live node has modelopt." in shown
    page = Page(render_search(search(candidates=candidates)))
    assert "2 (tainted)" in page.text
    assert "chosen, tainted" in page.text
    assert "2.5 (tainted)" in page.text


def test_a_candidate_that_its_verdict_keeps_back_says_so_in_table_and_page(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = outcome(0.9999, met=False, artifact_state="quarantined")
    candidates = [candidate(2, "fp16", outcome=slow | {"held_back": "slower than its twin"})]
    searching(farm_env, "unmet", candidates=candidates, chosen=None, artifact=None)
    assert invoke(["search", "show", "srch_1"]) == ExitCode.OK
    assert "no: slower than its twin" in capsys.readouterr().out
    page = Page(render_search(search("unmet", candidates=candidates, chosen=None)))
    assert "no: slower than its twin" in page.text


def test_points_that_lie_on_each_other_share_a_label_and_no_digest_stands_in_the_table() -> None:
    alike = [
        candidate(2, outcome=outcome(0.9999, 20.65)),
        candidate(5, outcome=outcome(0.9999, 21.47), profile="wide"),
        candidate(6, outcome=outcome(0.9999, 21.09), profile="wider"),
    ]
    first = candidate(1, "as-is", outcome=outcome(None, 45.3, accuracy_of="original"))
    data = render_search(search(candidates=[first, *alike])).decode()
    assert ">2, 5, 6</text>" in data
    assert ">1</text>" in data
    table = data[data.index("<table>") : data.index("</table>")]
    assert "sha256" not in table
    assert data.index("all in int8, ranges by minmax") > data.index("</table>")
