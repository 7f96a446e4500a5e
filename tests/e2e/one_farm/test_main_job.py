"""The main job, with separate processes and the real services: submit, build, fetch, refuse."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from localfarm.models import shipped
from tests.e2e.conftest import RunningFarm, finished, wait_until

pytestmark = pytest.mark.e2e
PROFILE = {"bytes": {"min": [1, 2048], "opt": [2, 2048], "max": [8, 2048]}}
# On one thread: what a second one would compute meanwhile is of no use here.
QUICK = {"threads": 1, "min_iterations": 10, "min_duration_ms": 100, "max_duration_ms": 2000}
TARGETS = ["onnxruntime@cpu", "tensorrt-rtx@sm_86", "tensorrt-rtx@sm_89"]


@pytest.fixture(scope="module")
def model(running_farm: RunningFarm) -> str:
    """Upload a real model; return its digest."""
    with running_farm.http() as client, shipped("magika").file().open("rb") as stream:
        answer = client.post("/v1/models", files={"file": ("magika.onnx", stream)})
    digest: str = answer.raise_for_status().json()["digest"]
    return digest


def submit(farm: RunningFarm, model: str, **changes: object) -> dict[str, Any]:
    """Submit a build and return what the farm answered."""
    body: dict[str, Any] = {
        "model": model,
        "targets": TARGETS,
        "profiles": [PROFILE],
        "options": {"benchmark": QUICK},
    }
    with farm.http() as client:
        answer = client.post("/v1/builds", json=body | changes)
    view: dict[str, Any] = answer.raise_for_status().json()
    return view


@pytest.fixture(scope="module")
def built(running_farm: RunningFarm, model: str) -> dict[str, Any]:
    """Build the real model for all three targets, once."""
    view = submit(running_farm, model)
    with running_farm.http() as client:
        return finished(client, view["id"])


@pytest.fixture(scope="module")
def pulled(
    running_farm: RunningFarm, built: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Pull the engine that was measured, once."""
    folder = tmp_path_factory.mktemp("pulled") / "engine"
    done = running_farm.cli("pull", artifact_of(built, TARGETS[0]), str(folder), "--json")
    assert done.returncode == 0, done.stderr
    return folder


def artifact_of(view: dict[str, Any], target: str) -> str:
    """Return the artifact of one target."""
    digest: str = next(t["artifact"] for t in view["targets"] if t["target"] == target)
    return digest


def test_a_real_model_is_built_measured_and_published_for_every_target(
    running_farm: RunningFarm, built: dict[str, Any]
) -> None:
    assert built["state"] == "succeeded"
    assert {t["target"]: t["artifact_state"] for t in built["targets"]} == dict.fromkeys(
        TARGETS, "published"
    )
    with running_farm.http() as client:
        reports = {
            target: client.get(f"/v1/artifacts/{artifact_of(built, target)}/summary").json()[
                "report"
            ]
            for target in TARGETS
        }
    measured = reports["onnxruntime@cpu"]
    assert measured["measured"]
    assert measured["latency"][0]["end_to_end_ms"]["count"] >= 10
    assert measured["accuracy"]["outputs"][0]["cosine"] > 0.999
    assert measured["accuracy"]["synthetic"]
    for target in TARGETS[1:]:
        assert reports[target]["measured"] is False
        assert "sm_8" in reports[target]["reason"]
        assert reports[target]["latency"] == []
        assert reports[target]["accuracy"] is None


def test_the_same_recipe_again_is_answered_without_a_queue(
    running_farm: RunningFarm, model: str, built: dict[str, Any]
) -> None:
    again = submit(running_farm, model, labels={"try": "2"})

    assert again["state"] == "succeeded"
    assert again["id"] != built["id"]
    assert all(job["cached_from"] for job in again["jobs"])
    assert all(job["queued_at"] is None for job in again["jobs"])


def test_a_recipe_in_flight_is_joined(running_farm: RunningFarm, model: str) -> None:
    slow = {"benchmark": {**QUICK, "min_duration_ms": 5000, "max_duration_ms": 6000}}
    changes = {"targets": ["onnxruntime@cpu"], "options": slow, "seed": 11}
    first = submit(running_farm, model, **changes)
    with running_farm.http() as client:
        wait_until("the benchmark's start", 60, lambda: _running(client, first["id"], "benchmark"))
        second = submit(running_farm, model, **changes, labels={"who": "second"})
        joined = [job["joined_to"] for job in second["jobs"] if job["stage"] == "benchmark"]
        ends = [finished(client, view["id"]) for view in (first, second)]

    leader = next(job["id"] for job in first["jobs"] if job["stage"] == "benchmark")
    assert joined == [leader]
    assert [view["state"] for view in ends] == ["succeeded", "succeeded"]
    attempts = [job["attempts"] for job in ends[1]["jobs"] if job["stage"] == "benchmark"]
    assert attempts == [[]]


def test_cancel_frees_the_node_and_ends_the_child(running_farm: RunningFarm, model: str) -> None:
    slow = {"benchmark": {**QUICK, "min_duration_ms": 120_000, "max_duration_ms": 120_000}}
    view = submit(running_farm, model, targets=["onnxruntime@cpu"], options=slow, seed=12)
    with running_farm.http() as client:
        wait_until("the benchmark's start", 60, lambda: _running(client, view["id"], "benchmark"))
        wait_until("the child's start", 60, lambda: _children(running_farm) or None)
        client.post(f"/v1/builds/{view['id']}/cancel").raise_for_status()
        wait_until("the child's end", 60, lambda: not _children(running_farm) or None)

        def cancelled() -> bool | None:
            jobs = client.get(f"/v1/builds/{view['id']}").json()["jobs"]
            states = {job["stage"]: job["state"] for job in jobs}
            return states["benchmark"] == "cancelled" or None

        wait_until("the job's end", 60, cancelled)
        assert client.get(f"/v1/builds/{view['id']}").json()["state"] == "cancelled"


def test_a_killed_node_costs_one_attempt(running_farm: RunningFarm, model: str) -> None:
    slow = {"benchmark": {**QUICK, "min_duration_ms": 4000, "max_duration_ms": 5000}}
    view = submit(running_farm, model, targets=["onnxruntime@cpu"], options=slow, seed=13)
    with running_farm.http() as client:
        wait_until("the benchmark's start", 60, lambda: _running(client, view["id"], "benchmark"))
        slots = wait_until("the child's start", 60, lambda: _slots(running_farm) or None)
        for slot in slots:  # the supervisor of the job; its child dies with it
            slot.send_signal(signal.SIGKILL)
        wait_until("the child's end", 60, lambda: not _children(running_farm) or None)
        end = finished(client, view["id"])

    assert end["state"] == "succeeded"
    attempts = next(job["attempts"] for job in end["jobs"] if job["stage"] == "benchmark")
    assert [attempt["state"] for attempt in attempts] == ["failed", "succeeded"]
    assert attempts[0]["failure"]["code"] == "node_lost"


def test_a_deployer_gets_exactly_what_was_signed(running_farm: RunningFarm, pulled: Path) -> None:
    offline = {"ENGINEFARM_URL": "http://127.0.0.1:1", "ENGINEFARM_KEY": "none"}
    verified = running_farm.cli("verify", str(pulled), "--json", **offline)
    assert verified.returncode == 0, verified.stderr
    assert json.loads(verified.stdout)
    ran = running_farm.cli("run", str(pulled), "--shape", "bytes=1x2048", **offline)
    assert ran.returncode == 0, ran.stderr


def test_an_artifact_held_against_itself_by_a_real_node_is_signed_and_neither_faster_nor_slower(
    running_farm: RunningFarm, built: dict[str, Any]
) -> None:
    digest = artifact_of(built, "onnxruntime@cpu")
    line = ["compare", digest, digest, "--option", "benchmark.min_duration_ms=300"]
    waited = running_farm.cli(*line, "--wait", "--json")
    assert waited.returncode == 0, waited.stderr
    told = json.loads(waited.stdout)
    assert told["verdict"] in {"alike", "cannot_tell"}
    assert len(told["report"]["rows"][0]["ratios"]) > 5
    shown = running_farm.cli("comparisons", "show", told["id"], "--verify")
    assert shown.returncode == 0, shown.stderr
    assert "B slower" in shown.stdout
    again = running_farm.cli(*line)  # answered at once, from what was measured
    assert "measured before, and shown again" in again.stdout
    elsewhere = running_farm.cli("compare", digest, artifact_of(built, TARGETS[1]))
    assert elsewhere.returncode == 8
    assert "comparison_target" in elsewhere.stderr


@pytest.mark.parametrize("harm", ["engine", "manifest", "bundle", "key", "truncated"])
def test_what_was_tampered_with_is_refused(
    running_farm: RunningFarm, pulled: Path, tmp_path: Path, harm: str
) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(pulled, bad)
    trust = running_farm.trust
    name = {
        "engine": "model.onnx",
        "truncated": "model.onnx",
        "manifest": "manifest.json",
        "bundle": "provenance.sigstore.json",
    }.get(harm)
    if name is None:
        trust = tmp_path / "other-trust.json"
        trust.write_text(_other_key(running_farm.trust))
    else:
        _spoil(bad / name, truncate=harm == "truncated")

    refused = running_farm.cli("verify", str(bad), "--trust", str(trust))

    assert refused.returncode == 3, refused.stdout + refused.stderr
    assert refused.stderr.strip()


def test_a_target_that_nobody_serves_is_refused_with_what_is_missing(
    running_farm: RunningFarm, model: str
) -> None:
    body = {"model": model, "targets": ["onnxruntime@sm_90"], "profiles": [PROFILE]}
    with running_farm.http() as client:
        answer = client.post("/v1/builds", json=body)

    assert answer.status_code == 422
    assert answer.json()["code"] == "target_not_served"
    assert "sm_90" in answer.json()["why"]


def test_flower_shows_nothing_without_its_password(running_farm: RunningFarm) -> None:
    ports = json.loads((running_farm.folder / "ports.json").read_text())

    assert httpx.get(f"http://127.0.0.1:{ports['flower']}/workers").status_code == 401


def _running(client: httpx.Client, build: str, stage: str) -> bool | None:
    jobs = client.get(f"/v1/builds/{build}").raise_for_status().json()["jobs"]
    return any(job["stage"] == stage and job["state"] == "running" for job in jobs) or None


def _descendants(farm: RunningFarm) -> list[psutil.Process]:
    return psutil.Process(farm.process.pid).children(recursive=True)


def _children(farm: RunningFarm) -> list[psutil.Process]:
    """Return the processes that run jobs."""
    return [process for process in _descendants(farm) if "workers.child" in _line(process)]


def _slots(farm: RunningFarm) -> list[psutil.Process]:
    """Return the processes that stand above the jobs' own."""
    return [parent for child in _children(farm) if (parent := child.parent()) is not None]


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


def _spoil(path: Path, *, truncate: bool) -> None:
    path.chmod(0o644)
    data = path.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    path.write_bytes(data[:-1] if truncate else flipped)


def _other_key(trust: Path) -> str:
    """Return the trust file with another key under the same key id."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    words = json.loads(trust.read_text())
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    for key in words["keys"]:
        key["public_key"] = pem
    return json.dumps(words)
