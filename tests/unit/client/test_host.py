"""An engine for another GPU is refused before it is fetched; what cannot be seen is said."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.errors import FarmError
from enginefarm.install.host import Fit, Gpu, Host, fit_of, look_at_host, require_fit
from enginefarm.manifest import EngineConfig
from tests.unit.client.support.gpus import nvml, with_gpus
from tests.unit.client.support.release import Release, SigningKey, engine_config
from tests.unit.client.support.server import LoopbackFarm

L4 = Gpu("NVIDIA L4", "sm_89")
H200 = Gpu("NVIDIA H200", "sm_90")
CPU_ENGINE = engine_config("model.onnx")
ADA_ENGINE = CPU_ENGINE.model_copy(update={"target": "tensorrt-rtx@sm_89", "arch": "sm_89"})


def driver(folder: Path) -> Path:
    """Return a driver's folder in /proc as it is with one GPU."""
    (folder / "gpus" / "0000:01:00.0").mkdir(parents=True)
    return folder


def test_the_library_is_asked_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_gpus(monkeypatch, ("NVIDIA L4", 8, 9), (b"NVIDIA H200", 9, 0))

    assert look_at_host(tmp_path) == Host((L4, H200), driver="580.159.04")


def test_where_nothing_can_be_seen_it_is_said_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert look_at_host(tmp_path / "none").unseen == "no NVIDIA GPU can be seen here"
    assert "nvidia-ml-py" in look_at_host(driver(tmp_path)).unseen
    monkeypatch.setitem(sys.modules, "pynvml", nvml(broken=True))
    assert "version mismatch" in look_at_host(tmp_path).unseen
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    assert look_at_host(tmp_path).unseen == "no NVIDIA GPU can be seen here"


@pytest.mark.parametrize(
    ("host", "fit"),
    [
        (Host((H200, L4)), Fit(True, "fits: NVIDIA L4, sm_89")),
        (
            Host((H200,)),
            Fit(False, "does not fit: the engine is for sm_89; here is NVIDIA H200, sm_90"),
        ),
        (Host(unseen="no GPU"), Fit(None, "not checked: no GPU")),
    ],
)
def test_one_gpu_of_the_architecture_is_enough(host: Host, fit: Fit) -> None:
    assert fit_of(ADA_ENGINE, host) == fit


RTX_4090 = Gpu("NVIDIA GeForce RTX 4090", "sm_89")
A10, T4 = Gpu("NVIDIA A10", "sm_86"), Gpu("Tesla T4", "sm_75")


@pytest.mark.parametrize(
    ("target", "option", "fits", "misfits"),
    [
        ("tensorrt@sm_89", None, [L4, RTX_4090], [H200, A10]),
        ("tensorrt@sm_89:l4", None, [L4], [RTX_4090, H200]),
        ("tensorrt@sm_89+same_compute_capability", None, [L4, RTX_4090], [H200]),
        ("tensorrt@sm_89:l4+same_compute_capability", None, [L4, RTX_4090], [H200]),
        ("tensorrt@sm_89:l4", "same_compute_capability", [L4, RTX_4090], [H200]),
        ("tensorrt@sm_86", "ampere_plus", [A10, L4, H200], [T4]),
        ("tensorrt-rtx@sm_86+sm_89", None, [A10, L4, RTX_4090], [H200, T4]),
        # What a newer farm may say: nothing is claimed of it that is not certain.
        ("tensorrt@sm_89:l4+everywhere", None, [L4], [RTX_4090]),
        ("tensorrt/sm_89", None, [L4, RTX_4090], [H200]),
    ],
)
def test_an_engine_fits_the_gpus_that_its_target_names(
    target: str, option: str | None, fits: list[Gpu], misfits: list[Gpu]
) -> None:
    named = re.search(r"sm_\d+", target)
    assert named is not None
    told = {"target": target, "arch": named[0], "portability": option}
    config = EngineConfig.model_validate(CPU_ENGINE.model_dump() | told)

    assert [gpu for gpu in fits + misfits if fit_of(config, Host((gpu,))).fits] == fits
    for gpu in misfits:
        with pytest.raises(FarmError) as caught:
            require_fit(config, Host((gpu,)))
        assert caught.value.code == "gpu_differs"


def test_another_sku_of_the_architecture_is_named_as_what_it_is() -> None:
    config = ADA_ENGINE.model_copy(update={"target": "tensorrt@sm_89:l4"})
    with pytest.raises(FarmError) as caught:
        require_fit(config, Host((RTX_4090,)))

    assert caught.value.message == "The engine is for sm_89:l4, and no GPU of this machine is."
    assert caught.value.context == {"wanted": "sm_89:l4", "here": ["sm_89:geforce-rtx-4090"]}


def test_an_engine_that_needs_no_gpu_runs_beside_any() -> None:
    assert fit_of(CPU_ENGINE, Host((H200,))).fits is None
    require_fit(CPU_ENGINE, Host((H200,)))


def test_a_misfit_is_refused_with_what_is_wanted_and_what_is_here() -> None:
    with pytest.raises(FarmError) as caught:
        require_fit(ADA_ENGINE, Host((H200,)))

    assert caught.value.code == "gpu_differs"
    assert caught.value.context == {"wanted": "sm_89", "here": ["sm_90"]}
    require_fit(ADA_ENGINE, Host(unseen="no GPU"))


@pytest.fixture
def ada(loopback: LoopbackFarm, key: SigningKey) -> Release:
    release = Release.of(
        key, {"model.plan": b"plan " * 50, "report.json": b"{}"}, config=ADA_ENGINE
    )
    loopback.serve(release)
    return release


def test_pull_refuses_a_misfit_before_it_fetches_the_engine(
    farm_env: LoopbackFarm,
    ada: Release,
    trust_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with_gpus(monkeypatch, ("NVIDIA H200", 9, 0))
    line = ["pull", ada.digest, "engine", "--trust", str(trust_file)]

    assert invoke(line) == ExitCode.THIS_MACHINE
    assert "[gpu_differs]" in capsys.readouterr().err
    assert not Path("engine").exists()
    assert len(farm_env.downloads) == 1, "the config, and no more"

    assert invoke([*line, "--other-gpu", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["gpu"]["fits"] is False


def test_pull_says_whether_it_was_checked(
    farm_env: LoopbackFarm,
    ada: Release,
    trust_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with_gpus(monkeypatch, ("NVIDIA L4", 8, 9))
    line = ["pull", ada.digest, "--trust", str(trust_file)]

    assert invoke([*line[:2], "one", *line[2:]]) == ExitCode.OK
    assert "GPU       fits: NVIDIA L4, sm_89" in capsys.readouterr().out
    with_gpus(monkeypatch)
    assert invoke([*line[:2], "two", *line[2:]]) == ExitCode.OK
    assert "GPU       not checked: no NVIDIA GPU can be seen here" in capsys.readouterr().out
