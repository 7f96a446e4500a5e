"""What the farm states and signs is what the client accepts, whole: no double on either side."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from enginefarm.digest import digest_of
from enginefarm.manifest import CONFIG_TYPE, TITLE, Descriptor, Manifest
from enginefarm.provenance import verify_artifact
from enginefarm.trust_views import TrustKey
from storage.signing import StatementSigner, create_key_files
from tasks.statement import Facts, statement_for

BUILDER = "https://farm.example/builders/node/v1"
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_a_statement_of_the_control_plane_is_accepted_by_the_client(tmp_path: Path) -> None:
    private, public = create_key_files(tmp_path)
    signer = StatementSigner(f"file2:{private}", public.read_text(encoding="utf-8"), BUILDER)
    manifest = Manifest.of(
        Descriptor(media_type=CONFIG_TYPE, digest=digest_of(b"config"), size=6),
        [
            Descriptor(
                media_type="application/octet-stream",
                digest=digest_of(b"engine"),
                size=6,
                annotations={TITLE: "model.onnx"},
            )
        ],
    )
    bundle = signer.sign(statement_for(manifest, _facts()))
    trusted = TrustKey(
        keyid=signer.keyid, public_key=signer.public_pem, builders=[BUILDER], not_before=AT
    )

    verified = verify_artifact(manifest.render(), manifest.digest, [bundle], [trusted], at=AT)

    assert verified.manifest == manifest
    assert verified.statement.builder == BUILDER
    assert verified.statement.keyid == signer.keyid
    assert verified.statement.build_definition["buildType"]


def _facts() -> Facts:
    model = digest_of(b"model")
    return Facts(
        builder_id=BUILDER,
        farm_version="0.1.0",
        build_id="bld_1",
        attempt=1,
        target="onnxruntime@cpu",
        backend="onnxruntime",
        backend_version="1.32.0",
        model={"digest": model, "files": [{"name": "model.onnx", "digest": model, "size": 5}]},
        repair_recipe=None,
        repaired_files=[],
        applied=[],
        compile_recipe={"profiles": [], "options": {"optimization_level": 3}},
        benchmark_recipe=None,
        gates=[],
        started_at=AT,
        finished_at=AT,
        worker={"hostname": "node-1"},
        evaluation=None,
    )
