"""Write the table of docs/use/repair.md from the passes: ``python -m localfarm.repairs_page``."""

from __future__ import annotations

from enginefarm.repairs import REPAIRS, Repair
from localfarm.settings import ROOT

PAGE = ROOT / "docs" / "use" / "repair.md"
BEGIN, END = "<!-- passes: begin -->", "<!-- passes: end -->"


def page() -> str:
    """Return the whole page with the table as it should be."""
    before, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    rows = ["| pass | mends | kind | for |", "| --- | --- | --- | --- |", *map(_row, REPAIRS)]
    return f"{before}{begin}\n" + "\n".join(rows) + f"\n{end}{after}"


def _row(row: Repair) -> str:
    backends = ", ".join(f"`{name}`" for name in sorted(row.backends)) or "all"
    precise = "; all before another precision" if row.precise else ""
    when = f"{backends}{precise}" + ", on request" * row.asked
    return f"| `{row.name}` {row.version} | {row.mends} | {row.exactness} | {when} |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
