"""Ask for a comparison, let a node carry it out, and read what it came to."""

from __future__ import annotations

from typing import Any

from enginefarm.comparison import ComparisonSpec
from enginefarm.comparison_report import ComparisonReport
from enginefarm.state import Stage
from tasks.comparing.begin import build_for
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import CPU, Scene


def artifact(scene: Scene, node: FakeNode, target: str = CPU, **fields: Any) -> str:  # noqa: ANN401
    """Build and publish; return the artifact."""
    build_id = scene.submit(target, **fields)
    scene.run(node, build_id, target)
    scene.publish()
    digest: str = (scene.job(build_id, Stage.PUBLISH, target).result or {})["artifact"]
    return digest


def asked(scene: Scene, first: str, second: str, **fields: Any) -> str:  # noqa: ANN401
    spec = ComparisonSpec.model_validate({"first": first, "second": second} | fields)
    with scene.farm.database.transaction() as session:
        build = build_for(session, scene.tenant_id, spec, fields.get("key"))
    return scene.accept(build).build.id


def done(scene: Scene, node: FakeNode, build_id: str) -> ComparisonReport:
    scene.run(node, build_id)
    scene.publish()
    return told(scene, build_id)


def told(scene: Scene, build_id: str) -> ComparisonReport:
    result = scene.job(build_id, Stage.PUBLISH).result or {}
    return ComparisonReport.model_validate(result["report"])
