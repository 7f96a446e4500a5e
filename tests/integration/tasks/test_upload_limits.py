"""What a declaration may hold: no more bytes than the tenant may keep, and no lies about them."""

from __future__ import annotations

import pytest

from enginefarm.digest import digest_of
from enginefarm.errors import InvalidRequest, QuotaExceeded
from enginefarm.upload import DeclaredFile, UploadSpec
from intake.reader import Reader
from storage import access, tenants
from storage.models import Upload
from tasks import model_uploads
from tasks.farm import Farm
from tasks.verify_uploads import verify_due
from tests.integration.tasks.parts_waiting import FILES, LIMITS, declared, row, waiting

KNOWN = digest_of(FILES["w.bin"])


@pytest.fixture
def tenant_id(farm: Farm) -> str:
    with farm.database.transaction() as session:
        return access.ensure_tenant(session, "acme").id


def allow(farm: Farm, tenant_id: str, more: int) -> None:
    with farm.database.transaction() as session:
        kept = tenants.bytes_kept(session, tenant_id)
        tenants.get(session, tenant_id).max_bytes = kept + more


def declare(farm: Farm, tenant_id: str, *files: tuple[str, int, str]) -> Upload:
    spec = UploadSpec(
        files=[DeclaredFile(name=name, size=size, digest=digest) for name, size, digest in files]
    )
    return model_uploads.declare(farm, tenant_id, spec, "m", LIMITS)


def test_a_known_digest_with_another_size_is_refused_and_hides_no_bytes(
    farm: Farm, tenant_id: str
) -> None:
    waiting(farm, tenant_id, dict(FILES))
    verify_due(farm, Reader())
    allow(farm, tenant_id, 1000)
    with pytest.raises(InvalidRequest) as refused:
        declare(farm, tenant_id, ("m.onnx", 2_000_000_000, KNOWN))

    assert refused.value.code == "size_differs"
    assert refused.value.context["expected"] == len(FILES["w.bin"])


def test_one_digest_with_two_sizes_in_a_declaration_is_refused(farm: Farm, tenant_id: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        declare(farm, tenant_id, ("m.onnx", 9, KNOWN), ("w.bin", 8, KNOWN))

    assert refused.value.code == "size_differs"


def test_every_file_that_is_to_be_sent_takes_room(farm: Farm, tenant_id: str) -> None:
    allow(farm, tenant_id, 1000)
    with pytest.raises(QuotaExceeded):
        declare(farm, tenant_id, ("m.onnx", 600, KNOWN), ("w.bin", 600, KNOWN))


def test_what_the_bucket_has_lost_is_sent_again_once_and_not_again_and_again(
    farm: Farm, tenant_id: str
) -> None:
    waiting(farm, tenant_id, dict(FILES))
    verify_due(farm, Reader())
    allow(farm, tenant_id, 0)
    for data in FILES.values():
        farm.objects.remove(digest_of(data))
    again = declared(farm, tenant_id, dict(FILES))
    with pytest.raises(QuotaExceeded):
        declared(farm, tenant_id, dict(FILES))

    assert [file["present"] for file in row(farm, again).files] == [False, False]


def test_what_is_all_there_is_declared_above_the_limit_too(farm: Farm, tenant_id: str) -> None:
    waiting(farm, tenant_id, dict(FILES))
    verify_due(farm, Reader())
    allow(farm, tenant_id, -1)

    assert row(farm, declared(farm, tenant_id, dict(FILES))).size == 0


@pytest.mark.parametrize(
    "name", ["a\x00.onnx", "../../m.onnx", "/m.onnx", "C:\\m.onnx", "a\ud800.onnx", "x" * 200, ""]
)
def test_a_name_that_is_not_plain_is_refused_whoever_declares_it(
    farm: Farm, tenant_id: str, name: str
) -> None:
    file = DeclaredFile(name=name, size=9, digest=KNOWN)
    plain = file.model_copy(update={"name": "m.onnx"})
    for files, shown in (([file], "m"), ([plain], name)):
        with pytest.raises(InvalidRequest) as refused:
            model_uploads.declare(farm, tenant_id, UploadSpec(files=files), shown, LIMITS)

        assert refused.value.code == "bad_file_name"
