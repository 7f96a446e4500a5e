"""A dataset is read without trust, and every value of it is looked at."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from enginefarm.errors import InvalidDataset, TooLarge
from intake.datasets import scan_npz
from intake.findings import DatasetFound

LIMITS = {"max_bytes": 1 << 20, "max_expanded_bytes": 1 << 24}


def written(folder: Path, data: bytes) -> Path:
    path = folder / "data.npz"
    path.write_bytes(data)
    return path


def saved(**arrays: npt.NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def packed(**arrays: npt.NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def zipped(**members: bytes) -> bytes:
    """Return an archive of members as they are given; ``_`` in a name stands for a dot."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("_", "."), data)
    return stream.getvalue()


def npy(array: npt.NDArray[Any], *, pickles: bool = False) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=pickles)
    return stream.getvalue()


def misplaced(data: bytes, field: int, number: int) -> bytes:
    """Return an archive whose last record says something else of its directory."""
    out = bytearray(data)
    struct.pack_into("<I", out, data.rindex(b"PK\x05\x06") + field, number)
    return bytes(out)


def scan(folder: Path, data: bytes, **limits: int) -> DatasetFound:
    with written(folder, data).open("rb") as stream:
        return scan_npz(stream, **(LIMITS | limits))


def refusal(folder: Path, data: bytes) -> InvalidDataset:
    with pytest.raises(InvalidDataset) as caught:
        scan(folder, data)
    assert caught.value.message
    assert caught.value.fix
    return caught.value


def test_samples_of_several_sizes_are_counted_together(tmp_path: Path) -> None:
    sizes = {"x/0": np.zeros((5, 3), "f"), "y/0": np.zeros(5, "f"), "x/1": np.zeros((2, 4), "f")}
    found = scan(tmp_path, saved(**sizes, **{"y/1": np.zeros(2, "f")}))
    assert found.samples == 7
    with pytest.raises(InvalidDataset) as refused:
        scan(tmp_path, saved(**sizes, **{"y/1": np.zeros(3, "f")}))
    assert refused.value.code == "dataset_ragged"
    with pytest.raises(InvalidDataset) as lacking:
        scan(tmp_path, saved(**sizes))
    assert lacking.value.code == "dataset_ragged"


def test_arrays_are_told_by_name_type_and_shape_with_their_samples(tmp_path: Path) -> None:
    found = scan(
        tmp_path,
        saved(
            x=np.zeros((5, 3, 2), np.float16),
            ids=np.zeros((5,), np.int64),
            text=np.array(["a", "bc"] * 2 + ["d"]),
        ),
    )

    assert found.samples == 5
    assert [(row.name, row.dtype, row.shape) for row in found.arrays] == [
        ("x", "float16", [5, 3, 2]),
        ("ids", "int64", [5]),
        ("text", "string", [5]),
    ]


def test_packed_arrays_and_either_order_are_read(tmp_path: Path) -> None:
    data = packed(x=np.asfortranarray(np.ones((4, 3), np.float32)))

    assert scan(tmp_path, data).arrays[0].shape == [4, 3]


WHOLE = saved(x=np.zeros((4, 4), np.float32))
HUGE = b"(9999999999999999999, 9,), }"
BAD = {
    "a directory before its beginning": (misplaced(WHOLE, 12, 0xFFFFFF), "dataset_not_npz"),
    "a directory behind its end": (misplaced(WHOLE, 16, 0xFFFFFFF0), "dataset_not_npz"),
    "nothing": (b"", "dataset_not_npz"),
    "text": (b"hello", "dataset_not_npz"),
    "cut": (WHOLE[:-30], "dataset_not_npz"),
    "one array without a name": (npy(np.zeros(3)), "dataset_not_npz"),
    "a pickle": (b"\x80\x04N.", "dataset_pickled"),
    "objects": (zipped(x_npy=npy(np.array([{}]), pickles=True)), "dataset_pickled"),
    "no arrays": (zipped(), "dataset_empty"),
    "no samples": (saved(x=np.zeros((0, 4), np.float32)), "dataset_empty"),
    "an empty dimension": (saved(x=np.zeros((4, 0), np.float32)), "dataset_empty"),
    "a member that is no array": (zipped(readme_txt=b"x"), "dataset_name"),
    "a path": (zipped(**{"a/../x_npy": npy(np.zeros(3))}), "dataset_name"),
    "a single value": (saved(x=np.array(1, np.float32)), "dataset_ragged"),
    "other samples": (saved(x=np.zeros((2, 1)), y=np.zeros((3, 1))), "dataset_ragged"),
    "complex numbers": (saved(x=np.zeros(3, np.complex64)), "dataset_dtype"),
    "big-endian": (saved(x=np.zeros(3, ">f4")), "dataset_dtype"),
    "dates": (saved(x=np.zeros(3, "datetime64[s]")), "dataset_dtype"),
    "records": (saved(x=np.zeros(3, [("a", "f4")])), "dataset_dtype"),
    "NaN": (saved(x=np.array([[1, np.nan]], np.float32)), "dataset_non_finite"),
    "infinity": (saved(x=np.array([-np.inf], np.float16)), "dataset_non_finite"),
    "fewer values than its shape": (zipped(x_npy=npy(np.zeros(9))[:-8]), "dataset_not_npz"),
    "more values than its shape": (zipped(x_npy=npy(np.zeros(9)) + b"\0"), "dataset_not_npz"),
    "a shape of two numbers in one": (
        zipped(x_npy=npy(np.zeros(9)).replace(b"(9,), ", b"(9 1),")),
        "dataset_not_npz",
    ),
    "a shape with a letter inside": (
        zipped(x_npy=npy(np.zeros(19)).replace(b"(19,), ", b"(1L9,),")),
        "dataset_not_npz",
    ),
    "a NaN at a place that no array has": (
        zipped(x_npy=npy(np.full(9, np.nan)).replace(b"(9,), }" + b" " * 21, HUGE)),
        "dataset_not_npz",
    ),
    "big-endian text": (saved(x=np.array(["a"], ">U1")), "dataset_dtype"),
    "a letter beyond all letters": (
        zipped(x_npy=npy(np.array(["a"])).replace(b"a\0\0\0", b"\0\0\x11\0")),
        "dataset_not_npz",
    ),
    "half of a letter": (
        zipped(x_npy=npy(np.array(["a"])).replace(b"a\0\0\0", b"\0\xd8\0\0")),
        "dataset_not_npz",
    ),
    "a boolean of seven": (
        zipped(x_npy=npy(np.zeros(3, bool))[:-1] + b"\x07"),
        "dataset_not_npz",
    ),
    "a header that is code": (
        zipped(x_npy=npy(np.zeros(9)).replace(b"(9,)", b"f()+")),
        "dataset_not_npz",
    ),
}


@pytest.mark.parametrize(("data", "code"), BAD.values(), ids=BAD.keys())
def test_each_bad_file_is_refused_by_its_code(tmp_path: Path, data: bytes, code: str) -> None:
    assert refusal(tmp_path, data).code == code


def test_a_value_that_is_not_finite_is_named_by_its_index(tmp_path: Path) -> None:
    values = np.zeros((70, 300, 60), np.float32)
    values[69, 7, 3] = np.inf

    for array in (values, np.asfortranarray(values)):
        error = refusal(tmp_path, packed(x=array))
        assert error.context["index"] == [69, 7, 3]
        assert "sample 69" in error.fix


def test_limits_hold_before_anything_is_unpacked(tmp_path: Path) -> None:
    bomb = packed(x=np.zeros((1000, 1000), np.float32))

    assert len(bomb) < 10_000
    with pytest.raises(TooLarge) as when_unpacked:
        scan(tmp_path, bomb, max_expanded_bytes=1_000_000)
    with pytest.raises(TooLarge) as as_sent:
        scan(tmp_path, bomb, max_bytes=1000)
    assert when_unpacked.value.context["limit_bytes"] == 1_000_000
    assert as_sent.value.context["limit_bytes"] == 1000


@pytest.mark.parametrize(
    ("array", "ends"),
    [
        (np.array([[3.5, -2.0]], np.float32), (-2.0, 3.5)),
        (np.array([7, 9], np.uint8), (7.0, 9.0)),
        (np.array([True, False]), (0.0, 1.0)),
        (np.array(["a", "b"]), (None, None)),
        (np.pad(np.array([-2.5, 7.0]), (0, 1_000_000)), (-2.5, 7.0)),
    ],
    ids=["floats", "bytes", "booleans", "text", "more than a piece"],
)
def test_the_least_and_the_largest_value_of_each_array_are_kept(
    tmp_path: Path, array: npt.NDArray[Any], ends: tuple[float | None, float | None]
) -> None:
    with written(tmp_path, saved(x=array)).open("rb") as stream:
        (found,) = scan_npz(stream).arrays
    assert (found.low, found.high) == ends
