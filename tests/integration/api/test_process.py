"""``python -m api`` serves, says so in JSON lines, and ends at a signal."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tasks.farm import Farm


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def test_the_process_serves_logs_and_ends(farm: Farm, values: dict[str, object]) -> None:
    farm.objects.probe()  # its bucket is there
    port = free_port()
    settings = {f"ENGINEFARM_{name.upper()}": str(value) for name, value in values.items()}
    process = subprocess.Popen(
        [sys.executable, "-m", "api"],
        cwd=Path(__file__).parents[3],
        env=os.environ | settings | {"ENGINEFARM_PORT": str(port)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}", process)
        answer = httpx.get(
            f"http://127.0.0.1:{port}/v1/builds", headers={"X-Request-Id": "smoke-1"}
        )
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()

    lines = [json.loads(line) for line in said.splitlines()]
    assert answer.status_code == 401
    assert process.returncode in (0, -signal.SIGTERM)
    assert [line["event"] for line in lines if line["event"].startswith("api_")] == [
        "api_started",
        "api_stopped",
    ]
    line = next(line for line in lines if line.get("request_id") == "smoke-1")
    assert (line["event"], line["status"], line["level"]) == ("request_answered", 401, "info")
    assert line["timestamp"].endswith("Z")


def _wait_until_ready(url: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, process.stderr and process.stderr.read()
        try:
            if httpx.get(f"{url}/readyz", timeout=10).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise TimeoutError(url)
