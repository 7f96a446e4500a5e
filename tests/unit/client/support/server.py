"""A real HTTP server on loopback that serves artifacts, and misbehaves exactly as it is told."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from tests.unit.client.support.release import Release

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers for one request; the server it belongs to says how."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        """Answer a GET."""
        self._answer()

    def do_POST(self) -> None:
        """Answer a POST."""
        self._answer()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Stay quiet."""

    def _answer(self) -> None:
        farm = self.server.farm
        path = urlsplit(self.path).path
        farm.seen.append(Seen(self.command, self.path, dict(self.headers)))
        if path in farm.routes:
            farm.routes[path](self)
            return
        found = farm.find(path)
        if found is None:
            self.problem(404, "not-found", "unknown_thing")
        elif path.startswith("/v1/blobs/"):
            self._blob(path, found)
        else:
            self.reply(200, found)

    def _blob(self, path: str, data: bytes) -> None:
        farm = self.server.farm
        if farm.hold is not None:
            farm.hold.wait(60)
        if farm.elsewhere is not None:
            self.reply(307, b"", {"Location": f"{farm.elsewhere}{path}"})
            return
        wanted = "bytes=0-" if farm.ignores_ranges else self.headers.get("Range", "bytes=0-")
        start = int(wanted.removeprefix("bytes=").split("-")[0])
        farm.downloads[path] += 1
        headers = {}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        if start and start >= len(data):
            self.reply(416, b"")
            return
        body = data[start:]
        sent = len(body) if not farm.cuts else min(len(body), farm.cuts.pop(0))
        self.reply(206 if start else 200, body, headers, sent=sent)

    def problem(self, status: int, kind: str, code: str, **members: object) -> None:
        """Answer with a problem document."""
        body = {
            "type": f"urn:enginefarm:problem:{kind}",
            "title": kind,
            "status": status,
            "detail": "What happened.",
            "code": code,
            "why": "Why it did.",
            "fix": "What to do.",
            **members,
        }
        headers = {"Content-Type": "application/problem+json"}
        self.reply(status, json.dumps(body).encode(), headers)

    def reply(
        self,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        *,
        sent: int | None = None,
    ) -> None:
        """Answer; with ``sent``, break the connection after so many bytes of the body."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:sent])
        self.wfile.flush()
        if sent is not None and sent < len(body):
            self.close_connection = True

    def body(self) -> bytes:
        """Return the request's body."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))


@dataclass(frozen=True)
class Seen:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class LoopbackFarm(AbstractContextManager["LoopbackFarm"]):
    """The server and what it serves."""

    routes: dict[str, Answer] = field(default_factory=dict)
    releases: dict[str, Release] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    elsewhere: str | None = None
    ignores_ranges: bool = False
    hold: threading.Event | None = None
    seen: list[Seen] = field(default_factory=list)
    downloads: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Listen on a free port."""
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.farm = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def serve(self, release: Release, digest: str | None = None) -> str:
        """Serve an artifact under its digest, or under another's; return it."""
        name = digest or release.digest
        self.releases[name] = release
        self.blobs |= release.blobs
        return name

    def find(self, path: str) -> bytes | None:
        """Return what is at a path."""
        parts = path.strip("/").split("/")
        kind, name, *rest = parts[1:] if len(parts) > 2 else ["", ""]
        if kind == "blobs":
            return self.blobs.get(name)
        release = self.releases.get(name)
        if kind != "artifacts" or release is None:
            return None
        if not rest:
            return release.manifest
        if rest == ["attestations"]:
            return b"".join(bundle + b"\n" for bundle in release.bundles)
        return json.dumps(summary_of(name, release)).encode()


class Server(ThreadingHTTPServer):
    """A threaded server that knows its farm."""

    farm: LoopbackFarm
    daemon_threads = True


KEPT_BACK = {
    "quarantined": "slower than its twin",
    "revoked": "revoked on 2026-12-01: calibrated on the wrong data",
}


def summary_of(digest: str, release: Release) -> dict[str, Any]:
    """Return what the farm tells of an artifact."""
    return {
        "digest": digest,
        "state": release.state,
        "target": "onnxruntime@cpu",
        "model": f"sha256:{'0' * 64}",
        "model_name": "small",
        "build": "bld_1",
        "size": sum(map(len, release.files.values())),
        "files": [],
        "report": None,
        "kept_back": KEPT_BACK.get(release.state),
        "created_at": "2026-11-30T12:00:00Z",
    }
