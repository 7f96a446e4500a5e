"""A file is read by a process that holds nothing, can do nothing else, and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from enginefarm.errors import FarmError, InvalidDataset, InvalidModel, TooLarge, Unavailable
from intake import reader
from intake.findings import ANSWER, READY, Answer, Question
from intake.reader import Limits, Reader
from tests.unit.enginefarm.onnx_made import external_weight, model, real_model

ROOT = Path(__file__).resolve().parents[3]
PROBER = Path(__file__).with_name("prober.py")
SMALL = Limits(memory_bytes=64 << 20, cpu_s=30, wall_s=60)


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the prober stand in for readers; return the file in which its wish is written."""
    monkeypatch.setattr(reader, "_CHILD", PROBER)
    return tmp_path / "wish"


def refusal(path: Path, limits: Limits = SMALL) -> FarmError:
    with pytest.raises(FarmError) as caught:
        Reader(limits).model(path)
    return caught.value


def written(folder: Path, data: bytes, name: str = "m.onnx") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_a_model_is_told_as_the_scan_tells_it(tmp_path: Path) -> None:
    data = model(
        weights=[external_weight(location="w.bin", offset="4", length="16")],
        opsets={"": 17, "com.microsoft": 1},
    )

    found = Reader(SMALL).model(written(tmp_path, data))

    assert [(row.name, row.shape) for row in found.inputs] == [("x", [1, 4])]
    assert [row.name for row in found.outputs] == ["y"]
    assert found.opsets == {"ai.onnx": 17, "com.microsoft": 1}
    assert found.node_count == 1
    assert [(ref.location, ref.offset, ref.length) for ref in found.external] == [("w.bin", 4, 16)]


def test_a_real_model_is_read(tmp_path: Path) -> None:
    found = Reader(SMALL).model(real_model("silero-if"))

    assert found.node_count > 0
    assert found.inputs


def test_a_dataset_is_told_as_the_scan_tells_it(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    np.savez_compressed(path, x=np.zeros((3, 4), np.float32))

    found = Reader(SMALL).dataset(path, max_bytes=1 << 20, max_expanded_bytes=1 << 20)

    assert found.samples == 3
    assert [(row.name, row.dtype, row.shape) for row in found.arrays] == [("x", "float32", [3, 4])]


def test_a_refusal_comes_back_as_the_error_that_it_was(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, x=np.full((2, 2), np.nan))

    truncated = refusal(written(tmp_path, model()[:-7]))
    with pytest.raises(InvalidDataset) as bad:
        Reader(SMALL).dataset(path, max_bytes=1 << 20, max_expanded_bytes=1 << 20)
    with pytest.raises(TooLarge) as large:
        Reader(SMALL).dataset(path, max_bytes=9, max_expanded_bytes=1 << 20)

    assert (type(truncated), truncated.code) == (InvalidModel, "model_truncated")
    assert truncated.context["missing"]
    assert (bad.value.code, bad.value.context["index"]) == ("dataset_non_finite", [0, 0])
    assert large.value.context == {"limit_bytes": 9}


def test_a_reader_holds_the_file_and_nothing_else(
    probe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the environment, where credentials are, nor a connection that is open here."""
    monkeypatch.setenv("ENGINEFARM_S3_SECRET_KEY", "hunter2")
    probe.write_text("tell")
    inherited, other = os.pipe()
    os.set_inheritable(inherited, True)
    question = Question(
        what="model",
        parent=os.getpid(),
        memory_bytes=1 << 26,
        cpu_s=9,
        max_bytes=0,
        max_expanded_bytes=0,
    )

    with probe.open("rb") as file:
        ended = reader.run(question, file, SMALL)
    os.close(inherited)
    os.close(other)
    told = json.loads(ended.said.removeprefix(READY))

    assert told["environment"] == ["OPENBLAS_NUM_THREADS=1"]
    assert len(told["descriptors"]) == 3
    assert str(probe) in told["descriptors"]
    assert told["descriptors"].count(str(probe)) == 1
    assert told["group"] is True
    assert told["cwd"] == "/"
    # Neither the working folder nor the script's own is where modules are looked for.
    assert {"", str(PROBER.parent)}.isdisjoint(told["path"])
    assert told["refused"] == dict.fromkeys(told["refused"], True)


@pytest.mark.parametrize(
    ("wish", "limits", "code", "why"),
    [
        ("babble", Limits(answer_bytes=1 << 20), "model_too_complex", "1048576 bytes of names"),
        ("sleep", Limits(wall_s=1.5), "model_too_complex", "1.5 seconds"),
        ("spin", Limits(cpu_s=1), "model_too_complex", "1 seconds of computing"),
        ("segfault", SMALL, "reader_crashed", "-11"),
        ("starve", SMALL, "model_too_complex", "67108864 bytes of memory"),
        ("abort", SMALL, "model_too_complex", "67108864 bytes of memory"),
        ("lie", SMALL, "reader_crashed", "cannot be read"),
        ("say nothing", SMALL, "reader_crashed", "cannot be read"),
    ],
)
def test_a_reader_that_fails_is_a_refusal_that_says_how(
    probe: Path, wish: str, limits: Limits, code: str, why: str
) -> None:
    probe.write_text(wish)

    error = refusal(probe, limits)

    assert (type(error), error.code) == (InvalidModel, code)
    assert why in error.why
    assert error.fix


def test_a_reader_that_does_not_start_is_the_farms_fault(probe: Path) -> None:
    probe.write_text("not ready")

    error = refusal(probe)

    assert (type(error), error.code) == (Unavailable, "reader_unavailable")


def test_memory_is_bounded_above_what_a_model_maps(tmp_path: Path) -> None:
    """A model of many names takes memory; one of many weights is mapped, and takes none."""
    names = [f"{'n' * 200}{number}" for number in range(20_000)]
    crowded = model(weights=[external_weight(name, location="w.bin") for name in names])
    heavy = model(weights=[external_weight("w", location="w.bin")]) + field(500, b"\0" * (48 << 20))

    error = refusal(written(tmp_path, crowded), Limits(memory_bytes=4 << 20))
    found = Reader(Limits(memory_bytes=4 << 20)).model(written(tmp_path, heavy))

    assert (error.code, error.why) == (
        "model_too_complex",
        "Reading it took more than 4194304 bytes of memory.",
    )
    assert found.node_count == 1


def answer_in(said: bytes) -> Answer:
    return Answer.model_validate_json(said.rpartition(ANSWER)[2].strip())


def field(number: int, data: bytes) -> bytes:
    """Return a field that a reader skips."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def test_sixteen_megabytes_of_empty_nodes_cost_little(tmp_path: Path) -> None:
    """Protobuf's own reader makes 1.2 GB of objects of them."""
    nodes = field(1, b"") * (8 << 20)
    path = written(tmp_path, b"\x08\x09" + field(7, nodes) + field(8, b"\x10\x11"))
    question = Question(
        what="model",
        parent=os.getpid(),
        memory_bytes=64 << 20,
        cpu_s=60,
        max_bytes=0,
        max_expanded_bytes=0,
    )

    with path.open("rb") as file:
        ended = reader.run(question, file, SMALL)

    assert path.stat().st_size > 16 << 20
    assert b"invalid_graph" in ended.said
    assert answer_in(ended.said).peak_bytes < 96 << 20


def test_a_reader_whose_parent_is_gone_already_reads_nothing(tmp_path: Path) -> None:
    """The signal of its parent's death would never come."""
    question = Question(
        what="model",
        parent=1 << 22,
        memory_bytes=64 << 20,
        cpu_s=60,
        max_bytes=0,
        max_expanded_bytes=0,
    )
    with written(tmp_path, model()).open("rb") as file:
        ended = reader.run(question, file, SMALL)

    assert ended.said == b"the parent of this process is gone\n"


PARENT = """
import sys
from pathlib import Path
from intake import reader
reader._CHILD = Path(sys.argv[1])
real = reader.subprocess.Popen
def noted(*arguments, **options):
    child = real(*arguments, **options)
    print(child.pid, flush=True)
    return child
reader.subprocess.Popen = noted
reader.Reader().model(Path(sys.argv[2]))
"""


def test_a_reader_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    wish = written(tmp_path, b"sleep", "wish")
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(PROBER), str(wish)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        until(lambda: b"prober.py" in command_line(child))
        until(lambda: os.getpgid(child) == child)
        parent.send_signal(signal.SIGKILL)

    until(lambda: not command_line(child))


def command_line(pid: int) -> bytes:
    """Return a process's command line; nothing if it is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""


def until(holds: object) -> None:
    deadline = time.monotonic() + 30
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)
