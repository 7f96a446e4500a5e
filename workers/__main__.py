"""``python -m workers``: run a node."""

from __future__ import annotations

import sys

from workers.entry import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
