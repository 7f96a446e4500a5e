"""A tool with an environment of its own is announced where it loads, and else said absent."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from tasks.messages import BackendDescription, Device
from workers import probe
from workers.backends.onnxruntime import OnnxRuntime
from workers.probe import _try_tool
from workers.settings import NodeSettings, child_environment

SAYS = """#!{python}
import sys
assert sys.argv[-1] == "--describe", "the probe imports all of it"
{does}
"""
VERSIONS = '{"nvidia-modelopt": "0.47.0", "onnx": "1.21.0", "onnxruntime": "1.24.4"}'


def stand_in(folder: Path, does: str) -> Path:
    path = folder / "python"
    path.write_text(SAYS.format(python=sys.executable, does=does))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_what_loads_is_announced_by_name_and_full_version(tmp_path: Path) -> None:
    found = _try_tool("modelopt", stand_in(tmp_path, f"print('noise'); print('{VERSIONS}')"))
    assert isinstance(found, BackendDescription)
    assert (found.name, found.version) == ("modelopt", "0.47.0+onnx1.21.0.onnxruntime1.24.4")
    assert (found.builds, found.measures) == (["cpu"], [])


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("raise ImportError('No module named modelopt')", "No module named modelopt"),
        ("import os; os.kill(os.getpid(), 11)", "status -11"),
        ("print('{}')", "nvidia-modelopt"),
        ("print('no json')", "JSONDecodeError"),
    ],
)
def test_what_does_not_load_is_absent_with_what_it_says(
    tmp_path: Path, does: str, words: str
) -> None:
    said = _try_tool("modelopt", stand_in(tmp_path, does))
    assert isinstance(said, str)
    assert words in said


def test_a_python_that_is_not_there_is_absent(tmp_path: Path) -> None:
    said = _try_tool("modelopt", tmp_path / "nowhere")
    assert isinstance(said, str)
    assert "FileNotFoundError" in said


def test_a_relative_python_is_meant_from_here_and_its_link_is_kept(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    told = {"url": "x", "broker_url": "x", "enrolment_token": "x"}
    given = NodeSettings.model_validate(told | {"modelopt_python": tmp_path / "bin" / "python"})
    assert given.pythons == {"modelopt": tmp_path / "bin" / "python"}
    named = NodeSettings.model_validate(told | {"modelopt_python": Path("bin/python")})
    assert named.pythons["modelopt"] == Path.cwd() / "bin" / "python"
    assert NodeSettings.model_validate(told).pythons == {}


@pytest.mark.parametrize("uuids", [[], ["GPU-2"], ["GPU-2", "GPU-5"]])
def test_a_backend_is_tried_on_the_nodes_own_gpus_and_sees_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uuids: list[str]
) -> None:
    seen: list[str] = []

    def opened(_name: str) -> OnnxRuntime:
        seen.append(child_environment(tmp_path)["CUDA_VISIBLE_DEVICES"])
        return OnnxRuntime()

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    monkeypatch.setattr(probe, "open_backend", opened)
    here = [Device(arch="cpu", name="c"), *(Device(arch="sm_90", name="H", uuid=u) for u in uuids)]
    given = probe.DEVICES.dump_json(here).decode()
    assert probe.main(["--backend", "onnxruntime", "--devices", given]) == 0
    assert seen == [",".join(uuids)]
