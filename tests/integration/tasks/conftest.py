"""A tenant with a model on the real services, and nodes that exist only in words."""

from __future__ import annotations

import pytest

from tasks.farm import Farm
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene


@pytest.fixture
def scene(farm: Farm) -> Scene:
    return Scene.on(farm)


@pytest.fixture
def node(farm: Farm) -> FakeNode:
    return FakeNode(farm, "node-a")
