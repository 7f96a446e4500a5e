"""A Triton model repository is laid out from what was signed, for what Triton has a backend for."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.errors import InvalidRequest
from enginefarm.install.triton import config_text, model_folder, require_triton
from enginefarm.manifest import EngineConfig
from tests.unit.client.support.release import Release, SigningKey, engine_config
from tests.unit.client.support.server import LoopbackFarm
from tests.unit.client.support.views import ARTIFACT, artifact

CONFIG = engine_config("model.onnx")
EXPECTED = f"""\
# Written by enginefarm from {ARTIFACT}; without this line it is yours and is kept.
platform: "onnxruntime_onnx"
default_model_filename: "model.onnx"
max_batch_size: 0
input [ {{ name: "x" data_type: TYPE_FP32 dims: [-1, 3] }} ]
output [ {{ name: "y" data_type: TYPE_FP32 dims: [-1, 2] }} ]
instance_group [ {{ kind: KIND_CPU }} ]
"""


def changed(**fields: object) -> EngineConfig:
    return CONFIG.model_copy(update=fields)


def test_the_config_says_platform_file_tensors_and_where_it_runs() -> None:
    assert config_text(CONFIG, ARTIFACT) == EXPECTED


def test_a_tensorrt_plan_runs_on_a_gpu() -> None:
    text = config_text(changed(backend="tensorrt", arch="sm_89", engine_file="m.plan"), ARTIFACT)

    assert 'platform: "tensorrt_plan"' in text
    assert 'default_model_filename: "m.plan"' in text
    assert "KIND_GPU" in text


@pytest.mark.parametrize(
    ("dtype", "shape", "told"),
    [
        ("int64", [1, None], "data_type: TYPE_INT64 dims: [1, -1]"),
        ("bool", [2], "data_type: TYPE_BOOL dims: [2]"),
        ("bfloat16", ["n"], "data_type: TYPE_BF16 dims: [-1]"),
        ("uint8", [], "data_type: TYPE_UINT8 dims: [1] reshape: { shape: [] }"),
        ("string", [1], "data_type: TYPE_STRING dims: [1]"),
    ],
)
def test_types_and_shapes_are_those_of_triton(dtype: str, shape: list[object], told: str) -> None:
    row = {"name": 'a"b\\c', "dtype": dtype, "shape": shape}

    text = config_text(changed(inputs=[row]), ARTIFACT)

    assert f'input [ {{ name: "a\\"b\\\\c" {told} }} ]' in text


@pytest.mark.parametrize("backend", ["tensorrt-rtx", "tensorrt-llm"])
def test_what_triton_has_no_backend_for_is_refused_by_name(backend: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        require_triton(changed(backend=backend))

    assert caught.value.code == "layout_refused"
    assert backend in caught.value.message
    require_triton(CONFIG)


def test_a_type_that_no_request_can_carry_is_refused() -> None:
    row = {"name": "x", "dtype": "float8e4m3fn", "shape": [1]}

    with pytest.raises(InvalidRequest, match="float8e4m3fn"):
        require_triton(changed(outputs=[row]))


def test_a_model_s_folder_never_leaves_the_repository(tmp_path: Path) -> None:
    for name in ("../../etc", "..", ".", "a/b", "", "/abs", ".hidden"):
        folder = model_folder(tmp_path, name)
        assert folder.parent == tmp_path
        assert folder.name not in {"", ".", ".."}
    assert model_folder(tmp_path, "det v1.2").name == "det_v1_2"
    assert model_folder(tmp_path, "/data/nets/yolo.onnx") == tmp_path / "yolo"
    assert model_folder(tmp_path, "nets\\yolo.onnx") == tmp_path / "yolo"


@pytest.fixture
def served(loopback: LoopbackFarm, release: Release) -> Release:
    return _serve(loopback, release)


def _serve(farm: LoopbackFarm, release: Release, name: str = "small") -> Release:
    digest = farm.serve(release)
    told = artifact().model_copy(update={"digest": digest, "model_name": name})
    body = told.model_dump_json().encode()
    farm.routes[f"/v1/artifacts/{digest}/summary"] = lambda handler: handler.reply(200, body)
    return release


def test_pull_makes_a_model_of_a_repository_that_can_be_verified(
    farm_env: LoopbackFarm, served: Release, trust_file: Path
) -> None:
    trust = ["--trust", str(trust_file)]
    line = ["pull", served.digest, "repository", "--layout", "triton", *trust]

    assert invoke(line) == ExitCode.OK
    model = Path("repository/small")
    assert {path.name for path in model.iterdir()} == {"1", "config.pbtxt"}
    assert (model / "1" / "model.onnx").read_bytes() == served.files["model.onnx"]
    assert served.digest in (model / "config.pbtxt").read_text()
    assert invoke(["verify", str(model / "1"), *trust]) == ExitCode.OK
    assert invoke(line) == ExitCode.OK, "again, over what is there"


def test_a_config_of_one_s_own_is_kept(
    farm_env: LoopbackFarm,
    served: Release,
    trust_file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = Path("repository/small/config.pbtxt")
    own.parent.mkdir(parents=True)
    own.write_text("dynamic_batching { }\n")
    line = ["pull", served.digest, "repository", "--layout", "triton", "--trust", str(trust_file)]

    assert invoke(line) == ExitCode.OK
    assert own.read_text() == "dynamic_batching { }\n"
    assert "is yours and was kept" in capsys.readouterr().err


def test_what_triton_cannot_run_is_refused_before_it_is_fetched(
    farm_env: LoopbackFarm,
    key: SigningKey,
    trust_file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = changed(backend="tensorrt-rtx", target="tensorrt-rtx@sm_89", engine_file="e.engine")
    release = _serve(farm_env, Release.of(key, {"e.engine": b"engine" * 50}, config=config))
    line = ["pull", release.digest, "repository", "--layout", "triton", "--trust", str(trust_file)]

    assert invoke(line) == ExitCode.BAD_INPUT
    assert "Triton has no backend for tensorrt-rtx. [layout_refused]" in capsys.readouterr().err
    assert len(farm_env.downloads) == 1, "the config, and no more"
    assert not Path("repository").exists()


def test_the_name_must_be_the_one_that_was_signed(
    farm_env: LoopbackFarm, release: Release, trust_file: Path
) -> None:
    _serve(farm_env, release, "another")
    line = ["pull", release.digest, "repository", "--layout", "triton", "--trust", str(trust_file)]

    assert invoke(line) == ExitCode.VERIFICATION_REFUSED
    assert not Path("repository").exists()
