"""Models: take an ONNX file and its external data in, and tell what the farm has.

The file is read by a process of its own. Nothing is kept of an upload that is refused; the same
bytes twice are one model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from api import views
from api.auth import Entrance, needs, settings_of
from api.declared import BYTES, require_digest_sent, require_known_fields, upload_body
from api.openapi import KEYED, problems
from api.parameters import DigestPath, Limit
from api.reading import reading_of
from api.uploads import RAW, ReceivedFile, Upload, received
from enginefarm.external_data import check_external
from enginefarm.state import Scope
from enginefarm.views import ModelSummary, ModelView
from intake.findings import ModelFound
from storage import blobs, builds, catalogue, garbage
from tasks import quotas
from tasks.model_files import (
    MODEL_FILE,
    digest_of_model,
    interface,
    listing,
    main_of,
    require_referenced,
)
from tasks.names import require_plain, stem_of

router = APIRouter(prefix="/v1/models", tags=["models"])
_BODY = upload_body(
    ".onnx",
    {
        "type": "array",
        "items": BYTES,
        "description": "The .onnx file, and each file of its external data.",
    },
)
Submitter = Annotated[Entrance, Depends(needs(Scope.SUBMIT))]
Reader = Annotated[Entrance, Depends(needs(Scope.READ, Scope.SUBMIT))]


@router.post(
    "",
    summary="Upload a model",
    status_code=201,
    response_model=ModelView,
    responses=problems(
        *KEYED,
        413,
        422,
        good={200: {"model": ModelView, "description": "The farm has these bytes already."}},
    ),
    openapi_extra={"requestBody": _BODY},
)
async def upload(
    request: Request,
    response: Response,
    entrance: Submitter,
    name: Annotated[str | None, Query(description="A name to show; for a bare body.")] = None,
) -> ModelView:
    """Take a model in one request: a form with files, or the bare bytes of one ``.onnx`` file."""
    await run_in_threadpool(entrance.caller)
    settings = settings_of(request)
    wanted = request.headers.get("repr-digest")
    async with received(
        request,
        spool=settings.spool_dir,
        raw_name=name or MODEL_FILE,
        max_files=settings.max_model_files,
    ) as sent:
        taken = await run_in_threadpool(_checked, sent, name, wanted)
        found = await reading_of(request).model(taken.main.path)
        view = await run_in_threadpool(_keep, entrance, taken, found)
    response.status_code = 200 if view.existed else 201
    response.headers["Location"] = f"/v1/models/{view.digest}"
    return view


@router.get(
    "",
    summary="List models",
    responses=problems(*KEYED),
)
def list_models(entrance: Reader, limit: Limit = 50) -> list[ModelSummary]:
    """Return the newest models first; each alone tells all of its inputs, outputs and files."""
    with entrance.transaction() as (session, caller):
        rows = catalogue.list_models(session, caller.tenant_id, limit)
        return [views.model_summary(row) for row in rows]


@router.get("/{digest}", summary="Show a model", responses=problems(*KEYED, 404))
def show(digest: DigestPath, entrance: Reader) -> ModelView:
    """Return one model: its files, inputs, outputs and operator sets."""
    with entrance.transaction() as (session, caller):
        row = catalogue.get_model(session, caller.tenant_id, digest)
        if caller.may(Scope.SUBMIT):
            catalogue.touch(session, row)  # who looks before a submit is not to find it gone then
        return views.model(row)


@dataclass(frozen=True)
class _Taken:
    """An upload whose form is right: its name, the model file and its external data."""

    name: str
    main: ReceivedFile
    external: list[ReceivedFile]


def _checked(sent: Upload, name: str | None, wanted: str | None) -> _Taken:
    """Check all that can be known without reading the model."""
    require_known_fields(sent)
    at = main_of([file.name for file in sent.files])
    main, external = sent.files[at], [*sent.files[:at], *sent.files[at + 1 :]]
    require_digest_sent(sent, main, wanted)
    shown = require_plain(
        name or sent.fields.get("name") or stem_of(main.name, ".onnx"), "a model's name"
    )
    return _Taken(shown, main, external)


def _keep(entrance: Entrance, taken: _Taken, found: ModelFound) -> ModelView:
    """Check the files against the model, keep the bytes, then the row: no row lacks its bytes."""
    main, external = taken.main, taken.external
    check_external(found, {file.name: file.size for file in external})
    require_referenced(found, [file.name for file in external])
    main.name = MODEL_FILE
    files = [main, *external]
    objects = entrance.farm.objects
    with entrance.transaction() as (session, caller):
        sent_here = [(file.digest, file.size) for file in files]
        quotas.require_room_for_blobs(session, caller.tenant_id, sent_here)
        garbage.keep(session, [file.digest for file in files])
    for file in files:
        objects.put_file(file.digest, file.path, RAW)
    with entrance.transaction() as (session, caller):
        builds.lock_tenant(session, caller.tenant_id)
        # Others of the tenant may have kept theirs meanwhile; the sweep removes what is refused.
        quotas.require_room_for_blobs(session, caller.tenant_id, sent_here)
        for file in files:
            blobs.record(session, caller.tenant_id, file.digest, file.size, RAW)
        listed = listing([(file.name, file.digest, file.size) for file in files])
        row, existed = catalogue.add_model(
            session,
            caller.tenant_id,
            digest=digest_of_model(listed),
            name=taken.name,
            size=sum(file.size for file in files),
            files=listed,
            interface=interface(found),
        )
        return views.model(row, existed=existed)
