"""Datasets: take named arrays in as ``.npz`` without pickles, and tell what the farm has."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from api import views
from api.auth import Entrance, needs, settings_of
from api.declared import BYTES, require_digest_sent, require_known_fields, upload_body
from api.openapi import KEYED, problems
from api.parameters import DigestPath
from api.reading import reading_of
from api.uploads import RAW, ReceivedFile, Upload, received
from enginefarm.state import Scope
from enginefarm.views import DatasetView
from intake.findings import DatasetFound
from storage import blobs, builds, catalogue, garbage
from tasks import quotas
from tasks.names import require_plain, stem_of

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])
DATASET_FILE = "dataset.npz"
_BODY = upload_body(
    ".npz", BYTES | {"description": "What numpy.savez writes: one array for each input."}
)
Submitter = Annotated[Entrance, Depends(needs(Scope.SUBMIT))]
Reader = Annotated[Entrance, Depends(needs(Scope.READ, Scope.SUBMIT))]


@router.post(
    "",
    summary="Upload a dataset",
    status_code=201,
    response_model=DatasetView,
    responses=problems(
        *KEYED,
        413,
        422,
        good={200: {"model": DatasetView, "description": "The farm has these bytes already."}},
    ),
    openapi_extra={"requestBody": _BODY},
)
async def upload(
    request: Request,
    response: Response,
    entrance: Submitter,
    name: Annotated[str | None, Query(description="A name to show; for a bare body.")] = None,
) -> DatasetView:
    """Take a dataset in one request, as the bare bytes of an ``.npz`` file or as a form."""
    await run_in_threadpool(entrance.caller)
    settings = settings_of(request)
    wanted = request.headers.get("repr-digest")
    async with received(
        request, spool=settings.spool_dir, raw_name=name or DATASET_FILE, max_files=1
    ) as sent:
        shown = await run_in_threadpool(_checked, sent, wanted)
        found = await reading_of(request).dataset(sent.files[0].path)
        view = await run_in_threadpool(_keep, entrance, sent.files[0], shown, found)
    response.status_code = 200 if view.existed else 201
    response.headers["Location"] = f"/v1/datasets/{view.digest}"
    return view


@router.get("/{digest}", summary="Show a dataset", responses=problems(*KEYED, 404))
def show(digest: DigestPath, entrance: Reader) -> DatasetView:
    """Return one dataset: its arrays and how many samples they hold."""
    with entrance.transaction() as (session, caller):
        row = catalogue.get_dataset(session, caller.tenant_id, digest)
        if caller.may(Scope.SUBMIT):
            catalogue.touch(session, row)  # who looks before a submit is not to find it gone then
        return views.dataset(row)


def _checked(sent: Upload, wanted: str | None) -> str:
    """Check all that can be known without reading the file; return the name to show."""
    require_known_fields(sent)
    file = sent.files[0]
    require_digest_sent(sent, file, wanted)
    return require_plain(sent.fields.get("name") or stem_of(file.name, ".npz"), "a dataset's name")


def _keep(entrance: Entrance, file: ReceivedFile, shown: str, found: DatasetFound) -> DatasetView:
    """Keep the bytes, then the row."""
    sent_here = [(file.digest, file.size)]
    with entrance.transaction() as (session, caller):
        quotas.require_room_for_blobs(session, caller.tenant_id, sent_here)
        garbage.keep(session, [file.digest])
    entrance.farm.objects.put_file(file.digest, file.path, RAW)
    with entrance.transaction() as (session, caller):
        builds.lock_tenant(session, caller.tenant_id)
        # Others of the tenant may have kept theirs meanwhile; the sweep removes what is refused.
        quotas.require_room_for_blobs(session, caller.tenant_id, sent_here)
        blobs.record(session, caller.tenant_id, file.digest, file.size, RAW)
        row, existed = catalogue.add_dataset(
            session,
            caller.tenant_id,
            digest=file.digest,
            name=shown,
            size=file.size,
            samples=found.samples,
            arrays=[array.model_dump(mode="json") for array in found.arrays],
        )
        return views.dataset(row, existed=existed)
