"""Rows, objects, outbox, access keys, signing and progress streams.

This package keeps bytes and rows; what may happen to a build is decided in ``tasks``.
"""
