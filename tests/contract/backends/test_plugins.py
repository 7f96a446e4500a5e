"""Libraries of custom operators, by a real one: tried in a child, then in each session of a job."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from enginefarm.digest import digest_of_file
from enginefarm.errors import JobFailed
from enginefarm.finding import Severity
from enginefarm.preflight.subject import Room
from enginefarm.state import Blame
from enginefarm.target import Target
from tasks.messages import BackendDescription
from tests.contract.backends import custom_operators as custom
from tests.contract.backends import made
from tests.contract.backends.trt_api.acting import Sink
from workers.backends import ort_session
from workers.backends.base import ModelSource, TakesPlugins
from workers.backends.onnxruntime import OnnxRuntime
from workers.checking.whole import check_model
from workers.plugins import trying
from workers.plugins.folder import Looked, look

CPU = Target.parse("onnxruntime@cpu")
HERE = [BackendDescription(name="onnxruntime", version="1", builds=["cpu"], measures=["cpu"])]
X = np.array([[2, 1], [1, 3]], np.float32)


@pytest.fixture
def with_library() -> Iterator[OnnxRuntime]:
    """Return the backend, with the library in every session."""
    backend = OnnxRuntime()
    assert backend.take_plugin(custom.library()) is None
    yield backend
    ort_session.forget_libraries()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return made.save(tmp_path / "model", custom.inverse())


def test_what_loads_is_announced_and_what_crashes_or_is_none_is_only_absent(tmp_path: Path) -> None:
    crashing = custom.compiled(tmp_path, "crashing", custom.CRASHES)
    empty = custom.compiled(tmp_path, "empty", custom.EMPTY)
    found = trying.tried(custom.laid(tmp_path, crashing, empty), HERE)
    (told,) = found.announced_by(HERE)[0].plugins
    assert (told.name, told.operators) == ("custom.so", None)
    assert told.digest == digest_of_file(custom.library())
    assert [row.digest for row in found.libraries] == [told.digest]
    assert found.absent.keys() == {"onnxruntime/crashing.so", "onnxruntime/empty.so"}
    assert "status -" in found.absent["onnxruntime/crashing.so"]
    assert "RegisterCustomOps" in found.absent["onnxruntime/empty.so"]


def loading(folder: Path, name: str, body: str) -> Path:
    """Return a library that is taken, and does something while it is loaded."""
    source = f"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void *RegisterCustomOps(void *options, void *api) {{ return 0; }}
__attribute__((constructor)) static void begin(void) {{ {body} }}
"""
    return custom.compiled(folder, name, source)


def test_what_a_library_does_while_it_loads_keeps_neither_it_nor_others_away(
    tmp_path: Path,
) -> None:
    bodies = {
        "no-utf8": r'write(1, "caf\xe9\n", 5); write(2, "caf\xe9\n", 5);',
        "no-newline": 'write(1, "loading...", 10);',
        "leaves-a-child": "if (fork() == 0) { for (;;) pause(); }",
    }
    libraries = [loading(tmp_path, name, body) for name, body in bodies.items()]
    found = trying.tried(custom.laid(tmp_path, *libraries), HERE)
    assert found.absent == {}
    assert [row.name for row in found.libraries] == [
        "custom.so",
        *sorted(f"{n}.so" for n in bodies),
    ]


def test_what_was_not_hashed_is_not_run_to_try_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, plugins = tmp_path / "ran", custom.laid(tmp_path)
    other = loading(tmp_path, "other", f'fclose(fopen("{mark}", "w"));')

    def looked(place: Path) -> Looked:
        found = look(place)
        shutil.copyfile(other, place / "onnxruntime" / "custom.so")
        return found

    monkeypatch.setattr(trying, "look", looked)
    found = trying.tried(plugins, HERE)
    assert found.absent == {"onnxruntime/custom.so": "it was changed while it was looked at"}
    assert not mark.exists()


def test_a_library_of_a_backend_that_does_not_load_here_is_absent(tmp_path: Path) -> None:
    found = trying.tried(custom.laid(tmp_path), [])
    assert found.absent == {"onnxruntime/custom.so": "onnxruntime does not load on this node"}
    assert not found.libraries


def test_an_engine_and_its_original_are_run_with_the_library_and_agree(
    with_library: OnnxRuntime, model: Path, tmp_path: Path
) -> None:
    source = ModelSource(model, CPU)
    assert with_library.check(source) == []
    engine = with_library.compile(source, tmp_path, Sink()).path
    runner = with_library.load(engine, CPU, threads=1)
    (found,) = runner.run({"x": X})
    (wanted,) = ort_session.open_reference(model).run({"x": X})
    assert found is not None
    assert wanted is not None
    weight = np.random.default_rng(0).standard_normal((2, 2)).astype(np.float32)
    assert np.allclose(wanted, np.maximum(np.linalg.inv(X) @ weight, 0), atol=1e-5)
    assert np.allclose(found, wanted, atol=1e-6)


def test_without_it_the_model_is_refused_and_its_engine_does_not_load(
    with_library: OnnxRuntime, model: Path, tmp_path: Path
) -> None:
    engine = with_library.compile(ModelSource(model, CPU), tmp_path, Sink()).path
    ort_session.forget_libraries()
    (found,) = with_library.check(ModelSource(model, CPU))
    assert (found.code, found.operator) == ("unsupported_operator", "Inverse")
    with pytest.raises(JobFailed) as refused:
        with_library.load(engine, CPU, threads=1)
    assert refused.value.code == "unsupported_operator"


def test_the_check_leaves_the_operator_to_the_plugins_and_tells_what_they_lack(
    with_library: OnnxRuntime, model: Path
) -> None:
    source = ModelSource(model, CPU)
    (note,) = check_model(source, with_library, Room(), Sink(), plugins=True)
    assert (note.code, note.severity) == ("operator_of_plugin", Severity.NOTE)
    lacking = custom.inverse()
    lacking.graph.node[0].op_type = "Magic"
    onnx.save(lacking, str(model))
    found = check_model(source, with_library, Room(), Sink(), plugins=True)
    error = next(row for row in found if row.severity is Severity.ERROR)
    assert (error.code, error.operator) == ("unsupported_operator", "Magic")
    assert custom.library().name in error.why
    with pytest.raises(JobFailed) as refused:
        with_library.compile(source, model.parent, Sink())
    assert custom.library().name in refused.value.why


def test_a_library_that_is_none_is_refused_in_the_runtimes_words(tmp_path: Path) -> None:
    backend = OnnxRuntime()
    (tmp_path / "none.so").write_bytes(b"no library")
    with pytest.raises(JobFailed) as refused:
        backend.take_plugin(tmp_path / "none.so")
    assert (refused.value.code, refused.value.blame) == ("plugin_refused", Blame.NODE)
    assert "none.so" in refused.value.message
    assert str(tmp_path) not in refused.value.why
    assert not ort_session.libraries()


def test_the_library_is_in_every_session_that_is_opened_again(
    with_library: OnnxRuntime, model: Path
) -> None:
    for _ in range(3):
        assert ort_session.open_reference(model).inputs[0].name == "x"
    assert ort_session.opened_as_written(model).get_inputs()[0].name == "x"
    assert isinstance(with_library, TakesPlugins)
