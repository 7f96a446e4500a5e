"""The same files give the same manifest; one that could name a file elsewhere is not read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from enginefarm.digest import digest_of
from enginefarm.errors import VerificationFailed
from enginefarm.manifest import (
    CONFIG_TYPE,
    MAX_MANIFEST_BYTES,
    TITLE,
    Descriptor,
    Manifest,
    read_manifest,
    safe_file_name,
)


def descriptor(name: str, data: bytes = b"x") -> Descriptor:
    return Descriptor(
        media_type="application/x", digest=digest_of(data), size=1, annotations={TITLE: name}
    )


CONFIG = Descriptor(media_type=CONFIG_TYPE, digest=digest_of(b"{}"), size=2)
GOOD = Manifest.of(CONFIG, [descriptor("b"), descriptor("a")])


def changed(**members: object) -> bytes:
    return json.dumps(json.loads(GOOD.render()) | members).encode()


def layer(**members: object) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(GOOD.render())["layers"][0]
    return whole | members


def test_the_order_of_the_files_does_not_change_the_manifest() -> None:
    other = Manifest.of(CONFIG, [descriptor("a"), descriptor("b")])

    assert other.render() == GOOD.render()
    assert GOOD.digest == digest_of(GOOD.render())
    assert [each.name for each in GOOD.layers] == ["a", "b"]


def test_what_is_rendered_is_read_and_rendered_the_same() -> None:
    assert read_manifest(GOOD.render()) == GOOD
    assert read_manifest(GOOD.render()).render() == GOOD.render()


def test_a_file_is_found_by_its_name() -> None:
    assert GOOD.file("b") == descriptor("b")
    assert GOOD.file("c") is None


BAD = {
    "no JSON": b"{",
    "no object": b"[]",
    "no files": changed(layers=[]),
    "a file without a name": changed(layers=[layer(annotations={})]),
    "two files of one name": changed(layers=[layer(), layer()]),
    "a path": changed(layers=[layer(annotations={TITLE: "../a"})]),
    "a digest of another kind": changed(layers=[layer(digest="md5:00")]),
    "a negative size": changed(layers=[layer(size=-1)]),
    "another artifact type": changed(artifactType="application/x"),
    "another media type": changed(mediaType="application/x"),
    "nested too deep": b"[" * 100_000,
    "too long": changed(annotations={"a": "x" * MAX_MANIFEST_BYTES}),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
def test_what_is_no_manifest_of_ours_is_refused(data: bytes) -> None:
    with pytest.raises(VerificationFailed) as caught:
        read_manifest(data)

    assert caught.value.code == "manifest_invalid"
    assert caught.value.why


@pytest.mark.parametrize("name", ["model.onnx", "_a", "-a", "9", "a" * 128])
def test_plain_names_are_safe(name: str) -> None:
    assert safe_file_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".a", "a..b", "a/b", "a\\b", "/a", "a b", "a\n", "é", "a" * 129]
)
def test_names_that_could_lead_elsewhere_are_not(name: str) -> None:
    with pytest.raises(ValueError, match="plain file name"):
        safe_file_name(name)
