"""Inputs of the kind that the shipped models are made for; the bench makes them."""

from __future__ import annotations

from bench.real_inputs import samples

__all__ = ["samples"]
