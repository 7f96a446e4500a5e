"""The command line, for people: ``enginefarm submit``, ``watch``, ``pull`` and the rest."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_INTERRUPTED = 130

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    try:
        # Late, since it takes a while: whoever presses Ctrl-C meanwhile is not shown a traceback.
        from enginefarm.cli.app import invoke

        code = invoke(sys.argv[1:] if args is None else args)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    sys.exit(code)
