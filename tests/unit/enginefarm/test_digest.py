"""One spelling of a digest and one of a JSON value: a second would be a second address."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginefarm.digest import (
    base64_sha256,
    canonical_json,
    digest_of,
    digest_of_chunks,
    digest_of_file,
    hex_of,
    is_digest,
    repr_digest,
    require_digest,
)
from enginefarm.errors import InvalidRequest

EMPTY = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def test_bytes_chunks_and_files_have_the_same_digest(tmp_path: Path) -> None:
    data = bytes(range(256)) * 10_000
    path = tmp_path / "data"
    path.write_bytes(data)

    expected = f"sha256:{hashlib.sha256(data).hexdigest()}"

    assert digest_of(data) == expected
    assert digest_of_chunks([data[:7], b"", data[7:]]) == expected
    assert digest_of_file(path) == expected
    assert digest_of(b"") == EMPTY


@pytest.mark.parametrize(
    "text",
    ["", EMPTY.upper(), EMPTY[7:], f"{EMPTY}\n", f" {EMPTY}", EMPTY[:-1], f"{EMPTY}0", "md5:00"],
)
def test_every_other_spelling_is_refused(text: str) -> None:
    assert not is_digest(text)
    with pytest.raises(InvalidRequest) as caught:
        require_digest(text)
    assert caught.value.code == "invalid_digest"


def test_a_digest_is_told_in_the_forms_that_headers_want() -> None:
    assert hex_of(EMPTY) == EMPTY[7:]
    assert base64_sha256(EMPTY) == "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    assert repr_digest(EMPTY) == "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"


@given(VALUES)
def test_canonical_json_is_json_and_its_own_canonical_form(value: Any) -> None:  # noqa: ANN401 - JSON
    text = canonical_json(value)

    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text


def test_canonical_json_has_no_room_for_a_choice() -> None:
    assert canonical_json({"b": 1, "a": ["é", 0.5]}) == '{"a":["é",0.5],"b":1}'.encode()
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(float("nan"))
