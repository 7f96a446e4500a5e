"""An artifact's manifest: an OCI image manifest over its files. Its sha256 is the artifact.

Rendering is canonical, so the same files give the same bytes; reading is strict, since what is
read decides which files are written on a deployer's disk.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator

from enginefarm.digest import Digest, canonical_json, digest_of
from enginefarm.errors import VerificationFailed
from enginefarm.plugins import MOST_PLUGINS
from enginefarm.spec import FixedInput
from enginefarm.target_text import Portability

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
ARTIFACT_TYPE = "application/vnd.enginefarm.engine.v1"
CONFIG_TYPE = "application/vnd.enginefarm.engine.config.v1+json"
REPORT_TYPE = "application/vnd.enginefarm.report.v1+json"
PAGE_TYPE = "text/html; charset=utf-8"
LAYERS_TYPE = "application/vnd.enginefarm.engine.layers.v1+json"
CHECK_TYPE = "application/vnd.enginefarm.check.v1+json"
REPAIR_TYPE = "application/vnd.enginefarm.repair.v1+json"
PRECISION_TYPE = "application/vnd.enginefarm.precision.v1+json"
MODEL_TYPE = "application/octet-stream"
LOG_TYPE = "text/plain; charset=utf-8"
ENGINE_TYPES = {
    "onnxruntime": "application/vnd.enginefarm.onnxruntime.model.v1",
    "tensorrt-rtx": "application/vnd.enginefarm.tensorrt-rtx.plan.v1",
    "tensorrt": "application/vnd.enginefarm.tensorrt.plan.v1",
    "tensorrt-llm": "application/vnd.enginefarm.tensorrt-llm.engine.v1",
}
RUNTIME_CACHE_TYPE = "application/vnd.enginefarm.tensorrt-rtx.runtime-cache.v1"
RUNTIME_CACHE = "vnd.enginefarm.runtime-cache"
"""Annotation of a file that is a runtime cache: what it is for."""
BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
TITLE = "org.opencontainers.image.title"
PRECISION, LABELS = "vnd.enginefarm.precision", "vnd.enginefarm.labels"
VERDICT = "vnd.enginefarm.precision.verdict"
"""Annotations of a manifest whose model was cast or calibrated."""
MAX_MANIFEST_BYTES = 1 << 20
_SAFE_NAME = re.compile(r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$")


def safe_file_name(name: str) -> str:
    """Return ``name`` if it is a plain file name.

    Raises:
        ValueError: it could leave its folder, hide itself or confuse a shell.
    """
    if _SAFE_NAME.fullmatch(name) is None or ".." in name:
        message = f"{name[:80]!r} is not a plain file name"
        raise ValueError(message)
    return name


class Descriptor(BaseModel):
    """An OCI content descriptor."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    media_type: str = Field(alias="mediaType")
    digest: Digest
    size: int = Field(ge=0)
    annotations: dict[str, str] = {}

    @field_validator("annotations")
    @classmethod
    def _title_is_safe(cls, value: dict[str, str]) -> dict[str, str]:
        if TITLE in value:
            safe_file_name(value[TITLE])
        return value

    @property
    def name(self) -> str:
        """The file's name in an install folder."""
        return self.annotations.get(TITLE, "")


class Manifest(BaseModel):
    """The files of an artifact and its config."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    schema_version: int = Field(alias="schemaVersion")
    media_type: str = Field(alias="mediaType")
    artifact_type: str = Field(alias="artifactType")
    config: Descriptor
    layers: list[Descriptor] = Field(min_length=1, max_length=256)
    annotations: dict[str, str] = {}

    @classmethod
    def of(
        cls, config: Descriptor, files: list[Descriptor], annotations: dict[str, str] | None = None
    ) -> Self:
        """Make a manifest over ``files``, sorted by name."""
        return cls(
            schema_version=2,
            media_type=MANIFEST_TYPE,
            artifact_type=ARTIFACT_TYPE,
            config=config,
            layers=sorted(files, key=lambda layer: layer.name),
            annotations=annotations or {},
        )

    def render(self) -> bytes:
        """Return the canonical bytes; their sha256 is the artifact's digest."""
        return canonical_json(self.model_dump(by_alias=True, exclude_defaults=False, mode="json"))

    @property
    def digest(self) -> str:
        """The artifact's digest."""
        return digest_of(self.render())

    def file(self, name: str) -> Descriptor | None:
        """Return the file of that name, if there is one."""
        return next((layer for layer in self.layers if layer.name == name), None)


def read_manifest(data: bytes) -> Manifest:
    """Read a manifest strictly.

    Raises:
        VerificationFailed: not a manifest of ours, an unsafe or repeated file name
            (code ``manifest_invalid``).
    """
    try:
        if len(data) > MAX_MANIFEST_BYTES:
            message = f"{len(data)} bytes is above {MAX_MANIFEST_BYTES}"
            raise ValueError(message)
        manifest = Manifest.model_validate(json.loads(data))
        names = [layer.name for layer in manifest.layers]
        if len(set(names)) != len(names) or "" in names:
            message = "file names are missing or repeated"
            raise ValueError(message)
        if manifest.artifact_type != ARTIFACT_TYPE or manifest.media_type != MANIFEST_TYPE:
            message = f"artifact type {manifest.artifact_type[:80]!r} is not ours"
            raise ValueError(message)
    except (ValueError, ValidationError, RecursionError) as error:
        raise VerificationFailed(
            "The manifest cannot be used.",
            code="manifest_invalid",
            why=str(error).splitlines()[0] + ".",
            fix="Fetch it again by its digest from the farm that built it.",
        ) from error
    return manifest


class EngineConfig(BaseModel):
    """The config blob of a manifest: what a deployer must match."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = 1
    target: str
    backend: str
    backend_version: str
    arch: str
    """Of several architectures, the first; all of them are in ``target``."""
    portability: Portability | None = None
    """On which other GPUs it runs, where the target does not name it and an option did."""
    model: Digest
    repaired_model: Digest | None = None
    """What was built, if it is not the original; the inputs and outputs are its own."""
    fixed_inputs: dict[str, FixedInput] = {}
    """What the model takes and the engine does not: what each of them always is."""
    model_name: str
    plugins: Annotated[list[Digest], Field(max_length=MOST_PLUGINS)] = []
    """Libraries that its runtime must have loaded before it opens the engine."""
    inputs: list[dict[str, JsonValue]]
    outputs: list[dict[str, JsonValue]]
    profiles: list[dict[str, JsonValue]]
    measured: bool
    engine_file: str
    build: str
    recipe_key: Digest
