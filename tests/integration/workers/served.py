"""A small worker API and bucket over real HTTP, whose answers a test decides.

It is no farm: it hands out one assignment, keeps what it hears, and serves and takes blobs by
digest, with the pins that presigned URLs carry.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from enginefarm.digest import digest_of
from enginefarm.state import Stage
from tasks.messages import Assignment, InputFile, JobLimits

TOKEN, CREDENTIAL = "enrol-me", "en_nod_1_secret"


@dataclass
class Served:
    """What is served, and what was heard."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    assignment: Assignment | None = None
    heard: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    away: bool = False
    bucketless: bool = False
    lost: bool = False
    cancel: bool = False
    expire_slots: int = 0
    refuse_puts: bool = False
    lease_s: float = 60
    queues: list[str] = field(default_factory=lambda: ["compile.cpu"])
    url: str = ""

    def put(self, data: bytes, role: str, name: str) -> InputFile:
        """Keep a blob and return it as an input."""
        digest = digest_of(data)
        self.blobs[digest] = data
        url = f"{self.url}/blob/{digest}"
        return InputFile(role=role, name=name, digest=digest, size=len(data), url=url)

    def assign(
        self,
        stage: Stage,
        target: str,
        recipe: dict[str, Any],
        inputs: list[InputFile],
        **limits: float,
    ) -> Assignment:
        """Have the next claim answered with this job."""
        self.assignment = Assignment.model_validate(
            {
                "job_id": "job_1",
                "attempt": 1,
                "build_id": "bld_1",
                "stage": stage,
                "target": target,
                "lease_token": "lease",
                "lease_s": self.lease_s,
                "heartbeat_s": 0.1,
                "limits": JobLimits(**({"running_s": 120, "silent_s": 120} | limits)),
                "recipe": recipe,
                "inputs": inputs,
            }
        )
        return self.assignment

    def bodies(self, ending: str) -> list[dict[str, Any]]:
        """Return the bodies of the calls whose path ends so."""
        return [body for path, body in self.heard if path.endswith(ending)]

    @property
    def finish(self) -> dict[str, Any]:
        """How the attempt was ended."""
        (body,) = self.bodies("/finish")
        return body

    @property
    def log(self) -> str:
        """The log that was stored with the end."""
        return self.blobs[self.finish["log"]["digest"]].decode()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer a call of the worker API."""
        if self.away:
            return 503, {}
        self.heard.append((path, body))
        if path == "/worker/v1/enrol":
            return 200, {
                "node_id": "nod_1",
                "credential": CREDENTIAL,
                "queues": self.queues,
                "heartbeat_s": 0.2,
            }
        if path == "/worker/v1/beat":
            return 200, {"queues": self.queues}
        if path == "/worker/v1/claims":
            taken, self.assignment = self.assignment, None
            given = taken.model_dump(mode="json") if taken else None
            return 200, {"assignment": given, "declined": None if taken else "taken"}
        return self._job(path.rpartition("/")[2], body)

    def _job(self, call: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.lost or body["lease_token"] != "lease":
            lost = {"type": "t", "title": "t", "status": 409, "detail": "d", "code": "lease_lost"}
            return 409, lost
        if self.bucketless and (call == "uploads" or body.get("log") is not None):
            words = {"status": 503, "detail": "d", "code": "bucket_away"}
            return 503, {"type": "t", "title": "t", **words}
        if call == "beat":
            return 200, {"cancel": self.cancel, "lease_s": self.lease_s}
        if call == "uploads":
            return 200, {"files": [self._slot(item) for item in body["files"]]}
        return 200, {"state": "uploaded"}

    def _slot(self, item: dict[str, Any]) -> dict[str, Any]:
        if item["digest"] in self.blobs:
            return {"digest": item["digest"], "url": None}
        url = f"{self.url}/blob/{item['digest']}"
        if self.expire_slots:
            self.expire_slots -= 1
            url += "?expired"
        return {"digest": item["digest"], "url": url, "headers": {"X-Pinned": str(item["size"])}}

    def take(self, path: str, headers: Any, data: bytes) -> int:  # noqa: ANN401 - http.client's own
        """Take a blob as a bucket with pinned, presigned URLs does."""
        if path.endswith("?expired") or self.refuse_puts:
            return 403
        digest = path.rpartition("/")[2]
        if digest in self.blobs:
            return 412
        if headers["X-Pinned"] != str(len(data)) or digest_of(data) != digest:
            return 400
        self.blobs[digest] = data
        return 200


def start(served: Served) -> Callable[[], None]:
    """Serve on a free port of loopback; return how to stop."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self._body())
            status, reply = served.answer(self.path, body)
            self._reply(status, json.dumps(reply).encode())

        def do_GET(self) -> None:
            data = served.blobs.get(self.path.rpartition("/")[2])
            self._reply(404 if data is None else 200, data or b"")

        def do_PUT(self) -> None:
            self._reply(served.take(self.path, self.headers, self._body()), b"")

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers["Content-Length"]))

        def _reply(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


def model_bytes(folder: Path, layers: int = 1) -> bytes:
    """Return a small model, x [n, 16] to y [n, 16]."""
    from tests.contract.backends import made

    return made.save(folder / f"model-{layers}", made.dense(layers)).read_bytes()
