"""What the pages for operators name is there: tests, settings, codes, and the moves of a job."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from enginefarm.codes import CODES
from enginefarm.state import JobState
from localfarm.settings_page import SECTIONS
from tasks.lifecycle import LEGAL_MOVES

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/operate").glob("*.md"))
LIFE = ROOT / "docs/operate/life-of-a-job.md"
WHO_LINKS = ("README.md", "ARCHITECTURE.md")
# Words with an underscore that are no codes: they are explained where they stand.
EVENTS = {
    "attempt_failed",
    "jobs_lost_by_node",
    "library_message",
    "loop_trouble",
    "node_out_of_service",
    "node_silent",
    "plugin_absent",
    "publish_postponed",
    "retention_failed",
    "retention_rule_failed",
    "retention_unreadable",
    "ring_repeated",
    "upload_read",
}
WORDS = {"enginefarm_retention_unreadable", "out_of_service", "wait_for_node"}
_TEST = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)


@cache
def all_test_names() -> frozenset[str]:
    """Return the name of every test: of each function whose ``def`` begins a line."""
    texts = (path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    return frozenset(chain.from_iterable(_TEST.findall(text) for text in texts))


def named(page: Path, pattern: str) -> set[str]:
    """Return the words of a page, in code quotes, that fit a pattern."""
    return set(re.findall(rf"`({pattern})`", page.read_text("utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    assert named(page, r"test_\w+") - all_test_names() == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_setting_that_a_page_names_is_there(page: Path) -> None:
    there = {
        f"{settings.model_config.get('env_prefix', '')}{field}".upper()
        for _, settings, _ in SECTIONS
        for field in settings.model_fields
    }

    assert named(page, r"ENGINEFARM_[A-Z0-9_]+") - there == set()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem != "settings"], ids=lambda page: page.stem
)
def test_every_code_that_a_page_names_is_there(page: Path) -> None:
    codes = {word for word in named(page, r"[a-z0-9]+(?:_[a-z0-9]+)+") if word[:5] != "test_"}

    assert codes - set(CODES) - EVENTS - WORDS == set()


def test_every_log_event_that_is_named_is_logged() -> None:
    sources = chain.from_iterable(
        (ROOT / room).rglob("*.py")
        for room in ("tasks", "intake", "workers", "client/src/enginefarm")
    )
    text = "\n".join(path.read_text("utf-8") for path in sources)

    assert {event for event in EVENTS if f'"{event}"' not in text} == set()


def test_the_picture_of_a_jobs_life_has_exactly_the_legal_moves() -> None:
    drawn = re.findall(
        r"^    (\w+|\[\*\]) --> (\w+|\[\*\])$", LIFE.read_text("utf-8"), re.MULTILINE
    )
    legal = {(str(state), str(goal)) for state, goals in LEGAL_MOVES.items() for goal in goals}
    ends = {(str(state), "[*]") for state in JobState if state.terminal}

    assert sorted(drawn) == sorted(legal | ends | {("[*]", "waiting")})


def test_every_state_of_a_job_is_explained() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", LIFE.read_text("utf-8"), re.MULTILINE))

    assert rows == {str(state) for state in JobState}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_is_found_from_the_first_ones(page: Path) -> None:
    link = f"docs/operate/{page.name}"

    assert [name for name in WHO_LINKS if link not in (ROOT / name).read_text("utf-8")] == []
