"""Models, datasets and blobs: each tenant's own, each once."""

from __future__ import annotations

import pytest

from enginefarm.digest import digest_of
from enginefarm.errors import NotFound
from storage import access, blobs, catalogue
from storage.database import Database, Session
from storage.models import Dataset, Model

pytestmark = pytest.mark.services
MODEL, DATASET = digest_of(b"model"), digest_of(b"dataset")
HUGE = 40 << 30


def tenant(session: Session, name: str = "acme") -> str:
    return access.ensure_tenant(session, name).id


def add_model(
    session: Session, tenant_id: str, digest: str = MODEL, name: str = "resnet"
) -> tuple[Model, bool]:
    files = [{"name": "model.onnx", "digest": digest_of(b"file"), "size": HUGE}]
    return catalogue.add_model(
        session,
        tenant_id,
        digest=digest,
        name=name,
        size=HUGE,
        files=files,
        interface={"inputs": [{"name": "x", "shape": ["batch", 3]}]},
    )


def add_dataset(session: Session, tenant_id: str, name: str = "faces") -> tuple[Dataset, bool]:
    return catalogue.add_dataset(
        session,
        tenant_id,
        digest=DATASET,
        name=name,
        size=HUGE,
        samples=64,
        arrays=[{"name": "x", "dtype": "float32", "shape": [64, 3]}],
    )


def test_a_model_comes_back_as_it_was_added(database: Database) -> None:
    with database.transaction() as session:
        _, existed = add_model(session, tenant(session))
    with database.transaction() as session:
        row = catalogue.get_model(session, tenant(session), MODEL)

    assert not existed
    assert (row.name, row.size, row.files[0]["name"]) == ("resnet", HUGE, "model.onnx")
    assert row.interface == {"inputs": [{"name": "x", "shape": ["batch", 3]}]}


def test_the_same_bytes_twice_are_one_model_under_its_first_name(database: Database) -> None:
    with database.transaction() as session:
        add_model(session, tenant(session))
    with database.transaction() as session:
        row, existed = add_model(session, tenant(session), name="other")
        every = catalogue.list_models(session, tenant(session), 10)

    assert (existed, row.name, len(every)) == (True, "resnet", 1)


def test_a_dataset_comes_back_and_is_kept_once(database: Database) -> None:
    with database.transaction() as session:
        _, first = add_dataset(session, tenant(session))
        _, second = add_dataset(session, tenant(session), name="other")
        row = catalogue.get_dataset(session, tenant(session), DATASET)

    assert (first, second) == (False, True)
    assert (row.name, row.samples, row.size) == ("faces", 64, HUGE)


def test_models_are_listed_newest_first_and_no_more_than_asked_for(database: Database) -> None:
    digests = [digest_of(bytes([number])) for number in range(4)]
    for digest in digests:
        with database.transaction() as session:
            add_model(session, tenant(session), digest)

    with database.transaction() as session:
        rows = catalogue.list_models(session, tenant(session), 3)

    assert [row.digest for row in rows] == digests[:0:-1]


def test_nothing_of_one_tenant_is_there_for_another(database: Database) -> None:
    with database.transaction() as session:
        mine, theirs = tenant(session), tenant(session, "umbrella")
        add_model(session, mine)
        add_dataset(session, mine)
        blobs.record(session, mine, MODEL, HUGE, "application/octet-stream")

        assert catalogue.list_models(session, theirs, 10) == []
        assert blobs.find(session, theirs, MODEL) is None
        with pytest.raises(NotFound) as model:
            catalogue.get_model(session, theirs, MODEL)
        with pytest.raises(NotFound) as dataset:
            catalogue.get_dataset(session, theirs, DATASET)

    assert (model.value.code, dataset.value.code) == ("unknown_model", "unknown_dataset")


def test_two_tenants_may_have_the_same_model(database: Database) -> None:
    with database.transaction() as session:
        existed = [add_model(session, tenant(session, name))[1] for name in ("acme", "umbrella")]

    assert existed == [False, False]


def test_a_blob_is_recorded_once_as_it_was_first(database: Database) -> None:
    with database.transaction() as session:
        owner = tenant(session)
        for media_type in ("application/octet-stream", "text/plain"):
            blobs.record(session, owner, MODEL, HUGE, media_type)
        row = blobs.find(session, owner, MODEL)

    assert row is not None
    assert (row.size, row.media_type) == (HUGE, "application/octet-stream")
