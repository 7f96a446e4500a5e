"""The words and the code agree on which backends this version has."""

from __future__ import annotations

from enginefarm.target import BACKEND_ARCHITECTURES, NOT_IN_THIS_VERSION
from workers.backends.registry import MODULES


def test_a_backend_is_in_this_version_exactly_if_a_node_has_code_for_it() -> None:
    assert set(BACKEND_ARCHITECTURES) - NOT_IN_THIS_VERSION == set(MODULES)
    assert set(BACKEND_ARCHITECTURES) > NOT_IN_THIS_VERSION
