"""Models: take an ONNX file and its external data in, and tell what the farm has.

The file is read by a process of its own. Nothing is kept of an upload that is refused; the same
bytes twice are one model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from api import views
from api.auth import Entrance, needs, settings_of
from api.declared import BYTES, require_digest_sent, require_known_fields, upload_body
from api.names import require_plain, stem_of
from api.openapi import KEYED, problems
from api.parameters import DigestPath, Limit
from api.reading import reading_of
from api.uploads import RAW, ReceivedFile, Upload, received
from enginefarm.digest import canonical_json, digest_of
from enginefarm.errors import InvalidModel, InvalidRequest
from enginefarm.external_data import check_external
from enginefarm.manifest import safe_file_name
from enginefarm.nearest import did_you_mean
from enginefarm.state import Scope
from enginefarm.views import ModelSummary, ModelView
from intake.findings import ModelFound
from storage import blobs, builds, catalogue, garbage
from tasks import quotas

router = APIRouter(prefix="/v1/models", tags=["models"])
MODEL_FILE = "model.onnx"
_RESERVED = {MODEL_FILE, "model.plan", "dataset.npz"}
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
    main, external = _split(sent)
    require_digest_sent(sent, main, wanted)
    shown = require_plain(
        name or sent.fields.get("name") or stem_of(main.name, ".onnx"), "a model's name"
    )
    return _Taken(shown, main, external)


def _keep(entrance: Entrance, taken: _Taken, found: ModelFound) -> ModelView:
    """Check the files against the model, keep the bytes, then the row: no row lacks its bytes."""
    main, external = taken.main, taken.external
    check_external(found, {file.name: file.size for file in external})
    _require_referenced(found, external)
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
        for file in files:
            blobs.record(session, caller.tenant_id, file.digest, file.size, RAW)
        listing = _listing(files)
        row, existed = catalogue.add_model(
            session,
            caller.tenant_id,
            digest=digest_of(canonical_json({"files": listing})),
            name=taken.name,
            size=sum(file.size for file in files),
            files=listing,
            interface=_interface(found),
        )
        return views.model(row, existed=existed)


def _listing(files: list[ReceivedFile]) -> list[dict[str, Any]]:
    return [
        {"digest": file.digest, "name": file.name, "size": file.size}
        for file in sorted(files, key=lambda file: file.name)
    ]


def _interface(found: ModelFound) -> dict[str, Any]:
    return {
        "inputs": [tensor.model_dump(mode="json") for tensor in found.inputs],
        "outputs": [tensor.model_dump(mode="json") for tensor in found.outputs],
        "opsets": dict(found.opsets),
        "node_count": found.node_count,
    }


def _split(sent: Upload) -> tuple[ReceivedFile, list[ReceivedFile]]:
    """Return the model file and its external data: the one ``.onnx`` file, else the only file."""
    models = [file for file in sent.files if file.name.lower().endswith(".onnx")]
    if not models and len(sent.files) == 1:
        models = sent.files
    if len(models) != 1:
        raise InvalidRequest(
            f"{len(models)} of the {len(sent.files)} files end in .onnx.",
            code="one_model_file",
            why="A model is one .onnx file; the other files are its external data.",
            fix="Send exactly one .onnx file in a request.",
        )
    external = [file for file in sent.files if file is not models[0]]
    for file in external:
        _require_own_name(file.name)
    return models[0], external


def _require_own_name(name: str) -> None:
    """External data keeps its name on every node, so the name must suit a shell and not be ours."""
    try:
        why = "The farm uses this name itself." if safe_file_name(name) in _RESERVED else ""
    except ValueError:
        why = "Only letters, digits, dots, dashes and underscores can be in it."
    if why:
        raise InvalidRequest(
            f"External data cannot be called {name[:80]!r}.",
            code="bad_file_name",
            why=why,
            fix="Save the model again with another name for its external data.",
        )


def _require_referenced(found: ModelFound, external: list[ReceivedFile]) -> None:
    known = {reference.location for reference in found.external}
    for file in external:
        if file.name not in known:
            raise InvalidModel(
                f"The model does not refer to the file {file.name!r}.",
                code="file_not_referenced",
                why="Every file that is sent becomes a part of the model.",
                fix=did_you_mean(file.name, known) if known else "Send the .onnx file alone.",
            )
