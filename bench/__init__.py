"""Measurements: each prints a table or ratios that the documentation quotes."""
