"""Models and datasets: send them once, streamed and counted, and look at what the farm has."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

import httpx

from enginefarm.calibration_cache import HEAD_BYTES, refuse_calibration_cache
from enginefarm.client.local_model import LocalModel, read_local_model
from enginefarm.client.resumable import Resumable, Sent
from enginefarm.client.transport import Transport
from enginefarm.digest import digest_of_file, require_digest
from enginefarm.errors import InvalidDataset, NotFound
from enginefarm.views import DatasetView, ModelSummary, ModelView

QUICK_BYTES = 64 << 20
"""A model up to here goes in one request: it is sooner there than an upload is declared."""


class _Counted(io.BufferedReader):
    """A file that tells how far it has been read; httpx streams it in pieces."""

    def __init__(self, path: Path, told: Callable[[int], None]) -> None:
        super().__init__(io.FileIO(path))
        self._told = told

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self._told(self.tell())
        return data


class Models:
    """The models of the key's tenant."""

    def __init__(self, transport: Transport) -> None:
        """Use a farm's connections."""
        self._transport = transport
        self.quick_bytes = QUICK_BYTES

    def upload(
        self,
        model: Path | LocalModel,
        *,
        name: str | None = None,
        sent: Sent | None = None,
        verified: Sent | None = None,
        remember: Path | None = None,
        resumed: Sent | None = None,
    ) -> ModelView:
        """Send a model with its external data, unless the farm has these bytes already.

        A small one goes in one request. A larger one goes in parts, and on where it stopped if
        ``remember`` names the folder of the run before; then ``resumed`` is told how much of it was
        there, and ``verified`` how much of it the farm has read again.

        Raises:
            InvalidModel: the file is no model, or its external data is missing, short or elsewhere.
        """
        local = read_local_model(model) if isinstance(model, Path) else model
        resumable = Resumable(self._transport, local, remember, sent, verified, resumed)
        with suppress(NotFound):  # Then it is sent.
            found = self.get(local.digest)
            resumable.forget()
            return found.model_copy(update={"existed": True})
        if local.size > self.quick_bytes:
            try:
                return self.get(resumable.upload(name or local.name))
            except NotFound as error:
                if error.code != "no_such_path":
                    raise
                # A farm of an earlier version takes no parts.
        files = [(local.main.name, local.main.path)]
        files += [(file.name, file.path) for file in local.external]
        fields = {"name": name or local.name, "digest": local.main.digest}
        response = _send(self._transport, "/v1/models", files, fields, local.size, sent)
        return self._transport.read(response, ModelView)

    def get(self, digest: str) -> ModelView:
        """Return a model."""
        return self._transport.get(f"/v1/models/{require_digest(digest)}", ModelView)

    def newest(self, limit: int = 50) -> list[ModelSummary]:
        """Return the newest models, each with the first few of its inputs and outputs."""
        return self._transport.get_list("/v1/models", ModelSummary, {"limit": limit})


class Datasets:
    """The datasets of the key's tenant."""

    def __init__(self, transport: Transport) -> None:
        """Use a farm's connections."""
        self._transport = transport

    def upload(
        self, path: Path, *, name: str | None = None, sent: Sent | None = None
    ) -> DatasetView:
        """Send named arrays (``.npz``), unless the farm has these bytes already."""
        require_npz(path)
        digest = digest_of_file(path)
        with suppress(NotFound):  # Then it is sent.
            return self.get(digest).model_copy(update={"existed": True})
        fields = {"name": name or path.stem, "digest": digest}
        files = [(path.name, path)]
        size = path.stat().st_size
        response = _send(self._transport, "/v1/datasets", files, fields, size, sent)
        return self._transport.read(response, DatasetView)

    def get(self, digest: str) -> DatasetView:
        """Return a dataset."""
        return self._transport.get(f"/v1/datasets/{require_digest(digest)}", DatasetView)


def require_npz(path: Path) -> None:
    """Refuse what cannot be a dataset, before anything is sent.

    Raises:
        InvalidDataset: ``dataset_missing``, ``dataset_not_npz``, ``calibration_cache``.
    """
    if not path.is_file():
        raise InvalidDataset(
            f"There is no dataset file {path}.",
            code="dataset_missing",
            fix="Name an .npz file, or the sha256: digest of a dataset that the farm has.",
        )
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    refuse_calibration_cache(head)
    if not zipfile.is_zipfile(path):
        raise InvalidDataset(
            f"{path} is not an .npz file.",
            code="dataset_not_npz",
            why=_no_npz(head),
            fix="Save it with numpy.savez or numpy.savez_compressed, and compare its size after"
            " copying.",
        )


def _no_npz(head: bytes) -> str:
    if head.startswith(b"PK"):
        return "It begins as an .npz file does and ends too early: its list of arrays is not there."
    if head.startswith(b"\x93NUMPY"):
        return "It is an .npy file, which holds one array without the name of its input."
    return "An .npz file is a zip archive of arrays, and this is none."


def _send(
    transport: Transport,
    path: str,
    files: list[tuple[str, Path]],
    fields: dict[str, str],
    total: int,
    sent: Sent | None,
) -> httpx.Response:
    """Send files as one streamed multipart body."""
    done: dict[str, int] = {}

    def counter(name: str) -> Callable[[int], None]:
        def told(count: int) -> None:
            done[name] = count
            if sent is not None:
                sent(sum(done.values()), total)

        return told

    with ExitStack() as stack:
        parts: list[tuple[str, tuple[str, IO[bytes]]]] = [
            ("file", (name, stack.enter_context(_Counted(file, counter(name)))))
            for name, file in files
        ]
        return transport.request("POST", path, data=fields, files=parts)
