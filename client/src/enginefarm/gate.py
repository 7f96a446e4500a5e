"""Gates, and the metrics that they and reports speak of."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from enginefarm.digest import Digest
from enginefarm.numbers import Real, Whole
from enginefarm.strict import Name, Strict
from enginefarm.target import Target


class Metric(StrEnum):
    """What a gate may look at; units are in the names.

    ``cosine`` is of all samples together, as ``snr_db`` is; ``cosine_worst`` of the worst sample.
    ``model.…`` is of the model file in its precision, which any node can measure, and not of the
    engine. ``metric_value`` is the build's ``evaluation_metric`` of the engine, ``metric_loss`` how
    much worse that is than the original's.
    """

    COSINE = "cosine"
    COSINE_WORST = "cosine_worst"
    SNR_DB = "snr_db"
    PSNR_DB = "psnr_db"
    MAX_ABS_ERROR = "max_abs_error"
    MEAN_ABS_ERROR = "mean_abs_error"
    TOP1_AGREEMENT = "top1_agreement"
    TOP5_AGREEMENT = "top5_agreement"
    METRIC_VALUE = "metric_value"
    METRIC_LOSS = "metric_loss"
    LATENCY_P50_MS = "latency_p50_ms"
    LATENCY_P99_MS = "latency_p99_ms"
    ENGINE_BYTES = "engine_bytes"
    MODEL_COSINE = "model.cosine"
    MODEL_COSINE_WORST = "model.cosine_worst"
    MODEL_SNR_DB = "model.snr_db"
    MODEL_PSNR_DB = "model.psnr_db"
    MODEL_MAX_ABS_ERROR = "model.max_abs_error"
    MODEL_MEAN_ABS_ERROR = "model.mean_abs_error"
    MODEL_TOP1_AGREEMENT = "model.top1_agreement"
    MODEL_TOP5_AGREEMENT = "model.top5_agreement"

    @property
    def of_model_file(self) -> bool:
        """Whether it is of the model file, and not of the engine."""
        return self.value.startswith(OF_MODEL)

    @property
    def plain(self) -> Metric:
        """The metric without saying of what it is."""
        return Metric(self.value.removeprefix(OF_MODEL))

    @property
    def more_is_better(self) -> bool | None:
        """Whether a larger value is the better one; None where that depends on the build."""
        if self is Metric.METRIC_VALUE:
            return None
        return self.plain in _MORE_IS_BETTER


OF_MODEL = "model."


_MORE_IS_BETTER = frozenset(
    {
        Metric.COSINE,
        Metric.COSINE_WORST,
        Metric.SNR_DB,
        Metric.PSNR_DB,
        Metric.TOP1_AGREEMENT,
        Metric.TOP5_AGREEMENT,
    }
)


class MetricName(StrEnum):
    """A measure of how right the answers are, by labels.

    What each of them means is told in docs/use/reports.md and computed by
    ``workers.measurement.labelled``. All lie within 0..1, but an error rate may be above 1.
    """

    ACCURACY = "accuracy"
    F1_MACRO = "f1_macro"
    EMBEDDING_RECALL_AT_1 = "embedding_recall_at_1"
    EMBEDDING_RECALL_AT_5 = "embedding_recall_at_5"
    EMBEDDING_RECALL_AT_10 = "embedding_recall_at_10"
    TOKEN_ERROR_RATE = "token_error_rate"  # noqa: S105 - a piece of text, not a secret
    CTC_ERROR_RATE = "ctc_error_rate"

    @property
    def more_is_better(self) -> bool:
        """Whether a larger value is the better one."""
        return self not in {MetricName.TOKEN_ERROR_RATE, MetricName.CTC_ERROR_RATE}

    @property
    def label_rank(self) -> int:
        """How many dimensions its labels have: one number, or one row of numbers, for a sample."""
        return 1 if self.more_is_better else 2


RECALL_AT = {
    MetricName.EMBEDDING_RECALL_AT_1: 1,
    MetricName.EMBEDDING_RECALL_AT_5: 5,
    MetricName.EMBEDDING_RECALL_AT_10: 10,
}
"""Among how many nearest samples one of the same label is looked for."""


class EvaluationMetric(Strict):
    """How right the engine's and the original's answers are, by labels in the dataset."""

    name: MetricName
    output: Name = Field(description="The output that is judged.")
    labels: Name = Field(description="The dataset's array of labels: whole numbers.")
    padding: Whole = Field(
        default=-1, description="The label that stands where a row of labels has ended."
    )
    blank: Annotated[Whole, Field(ge=0)] = Field(
        default=0, description="The class that means no token; only for ctc_error_rate."
    )


class Unmeasured(StrEnum):
    """What a gate does when nothing here can measure its metric."""

    FAIL = "fail"
    WAIT = "wait"


class Tainted(StrEnum):
    """What a gate on latency does with a number that cannot be relied on.

    ``fail``: nothing is let through on it. ``allow``: it counts like any other.
    """

    FAIL = "fail"
    ALLOW = "allow"


class Gate(Strict):
    """A bound on a metric. An artifact that misses it is quarantined, not published.

    Either ``at_least`` or ``at_most`` or both bound the value itself, or ``against`` names a
    published artifact and ``worse_by`` or ``worse_by_percent`` how much worse this one may be.
    """

    metric: Metric
    at_least: Real | None = None
    at_most: Real | None = None
    against: Digest | None = Field(default=None, description="A published artifact.")
    worse_by: Annotated[Real, Field(ge=0)] | None = Field(
        default=None, description="In the metric's own unit."
    )
    worse_by_percent: Annotated[Real, Field(ge=0)] | None = Field(
        default=None, description="Of what the named artifact has."
    )
    output: Name | None = Field(default=None, description="One output only; absent: the worst.")
    target: Target | None = Field(default=None, description="One target only; absent: all.")
    if_unmeasured: Unmeasured = Unmeasured.FAIL
    if_tainted: Tainted = Field(
        default=Tainted.FAIL,
        description="What becomes of a latency that the machine's record speaks against.",
    )

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        bounded = self.at_least is not None or self.at_most is not None
        allowed = (self.worse_by is not None) + (self.worse_by_percent is not None)
        if self.against is None and allowed == 0 and bounded:
            return self
        if self.against is not None and allowed == 1 and not bounded:
            return self
        message = (
            "a gate needs at_least or at_most, or against with either worse_by or worse_by_percent"
        )
        raise ValueError(message)
