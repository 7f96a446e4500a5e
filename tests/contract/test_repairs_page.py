"""Every repair is documented where a person looks for it."""

from __future__ import annotations

from enginefarm.repairs import REPAIRS
from localfarm.repairs_page import PAGE, page


def test_the_table_of_passes_is_what_the_passes_say() -> None:
    """If this fails: ``python -m localfarm.repairs_page``."""
    assert PAGE.read_text("utf-8") == page()
    assert all(f"| `{row.name}` {row.version} |" in page() for row in REPAIRS)


def test_what_each_pass_mends_is_a_sentence() -> None:
    for row in REPAIRS:
        assert row.mends[0].isupper()
        assert row.mends.endswith(".")
