"""Make what tests send: small real models, datasets, and artifacts as they stand when published."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from enginefarm.attestation import PREDICATE_TYPE
from enginefarm.digest import digest_of
from enginefarm.manifest import (
    CONFIG_TYPE,
    ENGINE_TYPES,
    TITLE,
    Descriptor,
    Manifest,
)
from enginefarm.state import ArtifactState, BuildState, JobState
from storage import artifacts, blobs, ids
from storage.models import Artifact, Attestation, Build, Job
from tasks.farm import Farm

OCTETS = "application/octet-stream"


def onnx_model(dims: list[int | str] | None = None, *, salt: int = 0) -> bytes:
    """Return a real model with one input ``x`` and one output ``y``."""
    shape = [1, 4] if dims is None else dims
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1], [2.0 + salt])
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        "doubler",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    data: bytes = model.SerializeToString()
    return data


def crowded_model(weights: int) -> bytes:
    """Return a model of many empty weights, each with a name that a reader must remember."""
    model = onnx.load_from_string(onnx_model())
    for number in range(weights):
        model.graph.initializer.add(name=f"weight{number}", data_type=TensorProto.FLOAT, dims=[0])
    data: bytes = model.SerializeToString()
    return data


def with_external(location: str, length: int = 16, offset: int = 0) -> bytes:
    """Return a model whose weight lies in another file."""
    model = onnx.load_from_string(onnx_model())
    tensor = model.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.ClearField("raw_data")
    tensor.dims[:] = [4]
    tensor.data_location = TensorProto.EXTERNAL
    values = {"location": location, "offset": str(offset), "length": str(length)}
    for name, value in values.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = name, value
    data: bytes = model.SerializeToString()
    return data


def npz(**arrays: npt.NDArray[Any]) -> bytes:
    """Return what ``numpy.savez`` writes."""
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


@dataclass(frozen=True)
class Published:
    """An artifact in the database and the bucket."""

    digest: str
    manifest: bytes
    engine: bytes
    engine_digest: str
    build_id: str
    job_id: str


def artifact(
    farm: Farm,
    tenant_id: str,
    *,
    state: ArtifactState = ArtifactState.PUBLISHED,
    engine: bytes = b"engine bytes, 0123456789",
    config: bytes = b"{}",
) -> Published:
    """Put an artifact where the publisher puts it."""
    manifest = _manifest(config, engine)
    build_id, job_id = ids.new_id("bld"), ids.new_id("job")
    with farm.database.transaction() as session:
        for data in (engine, config, manifest.render()):
            farm.objects.put_bytes(digest_of(data), data, OCTETS)
            blobs.record(session, tenant_id, digest_of(data), len(data), OCTETS)
        # One after another: the rows have no relations by which the session could sort them.
        for row in (
            _build(tenant_id, build_id),
            _job(tenant_id, build_id, job_id),
        ):
            session.add(row)
            session.flush()
        artifacts.add(
            session,
            _artifact(tenant_id, build_id, job_id, manifest, state),
            [row.digest for row in (manifest.config, *manifest.layers)],
            _attestation(tenant_id, job_id, manifest),
        )
    return Published(
        manifest.digest, manifest.render(), engine, digest_of(engine), build_id, job_id
    )


def _manifest(config: bytes, engine: bytes) -> Manifest:
    return Manifest.of(
        Descriptor(media_type=CONFIG_TYPE, digest=digest_of(config), size=len(config)),
        [
            Descriptor(
                media_type=ENGINE_TYPES["onnxruntime"],
                digest=digest_of(engine),
                size=len(engine),
                annotations={TITLE: "model.onnx"},
            )
        ],
    )


def _artifact(
    tenant_id: str, build_id: str, job_id: str, manifest: Manifest, state: ArtifactState
) -> Artifact:
    return Artifact(
        tenant_id=tenant_id,
        digest=manifest.digest,
        state=state,
        build_id=build_id,
        job_id=job_id,
        target="onnxruntime@cpu",
        model_digest=digest_of(b"model"),
        model_name="detector",
        manifest=manifest.render(),
        report=None,
        size=sum(layer.size for layer in manifest.layers),
    )


def _attestation(tenant_id: str, job_id: str, manifest: Manifest) -> Attestation:
    return Attestation(
        tenant_id=tenant_id,
        artifact_digest=manifest.digest,
        job_id=job_id,
        predicate_type=PREDICATE_TYPE,
        keyid="0" * 64,
        bundle=b'{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json"}',
    )


def _build(tenant_id: str, build_id: str) -> Build:
    return Build(
        id=build_id,
        tenant_id=tenant_id,
        state=BuildState.SUCCEEDED,
        model_digest=digest_of(b"model"),
        model_name="detector",
        spec={"model": digest_of(b"model"), "targets": ["onnxruntime@cpu"]},
        priority=5,
        labels={"team": "vision"},
        idempotency_key=None,
        request_digest=digest_of(b"request"),
        event_seq=0,
    )


def _job(tenant_id: str, build_id: str, job_id: str) -> Job:
    return Job(
        id=job_id,
        tenant_id=tenant_id,
        build_id=build_id,
        target="onnxruntime@cpu",
        stage="publish",
        position=3,
        state=JobState.SUCCEEDED,
        priority=5,
        limits={},
    )
