"""Kill the farm's parts at random while it builds, then look whether anything was lost or doubled.

A bench, not a test: it takes minutes, its numbers belong to the machine, its dangers to chance.
What it finds becomes a test of its own in ``tests/``.
"""
