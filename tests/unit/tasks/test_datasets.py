"""A dataset must feed exactly the inputs of a model, and lose nothing on the way."""

from __future__ import annotations

import pytest

from enginefarm.errors import InvalidDataset
from enginefarm.gate import EvaluationMetric, MetricName
from enginefarm.spec import ShapeRange
from enginefarm.views import TensorView
from tasks.datasets import check_against, check_within
from tests.refused import refused_with


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


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        ([5, 3, 7], None),
        ([5, 2, 3, 7], None),
        ([5, 3, 9], "dataset_outside_profile"),
        ([5, 9, 3, 7], "dataset_outside_profile"),
    ],
    ids=["along", "stacked", "too wide", "too many at once"],
)
def test_samples_of_a_size_that_the_profile_does_not_allow_are_refused(
    shape: list[int | str | None], code: str | None
) -> None:
    profile = {"image": ShapeRange(min=[1, 3, 4], opt=[1, 3, 6], max=[2, 3, 8])}
    assert refused_with(check_within, [IMAGE], [tensor("image", shape)], profile) == code


SIZES = [
    tensor("image/0", [5, 3, 7]),
    tensor("image/1", [2, 3, 8]),
    tensor("ids/0", [5, 5], "int64"),
    tensor("ids/1", [2, 9], "int64"),
]


def test_every_size_of_a_dataset_is_looked_at() -> None:
    assert refused_with(check_against, [IMAGE, IDS], SIZES) is None
    wrong = [*SIZES[:1], tensor("image/1", [2, 4, 8]), *SIZES[2:]]
    with pytest.raises(InvalidDataset, match="array 'image/1' is 4") as caught:
        check_against([IMAGE, IDS], wrong)
    assert caught.value.code == "dataset_shape"
    profile = {"image": ShapeRange(min=[1, 3, 4], opt=[1, 3, 6], max=[2, 3, 7])}
    with pytest.raises(InvalidDataset, match="array 'image/1' is 8"):
        check_within([IMAGE, IDS], SIZES, profile)


def test_a_size_that_lacks_an_input_is_told_how_sizes_are_numbered() -> None:
    with pytest.raises(InvalidDataset) as caught:
        check_against([IMAGE, IDS], SIZES[:3])
    assert caught.value.code == "dataset_unknown_input"
    assert "numbered from 0" in caught.value.why


def test_each_size_has_its_labels() -> None:
    metric = labelled(MetricName.ACCURACY)
    labels = [tensor("label/0", [5], "int64"), tensor("label/1", [2], "int64")]
    assert refused_with(check_against, [IMAGE, IDS], [*SIZES, *labels], metric) is None
    assert refused_with(check_against, [IMAGE, IDS], SIZES, metric) == "dataset_missing_labels"


def test_a_single_value_cannot_lie_along_a_dimension_that_is_not_there() -> None:
    with pytest.raises(InvalidDataset) as caught:
        check_against([SCALAR], [tensor("scalar", [])])

    assert caught.value.code == "dataset_rank"


def labelled(name: MetricName, labels: str = "label") -> EvaluationMetric:
    return EvaluationMetric(name=name, output="y", labels=labels)


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        (MetricName.ACCURACY, tensor("label", [10], "int64")),
        (MetricName.CTC_ERROR_RATE, tensor("label", [10, 4], "int32")),
    ],
)
def test_labels_may_lie_beside_the_inputs(name: MetricName, labels: TensorView) -> None:
    arrays = [tensor("image", [10, 3, 7]), labels]
    assert refused_with(check_against, [IMAGE], arrays, labelled(name)) is None
    # Without a metric that names them they are an array that nobody asked for.
    assert refused_with(check_against, [IMAGE], arrays) == "dataset_unknown_input"


ACCURACY, CTC = MetricName.ACCURACY, MetricName.CTC_ERROR_RATE


@pytest.mark.parametrize(
    ("labels", "metric", "code", "said"),
    [
        (tensor("lable", [10], "int64"), labelled(ACCURACY), "dataset_missing_labels", "'lable'"),
        (IMAGE, labelled(ACCURACY, "image"), "dataset_missing_labels", "beside the inputs"),
        (tensor("label", [10], "float32"), labelled(ACCURACY), "dataset_labels", "whole"),
        (tensor("label", [10, 1], "int64"), labelled(ACCURACY), "dataset_labels", "1 dimension:"),
        (tensor("label", [10], "int64"), labelled(CTC), "dataset_labels", "a row"),
    ],
)
def test_labels_that_cannot_be_are_refused(
    labels: TensorView, metric: EvaluationMetric, code: str, said: str
) -> None:
    with pytest.raises(InvalidDataset) as refused:
        check_against([IMAGE], [tensor("image", [10, 3, 7]), labels], metric)
    assert refused.value.code == code
    assert said in str(refused.value)
