"""Uploads in parts: declare a model, send its files straight to the bucket, complete.

Each part is pinned by length and sha256. An upload goes on where it stopped, whoever crashed; it
becomes a model when the farm has read every byte again. Only the tenant's own bytes count as here.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import AfterValidator
from starlette.concurrency import run_in_threadpool

from api.auth import Entrance, needs, settings_of
from api.declared import BYTES, require_digest_sent
from api.openapi import KEYED, problems
from api.parameters import a_word
from api.uploads import RAW, received
from enginefarm.state import Scope
from enginefarm.upload import (
    MAX_PARTS,
    AskedPart,
    PartSlots,
    PartsSpec,
    UploadFileView,
    UploadSpec,
    UploadView,
)
from storage import uploads
from storage.models import Upload
from tasks import model_uploads
from tasks.farm import Farm
from tasks.model_files import main_of
from tasks.names import stem_of
from tasks.part_plan import part_count

router = APIRouter(prefix="/v1/uploads", tags=["models"])
Submitter = Annotated[Entrance, Depends(needs(Scope.SUBMIT))]
Reader = Annotated[Entrance, Depends(needs(Scope.READ, Scope.SUBMIT))]
UploadId = Annotated[
    str,
    AfterValidator(a_word),
    Path(max_length=64, description="An upload's id.", examples=["upl_06fh2k9w0q4s1x3z"]),
]
FileNumber = Annotated[int, Path(ge=0, le=1 << 20, description="Which declared file, from 0.")]
PartNumber = Annotated[int, Query(ge=1, le=MAX_PARTS, description="Which part of it, from 1.")]
_PART_BODY: dict[str, Any] = {"required": True, "content": {RAW: {"schema": BYTES}}}


@router.post(
    "",
    summary="Declare a model",
    status_code=201,
    response_model=UploadView,
    responses=problems(*KEYED, 413, 422, 429),
)
def declare(
    spec: UploadSpec, request: Request, response: Response, entrance: Submitter
) -> UploadView:
    """Declare the files of a model; the answer says which of them need not be sent."""
    shown = spec.name or stem_of(spec.files[main_of([f.name for f in spec.files])].name, ".onnx")
    row = model_uploads.declare(
        entrance.farm,
        entrance.caller().tenant_id,
        spec,
        shown,
        settings_of(request).upload_limits(),
    )
    response.headers["Location"] = f"/v1/uploads/{row.id}"
    return _view(entrance.farm, row)


@router.get("/{upload_id}", summary="Show an upload", responses=problems(*KEYED, 404))
def show(upload_id: UploadId, entrance: Reader) -> UploadView:
    """Return an upload: which parts are here, how much was verified, what became of it."""
    with entrance.transaction() as (session, caller):
        row = uploads.get(session, caller.tenant_id, upload_id)
    return _view(entrance.farm, row)


@router.post(
    "/{upload_id}/parts",
    summary="Ask where parts go",
    responses=problems(*KEYED, 404, 409),
)
def slots(upload_id: UploadId, spec: PartsSpec, request: Request, entrance: Submitter) -> PartSlots:
    """Return for each part a URL of the bucket that takes exactly its bytes, for a while."""
    limits = settings_of(request).upload_limits()
    tenant_id = entrance.caller().tenant_id
    made = model_uploads.slots(entrance.farm, tenant_id, upload_id, spec.parts, limits)
    return PartSlots(parts=made)


@router.put(
    "/{upload_id}/files/{file}",
    summary="Send a part through the farm",
    response_model=AskedPart,
    responses=problems(*KEYED, 404, 409, 413),
    openapi_extra={"requestBody": _PART_BODY},
)
async def put(
    upload_id: UploadId, file: FileNumber, part: PartNumber, request: Request, entrance: Submitter
) -> AskedPart:
    """Take one part as the bare body, for who cannot reach the bucket; a repeat is fine."""
    caller = await run_in_threadpool(entrance.caller)
    settings = settings_of(request)
    async with received(
        request, spool=settings.spool_dir, raw_name=f"part {part}", max_files=1
    ) as sent:
        require_digest_sent(sent, sent.files[0], request.headers.get("repr-digest"))
        asked = AskedPart(file=file, number=part, digest=sent.files[0].digest)
        await run_in_threadpool(
            model_uploads.put,
            entrance.farm,
            caller.tenant_id,
            upload_id,
            asked,
            sent.files[0].path,
        )
    return asked


@router.post(
    "/{upload_id}/complete",
    summary="Complete an upload",
    responses=problems(*KEYED, 404, 409),
)
def complete(upload_id: UploadId, entrance: Submitter) -> UploadView:
    """Let the farm read it all again and make the model; the upload says how far that is."""
    row = model_uploads.complete(entrance.farm, entrance.caller().tenant_id, upload_id)
    return _view(entrance.farm, row)


@router.delete("/{upload_id}", summary="Remove an upload", responses=problems(*KEYED, 404))
def cancel(upload_id: UploadId, entrance: Submitter) -> UploadView:
    """End an upload that has not ended; what came of it leaves the bucket."""
    row = model_uploads.cancel(entrance.farm, entrance.caller().tenant_id, upload_id)
    return _view(entrance.farm, row)


def _view(farm: Farm, row: Upload) -> UploadView:
    here = model_uploads.received(farm, row)
    files = [
        UploadFileView.model_validate(
            file | {"part_count": part_count(file), "received": here.get(at, [])}
        )
        for at, file in enumerate(row.files)
    ]
    return UploadView.model_validate(
        {
            "id": row.id,
            "state": row.state,
            "name": row.name,
            "size": row.size,
            "files": files,
            "verified_bytes": row.verified_bytes,
            "model": row.model,
            "failure": row.failure,
            "created_at": row.created_at,
            "expires_at": row.touched_at + timedelta(seconds=farm.policy.upload_grace_s),
        }
    )
