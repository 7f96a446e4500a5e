"""What the tests on a GPU have seen, as a page of Markdown and as lines of their output."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Evidence:
    """Rows of tables, each table under its heading, in the order in which they came."""

    tables: dict[tuple[str, tuple[str, ...]], list[tuple[str, ...]]] = field(default_factory=dict)

    def row(self, heading: str, **cells: object) -> None:
        """Add a row to the table under a heading, and print it."""
        names = tuple(name.replace("_", " ") for name in cells)
        told = tuple(
            f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells.values()
        )
        self.tables.setdefault((heading, names), []).append(told)
        sys.stdout.write(
            f"{heading}: " + ", ".join(map(" ".join, zip(names, told, strict=True))) + "\n"
        )

    def write(self, path: Path) -> None:
        """Write the page."""
        lines: list[str] = []
        for (heading, names), rows in self.tables.items():
            lines += [f"## {heading}", "", _row(names), _row(["---"] * len(names))]
            lines += [*map(_row, rows), ""]
        path.write_text("\n".join(lines), "utf-8")


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
