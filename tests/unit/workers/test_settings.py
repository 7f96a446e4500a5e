"""A node's settings, and what of the environment its jobs may see."""

from __future__ import annotations

import importlib
import re
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

import bench
from enginefarm.state import Stage
from tasks.routing import NODE_STAGES
from workers import settings
from workers.settings import (
    NodeSettings,
    child_environment,
    default_node_name,
    tool_environment,
)

NEEDED = {"URL": "http://farm", "BROKER_URL": "redis://b", "ENROLMENT_TOKEN": "hush"}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Return an environment with what every node is told."""
    for name, value in NEEDED.items():
        monkeypatch.setenv(f"ENGINEFARM_{name}", value)
    return monkeypatch


def read() -> NodeSettings:
    """Return the settings from the environment."""
    return NodeSettings.model_validate(NodeSettings())


def test_the_defaults_are_all_stages_and_one_slot(environment: pytest.MonkeyPatch) -> None:
    found = read()
    assert found.stages == list(NODE_STAGES)
    assert found.slots == 1
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,62}", found.node_name)


@pytest.mark.parametrize("text", ["check,compile", "check compile", "check, compile"])
def test_stages_are_a_list_of_words(environment: pytest.MonkeyPatch, text: str) -> None:
    environment.setenv("ENGINEFARM_STAGES", text)
    assert read().stages == [Stage.CHECK, Stage.COMPILE]


def test_a_stage_that_does_not_exist_is_refused(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("ENGINEFARM_STAGES", "chek")
    with pytest.raises(ValidationError):
        read()


def test_secrets_do_not_show(environment: pytest.MonkeyPatch) -> None:
    assert "hush" not in repr(read())
    assert "redis://b" not in repr(read())


def test_a_child_sees_no_secret_and_can_import_the_farm(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    environment.setenv("CUDA_VISIBLE_DEVICES", "GPU-1")
    found = child_environment(tmp_path)
    assert not [name for name in found if name.startswith(("ENGINEFARM", "AWS"))]
    assert "hush" not in found.values()
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert found["HOME"] == found["TMPDIR"] == str(tmp_path)
    assert Path(found["PYTHONPATH"].split(":")[0], "workers", "child.py").is_file()


def test_no_runtime_in_a_child_or_a_tool_tells_its_maker(tmp_path: Path) -> None:
    for found in (child_environment(tmp_path), tool_environment(tmp_path)):
        assert found["ORT_DISABLE_TELEMETRY"] == "1"


@pytest.mark.parametrize(
    ("host", "name"), [("GPU_07.rack", "gpu_07.rack"), ("--", "node"), ("a b", "a-b")]
)
def test_a_machines_name_becomes_a_nodes_name(
    monkeypatch: pytest.MonkeyPatch, host: str, name: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert default_node_name() == name


def test_benches_that_run_models_themselves_tell_nobody_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for there, then in (({}, "1"), ({"ORT_DISABLE_TELEMETRY": "0"}, "0")):
        found: dict[str, str] = dict(there)
        monkeypatch.setattr(settings, "os", SimpleNamespace(environ=found))
        importlib.reload(bench)
        assert found == {"ORT_DISABLE_TELEMETRY": then}


def test_a_variable_that_is_set_to_nothing_names_no_folder_of_plugins(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("ENGINEFARM_NODE_PLUGINS", "")
    assert read().node_plugins is None
    environment.setenv("ENGINEFARM_NODE_PLUGINS", "/plugins")
    assert read().node_plugins == Path("/plugins")
