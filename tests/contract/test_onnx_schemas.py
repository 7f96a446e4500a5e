"""The table of ONNX's operators is what the installed package says of them."""

from __future__ import annotations

from bench.onnx_schemas import table
from enginefarm.preflight.tables.onnx_schemas import TABLE


def test_the_table_is_what_onnx_says() -> None:
    """If this fails: ``python -m bench.onnx_schemas``."""
    assert TABLE.read_text("utf-8") == table()
