"""Latency, accuracy and the machine they were measured on, as data."""
