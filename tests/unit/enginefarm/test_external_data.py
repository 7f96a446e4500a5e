"""External data is taken from plain files beside the model, whole, or refused with all it lacks."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from enginefarm.errors import InvalidModel
from enginefarm.external_data import check_external
from enginefarm.onnx_types import ExternalRef
from tests.refused import refused_with


@dataclass
class Scanned:
    """What the check looks at of a scan."""

    external: list[ExternalRef]


def ref(
    location: str = "w.bin", *, offset: int = 0, length: int | None = 16, needed: int = 16
) -> ExternalRef:
    """Return a tensor's place."""
    return ExternalRef("w", location, offset, length, needed)


def refusal(refs: list[ExternalRef], sizes: dict[str, int]) -> InvalidModel:
    with pytest.raises(InvalidModel) as caught:
        check_external(Scanned(refs), sizes)
    assert caught.value.fix
    return caught.value


@pytest.mark.parametrize(
    "refs",
    [
        [],
        [ref()],
        [ref(), ref(offset=16)],
        [ref(length=None)],
        [ref(length=20)],
        [ref(offset=32, length=0, needed=0)],
        [ref("model.onnx_data")],
    ],
    ids=["none", "whole", "two", "no length", "longer", "empty", "as exporters name it"],
)
def test_what_is_there_whole_passes(refs: list[ExternalRef]) -> None:
    assert (
        refused_with(
            check_external, Scanned(refs), {"w.bin": 32, "model.onnx_data": 16, "more.bin": 1}
        )
        is None
    )


@pytest.mark.parametrize(
    "location",
    ["/etc/passwd", "../w.bin", "a/w.bin", "a\\w.bin", "C:w.bin", ".w", "..", "a..b", "w\n", "w\0"],
)
def test_a_path_is_refused_even_when_a_file_of_that_name_was_sent(location: str) -> None:
    error = refusal([ref(location)], {location: 100})

    assert error.code == "external_path_escapes"
    assert error.context["tensor"] == "w"


@pytest.mark.parametrize("location", ["", "wéights.bin", "w bin", "-w.bin", "w" * 129])
def test_a_name_that_some_system_could_misread_is_refused(location: str) -> None:
    assert refusal([ref(location)], {location: 100}).code == "external_name_refused"


def test_all_files_that_are_missing_are_named_once() -> None:
    error = refusal([ref("b.bin"), ref("a.bin"), ref("b.bin", offset=16)], {"w.bin": 16})

    assert error.code == "external_data_missing"
    assert error.context["missing"] == ["a.bin", "b.bin"]
    assert "a.bin, b.bin" in error.message


def test_of_many_missing_files_the_first_are_said_and_the_rest_counted() -> None:
    error = refusal([ref(f"{number:03}.bin") for number in range(50)], {})

    assert "019.bin and 30 more" in error.message
    assert "020.bin" not in error.message


@pytest.mark.parametrize(
    ("short", "said"),
    [
        (ref(length=33), "needs bytes 0 to 33; the file has 32"),
        (ref(offset=17), "needs bytes 17 to 33; the file has 32"),
        (ref(offset=17, length=None), "needs bytes 17 to 33; the file has 32"),
        (ref(length=15), "need 16 bytes; the model says 15"),
    ],
    ids=["long", "far", "no length", "too little"],
)
def test_a_file_that_is_too_short_is_told_by_its_numbers(short: ExternalRef, said: str) -> None:
    error = refusal([ref(), short], {"w.bin": 32})

    assert error.code == "external_data_short"
    assert said in error.why


@pytest.mark.parametrize(
    "refs",
    [
        [ref(), ref()],
        [ref(), ref(offset=16), ref()],
        [ref(length=None), ref(offset=16, length=None)],
        [ref(length=None), ref()],
        [ref(), ref("v.bin", offset=8)],
        [ref(), ref(offset=8, length=0, needed=0)],
    ],
    ids=["tied", "tied, another", "no lengths", "one without", "another file", "empty inside"],
)
def test_tied_weights_share_all_of_their_bytes(refs: list[ExternalRef]) -> None:
    sizes = {"w.bin": 32, "v.bin": 32}

    assert refused_with(check_external, Scanned(refs), sizes) is None


@pytest.mark.parametrize(
    "refs",
    [
        [ref(), ref(offset=8)],
        [ref(length=32, needed=16), ref(offset=8)],
        [ref(length=32), ref()],
        [ref(offset=8), ref(offset=24, length=4, needed=4), ref()],
        [ref(), ref(), ref(offset=15, length=1, needed=1)],
    ],
    ids=["half", "inside", "beginning", "out of order", "behind tied ones"],
)
def test_tensors_that_share_only_a_part_are_refused(refs: list[ExternalRef]) -> None:
    """A change of one would change the other, and no exporter writes such a file."""
    error = refusal(refs, {"w.bin": 32})

    assert error.code == "external_data_overlaps"
    assert error.context["location"] == "w.bin"
