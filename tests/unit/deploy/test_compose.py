"""docker-compose.yml is valid, and everything that it and the Dockerfiles name is real.

There may be no Docker engine where these tests run, so each name is held against what it names.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyOptions
from pydantic_settings import BaseSettings

from api.settings import ApiSettings
from storage.settings import StorageSettings
from tasks.settings import ControlSettings
from tests.unit.deploy.composition import (
    COMPOSE,
    ROOT,
    Dockerfile,
    arguments,
    composition,
    example_values,
    interpolated,
    variables,
)
from workers.settings import NodeSettings

BIN = Path(sys.executable).parent
SETTINGS: dict[str, type[BaseSettings]] = {
    "api": ApiSettings,
    "tasks": ControlSettings,
    "storage": StorageSettings,
    "workers": NodeSettings,
}
TEXT = COMPOSE.read_text("utf-8")
REQUIRED = [name for name, default in variables(TEXT).items() if default is None]
SERVICES: dict[str, dict[str, Any]] = composition()["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
FOREIGN = {name: service for name, service in SERVICES.items() if "build" not in service}
NODES = {name: service for name, service in SERVICES.items() if name.startswith("node-")}
GPU_NODES = {name: service for name, service in NODES.items() if name != "node-cpu"}


def dockerfile(service: dict[str, Any]) -> Dockerfile:
    return Dockerfile(ROOT / service["build"]["dockerfile"])


def programs(service: dict[str, Any]) -> list[list[str]]:
    """Return all that a service of ours runs: its command and its health check."""
    command = service.get("command") or json.loads(dockerfile(service).of("CMD")[0])
    checked = arguments(service["healthcheck"]["test"]) if "healthcheck" in service else []
    return arguments(command) + checked


def modules(service: dict[str, Any]) -> list[str]:
    return [words[2] for words in programs(service) if words[:2] == ["python", "-m"]]


def test_the_file_follows_the_compose_specification() -> None:
    # Compose resolves anchors and merges before it looks at anything else.
    resolved = {key: value for key, value in composition().items() if not key.startswith("x-")}

    parsed = PyOptions().from_yaml(yaml.safe_dump(resolved))

    parsed.validate()
    assert set(SERVICES) == set(parsed.service_names())


@pytest.mark.parametrize(
    "name", [n for n, d in variables(COMPOSE.read_text()).items() if d is None]
)
def test_a_secret_that_is_not_given_is_refused_by_its_name(name: str) -> None:
    values = example_values() | {name: ""}

    with pytest.raises(KeyError, match=name):
        interpolated(TEXT, values)


def test_the_example_environment_names_exactly_the_variables_of_the_file() -> None:
    assert set(variables(TEXT)) == set(example_values())


def test_the_topology_is_the_whole_farm() -> None:
    parts = {"postgres", "valkey", "s3", "migrate", "api", "control", "flower"}
    nodes = {"node-cpu", "node-sm86", "node-sm89", "node-sm90"}

    assert parts | nodes == set(SERVICES)


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_is_pinned_to_a_version(name: str) -> None:
    _, _, tag = SERVICES[name]["image"].rpartition(":")

    assert any(character.isdigit() for character in tag.split("-")[0])
    assert tag.split("-")[0].count(".") >= 1


def test_only_the_api_is_published_and_on_loopback_alone() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}

    assert set(published) == {"api"}
    assert all(port.startswith("127.0.0.1:") for port in published["api"])


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "migrate"])
def test_a_service_that_stays_has_a_health_check(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_waits_for_services_and_states_that_exist(name: str) -> None:
    for other, wait in SERVICES[name].get("depends_on", {}).items():
        if wait["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other]
        else:
            assert wait["condition"] == "service_completed_successfully"
            assert SERVICES[other]["restart"] == "no"


@pytest.mark.parametrize("name", [name for name in OURS if modules(OURS[name])])
def test_a_module_that_is_run_is_real_and_in_its_image(name: str) -> None:
    copied = {source for source, _ in dockerfile(OURS[name]).copied}

    for module in modules(OURS[name]):
        assert importlib.util.find_spec(f"{module}.__main__") is not None
        assert module in copied


@pytest.mark.parametrize("name", [name for name in OURS if modules(OURS[name])])
def test_every_setting_exists_and_none_that_is_needed_is_missing(name: str) -> None:
    service = OURS[name]
    known = SETTINGS[modules(service)[0]].model_fields
    given = {**dockerfile(service).environment, **service["environment"]}
    told = {key.removeprefix("ENGINEFARM_").lower() for key in given if key[:11] == "ENGINEFARM_"}
    needed = {field for field, info in known.items() if info.is_required()}

    assert told <= set(known)
    assert needed <= told


@pytest.mark.parametrize("name", [name for name in OURS if modules(OURS[name])])
def test_the_settings_read_what_the_service_is_told(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = OURS[name]
    given = {**dockerfile(service).environment, **service["environment"]}
    for key, value in given.items():
        if key.startswith("ENGINEFARM_"):
            monkeypatch.setenv(key, value)

    settings = SETTINGS[modules(service)[0]]()

    assert settings.model_fields_set


@pytest.mark.parametrize("name", NODES)
def test_a_node_holds_no_credential_of_database_bucket_or_signing(name: str) -> None:
    assert set(NODES[name]["environment"]) == {
        "ENGINEFARM_URL",
        "ENGINEFARM_BROKER_URL",
        "ENGINEFARM_ENROLMENT_TOKEN",
        "ENGINEFARM_NODE_NAME",
        "CELERY_BROKER_URL",
    }
    assert "secrets" not in NODES[name]
    assert NODES[name]["networks"] == ["nodes"]


def test_the_database_is_out_of_a_nodes_reach() -> None:
    assert SERVICES["postgres"]["networks"] == ["control"]


@pytest.mark.parametrize("name", GPU_NODES)
def test_a_gpu_node_reserves_one_gpu(name: str) -> None:
    (device,) = GPU_NODES[name]["deploy"]["resources"]["reservations"]["devices"]

    assert device["driver"] == "nvidia"
    assert device["capabilities"] == ["gpu"]
    assert len(device["device_ids"]) == 1
    assert dockerfile(GPU_NODES[name]).path.name == "Dockerfile.node-gpu"


def test_two_gpu_nodes_do_not_share_a_gpu_by_default() -> None:
    ids = [
        node["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"][0]
        for node in GPU_NODES.values()
    ]

    assert len(set(ids)) == len(ids)


def test_the_signing_key_is_where_the_control_loops_look_for_it() -> None:
    control = SERVICES["control"]
    named = control["environment"]["ENGINEFARM_SIGNING_KEY_URI"].removeprefix("file2:")
    secrets = {f"/run/secrets/{secret}" for secret in control["secrets"]}

    assert {named, control["environment"]["ENGINEFARM_SIGNING_PUBLIC_KEY"]} == secrets
    assert [name for name, service in SERVICES.items() if "secrets" in service] == ["control"]


def test_flower_reads_the_configuration_that_its_image_has() -> None:
    (command, _) = programs(SERVICES["flower"])

    assert command == [
        *("celery", "--app=tasks.flower", "flower"),
        "--conf=/app/deploy/flowerconfig.py",
    ]
    assert ("tasks", "tasks") in dockerfile(OURS["flower"]).copied
    assert ("deploy/flowerconfig.py", "deploy/flowerconfig.py") in dockerfile(OURS["flower"]).copied
    assert "WORKDIR /app" in [f"{k} {v}" for k, v in dockerfile(OURS["flower"]).instructions]


def test_health_checks_ask_paths_that_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in SERVICES["api"]["environment"].items():
        monkeypatch.setenv(key, value)
    from flower.urls import handlers

    from api.app import create_app

    paths = create_app(ApiSettings()).openapi()["paths"]

    assert "/readyz" in str(SERVICES["api"]["healthcheck"]["test"])
    assert "/readyz" in paths
    assert "/healthcheck" in str(SERVICES["flower"]["healthcheck"]["test"])
    assert "/healthcheck" in [handler[0] for handler in handlers if isinstance(handler, tuple)]


@pytest.mark.parametrize(
    "words",
    [words for name in ("migrate", "control") for words in programs(SERVICES[name]) if words[3:4]],
    ids=" ".join,
)
def test_a_subcommand_is_known_to_its_module(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, *words[1:], "--help"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )

    assert done.returncode == 0, done.stderr


def test_the_nodes_health_check_uses_options_that_celery_has() -> None:
    (words,) = arguments(SERVICES["node-cpu"]["healthcheck"]["test"])
    assert words[:3] == ["celery", "inspect", "ping"]

    done = subprocess.run(
        [BIN / "celery", "inspect", "--help"], capture_output=True, check=True, text=True
    )

    assert all(word in done.stdout for word in words if word.startswith("--"))


def test_the_object_store_is_started_with_options_that_it_has() -> None:
    command = FOREIGN["s3"]["command"]
    done = subprocess.run(
        [BIN / "weed", "help", "server"], stderr=subprocess.PIPE, check=False, text=True
    )
    known = {line.split()[0] for line in done.stderr.splitlines() if line.startswith("  -")}

    options = {word.partition("=")[0] for word in command if word.startswith("-")}
    assert command[1] == "server"
    assert options - {"-logtostderr"} <= known


def test_what_stands_behind_the_s3_door_listens_inside_its_container_only() -> None:
    bound = {word.partition("=")[::2] for word in FOREIGN["s3"]["command"] if ".bind=" in word}

    assert bound == {("-ip.bind", "127.0.0.1"), ("-s3.ip.bind", "0.0.0.0")}  # noqa: S104


def test_the_object_store_tells_nobody_about_itself() -> None:
    assert "-master.telemetry=false" in FOREIGN["s3"]["command"]
