"""No manifest is signed that every reader refuses."""

from __future__ import annotations

import pytest

from enginefarm.errors import JobFailed
from enginefarm.manifest import (
    CONFIG_TYPE,
    MAX_MANIFEST_BYTES,
    TITLE,
    Descriptor,
    Manifest,
    read_manifest,
)
from enginefarm.state import Blame
from tasks.artifact_files import require_readable


def file(name: str | None, **annotations: str) -> Descriptor:
    told = annotations if name is None else annotations | {TITLE: name}
    digest = "sha256:" + "a" * 64
    return Descriptor(media_type=CONFIG_TYPE, digest=digest, size=1, annotations=told)


def manifest(*files: Descriptor) -> Manifest:
    return Manifest.of(file(None), list(files))


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([file("runtime-l4.cache"), file("runtime-l4.cache")], "repeated"),
        ([file(None)], "missing"),
        ([file("runtime-l4.cache", made="9" * MAX_MANIFEST_BYTES)], "above"),
    ],
)
def test_a_manifest_that_no_reader_takes_is_the_nodes_failure(
    files: list[Descriptor], why: str
) -> None:
    with pytest.raises(JobFailed) as refused:
        require_readable(manifest(*files))
    assert (refused.value.code, refused.value.blame) == ("result_invalid", Blame.NODE)
    assert why in refused.value.why


def test_one_that_passes_is_read_as_it_was_written() -> None:
    written = manifest(file("model.plan"), file("runtime-l4.cache"))
    require_readable(written)
    assert read_manifest(written.render()) == written
