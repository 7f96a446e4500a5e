"""Models that are sent in parts, by a sender who asks until there is an answer."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import boto3

from enginefarm.digest import digest_of
from localfarm.programs import BUCKET
from localfarm.services import Services
from tests.e2e.builds import persistently, rows
from tests.e2e.conftest import RunningFarm, wait_until
from tests.integration.api.made import with_external

ENDED = {"done", "failed", "cancelled", "abandoned"}


@dataclass
class Sending:
    """One model that is like no other, and its way into a farm."""

    farm: RunningFarm
    upload_id: str = ""

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The model and its external data, which no other model has."""
        return {"m.onnx": with_external("w.bin"), "w.bin": uuid.uuid4().bytes}

    def declare(self) -> None:
        files = [
            {"name": name, "size": len(data), "digest": digest_of(data)}
            for name, data in self.files.items()
        ]
        body = {"name": "parts", "files": files}
        answer = persistently(self.farm, lambda http: http.post("/v1/uploads", json=body))
        self.upload_id = answer.json()["id"]

    def send(self) -> None:
        """Send every part through the farm; a part that is here already may come again."""
        for at, file in enumerate(self.view()["files"]):
            if file["present"]:
                continue
            path = f"/v1/uploads/{self.upload_id}/files/{at}?part=1"
            data = self.files[file["name"]]
            persistently(self.farm, lambda http, p=path, d=data: http.put(p, content=d))  # type: ignore[misc]

    def complete(self) -> None:
        path = f"/v1/uploads/{self.upload_id}/complete"
        persistently(self.farm, lambda http: http.post(path))

    def remove(self) -> None:
        persistently(self.farm, lambda http: http.delete(f"/v1/uploads/{self.upload_id}"))

    def view(self) -> dict[str, Any]:
        answer = persistently(self.farm, lambda http: http.get(f"/v1/uploads/{self.upload_id}"))
        view: dict[str, Any] = answer.json()
        return view

    def ended(self) -> dict[str, Any]:
        """Return the upload's view once it has ended and nothing of it is in the bucket."""

        def probe() -> dict[str, Any] | None:
            view = self.view()
            question = "SELECT cleared FROM uploads WHERE id = :id"
            ((cleared,),) = rows(self.farm, question, id=self.upload_id)
            return view if view["state"] in ENDED and cleared else None

        return wait_until(f"the end of upload {self.upload_id}", 120, probe)

    def kept(self) -> dict[str, object]:
        """Count what came of it: rows, bytes that are not those that were sent, what is left."""
        counted = "SELECT count(*) FROM models WHERE digest = :digest"
        others = 0
        for data in self.files.values():
            path = f"/v1/blobs/{digest_of(data)}?proxy=1"
            answer = persistently(self.farm, lambda http, p=path: http.get(p))  # type: ignore[misc]
            others += answer.content != data
        return {
            "models": rows(self.farm, counted, digest=self.view()["model"])[0][0],
            "other bytes": others,
            "left": self.left(),
        }

    def left(self) -> list[str]:
        """Return what the bucket holds of the upload itself: objects, and parts of some."""
        services = Services(self.farm.folder)
        client = boto3.client(
            "s3",
            endpoint_url=services.s3.endpoint,
            region_name=services.s3.region,
            aws_access_key_id=services.credentials.s3_access_key,
            aws_secret_access_key=services.credentials.s3_secret_key,
        )
        below = f"uploads/{self.upload_id}/"
        objects = client.list_objects_v2(Bucket=BUCKET, Prefix=below).get("Contents", [])
        parts = client.list_multipart_uploads(Bucket=BUCKET, Prefix=below).get("Uploads", [])
        client.close()
        return [row["Key"] for row in objects] + [row["Key"] for row in parts]
