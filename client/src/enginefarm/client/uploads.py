"""Uploads in parts, as the farm speaks of them."""

from __future__ import annotations

from pathlib import Path

from enginefarm.client.transport import Transport
from enginefarm.digest import repr_digest
from enginefarm.upload import AskedPart, PartSlot, PartSlots, PartsSpec, UploadSpec, UploadView


class Uploads:
    """The uploads of the key's tenant that come in parts."""

    def __init__(self, transport: Transport) -> None:
        """Use a farm's connections."""
        self._transport = transport

    def declare(self, spec: UploadSpec) -> UploadView:
        """Declare a model; the view says what need not be sent."""
        body = spec.model_dump(mode="json", exclude_none=True)
        return self._transport.read(
            self._transport.request("POST", "/v1/uploads", json=body), UploadView
        )

    def get(self, upload_id: str) -> UploadView:
        """Return an upload, and how far it is."""
        return self._transport.get(f"/v1/uploads/{upload_id}", UploadView)

    def slot(self, upload_id: str, part: AskedPart) -> PartSlot:
        """Return where a part goes."""
        body = PartsSpec(parts=[part]).model_dump(mode="json")
        answer = self._transport.request("POST", f"/v1/uploads/{upload_id}/parts", json=body)
        return self._transport.read(answer, PartSlots).parts[0]

    def put(self, upload_id: str, part: AskedPart, data: bytes) -> None:
        """Send a part through the farm."""
        self._transport.request(
            "PUT",
            f"/v1/uploads/{upload_id}/files/{part.file}",
            params={"part": part.number},
            headers={
                "Content-Type": "application/octet-stream",
                "Repr-Digest": repr_digest(part.digest),
            },
            content=data,
        )

    def complete(self, upload_id: str) -> UploadView:
        """Let the farm read it all again; a repeat changes nothing."""
        answer = self._transport.request("POST", f"/v1/uploads/{upload_id}/complete", again=True)
        return self._transport.read(answer, UploadView)

    def cancel(self, upload_id: str) -> UploadView:
        """End an upload that nobody will go on with."""
        answer = self._transport.request("DELETE", f"/v1/uploads/{upload_id}", again=True)
        return self._transport.read(answer, UploadView)


class Remembered:
    """Which upload a model is being sent by, so that the next run goes on with it.

    One small file beside the cache for each farm and model; it is gone when the upload has ended.
    """

    def __init__(self, folder: Path | None, name: str) -> None:
        """Remember under ``name`` in ``folder``; without one nothing is remembered."""
        self._path = None if folder is None else folder / f"{name}.upload"

    def read(self) -> str | None:
        """Return the upload's id, if one was begun."""
        try:
            text = self._path.read_text("ascii").strip() if self._path is not None else ""
        except (OSError, UnicodeDecodeError):
            return None
        return text or None

    def write(self, upload_id: str) -> None:
        """Remember an upload."""
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(f"{upload_id}\n", "ascii")

    def forget(self) -> None:
        """Forget it: it has ended."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
