"""An S3 server that keeps whatever it is sent, and honours only what a test wants it to."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from enginefarm.digest import base64_sha256, digest_of


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Store

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        honours, kept = self.server.honours, self.server.kept
        pinned = self.headers["x-amz-checksum-sha256"]
        if "checksum" in honours and pinned != base64_sha256(digest_of(body)):
            self._answer(400)
        elif "if-none-match" in honours and self.path in kept:
            self._answer(412)
        else:
            kept[self.path] = body
            self._answer(200)

    def do_GET(self) -> None:
        self._answer(200, self.server.kept[self.path])

    def do_DELETE(self) -> None:
        self.server.kept.pop(self.path, None)
        self._answer(204)

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Store(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, honours: Collection[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.honours = honours
        self.kept: dict[str, bytes] = {}


@contextmanager
def lax_store(honours: Collection[str] = ()) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Serve while the block runs; give the endpoint and what is kept, by path.

    It honours neither ``checksum`` nor ``if-none-match`` unless told, and never a range.
    """
    server = _Store(honours)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
