"""``python -m enginefarm.cli``: the same as the ``enginefarm`` command."""

from enginefarm.cli import main

if __name__ == "__main__":
    main()
