"""A report as one page for people. Pure: the same report gives the same bytes."""

from enginefarm.report_page.page import render

__all__ = ["render"]
