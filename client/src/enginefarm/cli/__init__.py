"""The command line, for people: ``enginefarm submit``, ``watch``, ``pull`` and the rest."""

from enginefarm.cli.app import main

__all__ = ["main"]
