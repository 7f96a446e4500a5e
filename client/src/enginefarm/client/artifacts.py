"""Artifacts: manifests, attestations and files by digest.

Nothing here is believed; :mod:`enginefarm.install` verifies what this fetches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from enginefarm.attestation import MAX_BUNDLE_BYTES
from enginefarm.client.transport import Transport
from enginefarm.digest import require_digest
from enginefarm.errors import FarmError, VerificationFailed
from enginefarm.install.source import BlobPart
from enginefarm.manifest import MAX_MANIFEST_BYTES
from enginefarm.revocation import RevocationView
from enginefarm.state import ArtifactState
from enginefarm.views import ArtifactView

_PARTIAL, _CHUNK = 206, 1 << 20
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class Artifacts:
    """The artifacts of the key's tenant; a source for :func:`enginefarm.install.pull`."""

    def __init__(self, transport: Transport) -> None:
        """Use a farm's connections."""
        self._transport = transport

    def get(self, digest: str) -> ArtifactView:
        """Return an artifact's state, files and report, as the farm tells it."""
        return self._transport.get(f"/v1/artifacts/{require_digest(digest)}/summary", ArtifactView)

    def state(self, digest: str) -> ArtifactState:
        """Return whether the farm lets deployers have the artifact."""
        return self.get(digest).state

    def kept_back(self, digest: str) -> str | None:
        """Return why deployers may not have the artifact, in the farm's words."""
        return self.get(digest).kept_back

    def revoke(self, digest: str, reason: str) -> RevocationView:
        """Take the artifact back, for good; one that was revoked before stays as it is."""
        path = f"/v1/artifacts/{require_digest(digest)}/revoke"
        answer = self._transport.request("POST", path, json={"reason": reason})
        return self._transport.read(answer, RevocationView)

    def manifest(self, digest: str) -> bytes:
        """Return the manifest's bytes, whatever they are."""
        path = f"/v1/artifacts/{require_digest(digest)}"
        return self._small(path, MAX_MANIFEST_BYTES, "manifest")

    def attestations(self, digest: str) -> list[bytes]:
        """Return the bundles that the farm has for the artifact."""
        path = f"/v1/artifacts/{require_digest(digest)}/attestations"
        body = self._small(path, 4 * MAX_BUNDLE_BYTES, "list of attestations")
        return [line for line in body.split(b"\n") if line.strip()]

    @contextmanager
    def open_blob(self, digest: str, start: int) -> Iterator[BlobPart]:
        """Open a blob from byte ``start``; the part says where it really begins."""
        headers = {"Accept-Encoding": "identity"}
        if start:
            headers |= {"Range": f"bytes={start}-", "If-Match": f'"{require_digest(digest)}"'}
        with self._transport.fetch(f"/v1/blobs/{require_digest(digest)}", headers) as response:
            if response.status_code in {412, 416}:
                yield BlobPart(start=None, chunks=iter(()))
            else:
                # Unbuffered: of a connection that breaks, every byte that came is kept.
                yield BlobPart(start=_start(response), chunks=response.iter_raw())

    def _small(self, path: str, limit: int, what: str) -> bytes:
        """Read a body that may not be larger than it can honestly be."""
        body = bytearray()
        with self._transport.stream(path, {"Accept-Encoding": "identity"}) as response:
            for chunk in response.iter_raw(_CHUNK):
                body += chunk
                if len(body) > limit:
                    raise VerificationFailed(
                        f"The {what} is longer than {limit} bytes.",
                        code="manifest_invalid",
                        why="No honest one is.",
                        fix="Check the farm's address.",
                    )
        return bytes(body)


def _start(response: httpx.Response) -> int:
    if response.status_code != _PARTIAL:
        return 0
    match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if match is None:
        raise FarmError(
            "A part of a file came without saying which part.",
            code="unexpected_answer",
            why="The answer has no Content-Range.",
            fix="Ask the farm's operator what stands between you and the farm.",
        )
    return int(match[1])
