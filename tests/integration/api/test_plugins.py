"""What a build may name is what live nodes have, over HTTP and on the command line."""

from __future__ import annotations

from enginefarm.cli.tables import plugins_table
from enginefarm.digest import digest_of
from enginefarm.state import Scope
from enginefarm.views import PluginView
from tasks.messages import BackendDescription, PluginDescription
from tests.integration.api.asked import submit
from tests.integration.api.node import enrol
from tests.integration.api.served import Served

OPS, SCALE = digest_of(b"operators"), digest_of(b"scale")


def offered(name: str, *plugins: PluginDescription, arch: str) -> BackendDescription:
    return BackendDescription(
        name=name, version="1", builds=[arch], measures=[], plugins=list(plugins)
    )


def test_each_library_is_listed_once_for_its_backend_with_the_nodes_that_have_it(
    api: Served,
) -> None:
    ops = PluginDescription(name="libops.so", digest=OPS)
    scale = PluginDescription(name="libscale.so", digest=SCALE, operators=["FarmScale"])
    both = [offered("onnxruntime", ops, arch="cpu"), offered("tensorrt", scale, arch="sm_89")]
    with (
        enrol(api, "a", *both).client,
        enrol(api, "b", offered("onnxruntime", ops, arch="cpu")).client,
        enrol(api, "c").client,
        api.client(Scope.READ) as client,
    ):
        listed = [PluginView.model_validate(row) for row in client.get("/v1/plugins").json()]

    assert [(row.backend, row.digest, row.operators, row.nodes) for row in listed] == [
        ("onnxruntime", OPS, None, ["a", "b"]),
        ("tensorrt", SCALE, ["FarmScale"], ["a"]),
    ]
    told = "\n".join(str(line) for line in plugins_table(listed).rows)
    assert OPS in told
    assert "FarmScale" in told


def test_a_build_that_names_what_no_node_has_is_told_what_there_is(api: Served) -> None:
    ops = PluginDescription(name="libops.so", digest=OPS)
    with (
        enrol(api, "a", offered("onnxruntime", ops, arch="cpu")).client,
        api.client(Scope.SUBMIT, Scope.READ) as client,
    ):
        answer = submit(client, options={"plugins": {"onnxruntime": [SCALE]}})
    told = answer.json()
    assert (answer.status_code, told["code"]) == (422, "plugin_not_served")
    assert f"libops.so {OPS} (onnxruntime)" in told["detail"] + str(told.get("why"))
    assert f"No live node has {SCALE}" in str(told)
