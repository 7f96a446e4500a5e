"""A dataset is read without trust, every value of it, and must feed exactly a model's inputs."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from enginefarm.errors import InvalidDataset, TooLarge
from enginefarm.views import TensorView
from tasks.datasets import DatasetScan, check_against, scan_npz
from tests.refused import refused_with

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


def scan(folder: Path, data: bytes, **limits: int) -> DatasetScan:
    return scan_npz(written(folder, data), **(LIMITS | limits))


def refusal(folder: Path, data: bytes) -> InvalidDataset:
    with pytest.raises(InvalidDataset) as caught:
        scan(folder, data)
    assert caught.value.message
    assert caught.value.fix
    return caught.value


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
BAD = {
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


def tensor(name: str, shape: list[int | str | None], dtype: str = "float32") -> TensorView:
    return TensorView(name=name, dtype=dtype, shape=shape)


IMAGE, IDS, SCALAR = (
    tensor("image", ["batch", 3, None]),
    tensor("ids", [1, "seq"], "int64"),
    tensor("scalar", []),
)


@pytest.mark.parametrize(
    ("inputs", "arrays"),
    [
        ([IMAGE], [tensor("image", [10, 3, 7])]),
        ([IMAGE], [tensor("image", [10, 4, 3, 7])]),
        ([IMAGE], [tensor("image", [10, 3, 7], "float16")]),
        ([IDS], [tensor("ids", [10, 1, 5], "int32")]),
        ([IDS], [tensor("ids", [10, 5], "int16")]),
        ([SCALAR], [tensor("scalar", [10])]),
        ([IMAGE, IDS], [tensor("ids", [2, 9], "int64"), tensor("image", [2, 3, 9])]),
        ([], []),
    ],
    ids=["along", "stacked", "float16", "int32", "int16", "scalar", "any order", "no inputs"],
)
def test_what_feeds_the_inputs_without_loss_fits(
    inputs: list[TensorView], arrays: list[TensorView]
) -> None:
    assert refused_with(check_against, inputs, arrays) is None


@pytest.mark.parametrize(
    ("arrays", "code", "said"),
    [
        ([tensor("imgae", [1, 3, 7])], "dataset_unknown_input", "'image'"),
        ([tensor("image", [1, 3, 7])], "dataset_missing_input", "ids"),
        ([tensor("image", [1, 3, 7], "uint8")], "dataset_dtype", "astype('float32')"),
        ([tensor("image", [1, 3, 7], "float64")], "dataset_dtype", "astype('float32')"),
        ([tensor("image", [1, 3])], "dataset_rank", "[batch, 3, ?]"),
        ([tensor("image", [1, 1, 1, 3, 7])], "dataset_rank", "[batch, 3, ?]"),
        ([tensor("image", [1, 4, 7])], "dataset_shape", "shape of the model's input"),
        ([tensor("image", [1, 1, 4, 7])], "dataset_shape", "shape of the model's input"),
    ],
)
def test_what_does_not_feed_them_is_refused_with_what_to_do(
    arrays: list[TensorView], code: str, said: str
) -> None:
    with pytest.raises(InvalidDataset) as caught:
        check_against([IMAGE, IDS], arrays)

    assert caught.value.code == code
    assert said in caught.value.fix + caught.value.message


def test_a_single_value_cannot_lie_along_a_dimension_that_is_not_there() -> None:
    with pytest.raises(InvalidDataset) as caught:
        check_against([SCALAR], [tensor("scalar", [])])

    assert caught.value.code == "dataset_rank"
