"""``python -I intake/child.py QUESTION``: read the file on standard input, answer, and end.

Started with an empty environment and no descriptor but its standard ones. Before it looks at the
file it gives up what it could do: no more memory or time than it was granted, no file or socket to
open, no process to start, no byte to write but to its pipe. Whatever a file makes of it then has
nothing in its hands.
"""

from __future__ import annotations

import mmap
import os
import re
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from intake.findings import Answer, Question

_STATUS_BYTES = 4096
_PEAK = re.compile(rb"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
_SPARE_CPU_S = 2
_TO_ANSWER = 128 << 20
_SHOWN = 200
# Named by members of archives and by texts of models; loaded now, as no file can be opened later.
_CODECS = ("ascii", "cp437", "latin-1", "utf-8", "unicode_escape", "idna")


def main(arguments: list[str]) -> int:
    """Answer the question in ``arguments`` about the file on standard input."""
    from enginefarm.confinement import die_with
    from intake.findings import ANSWER, READY, Question

    question = Question.model_validate_json(arguments[0])
    die_with(question.parent)
    _load(question)
    status = os.open("/proc/self/status", os.O_RDONLY)
    stream, mapped = os.fdopen(0, "rb", closefd=False), _mapped(question)
    confine(question)
    _say(READY)
    found = answer(question, stream, mapped)
    _relax()
    told = found.model_copy(update={"peak_bytes": _peak(status)})
    _say(ANSWER + told.model_dump_json(exclude_defaults=True).encode() + b"\n")
    return 0


def _load(question: Question) -> None:
    """Import whatever reading may need."""
    for codec in _CODECS:
        "".encode(codec)
    if question.what == "model":
        import enginefarm.model_file  # noqa: F401
    else:
        import intake.datasets  # noqa: F401


def _mapped(question: Question) -> mmap.mmap | None:
    """Map a model into memory: that takes a descriptor, and later there is none to be had."""
    if question.what != "model" or not os.fstat(0).st_size:
        return None
    return mmap.mmap(0, 0, access=mmap.ACCESS_READ)


def confine(question: Question) -> None:
    """Give up everything but what the question grants, for good.

    What is open stays open. Of descriptors the limit is none at all: one that leaves room for those
    that are open would leave it for others, once these are closed.
    """
    here = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * mmap.PAGESIZE
    cpu = int(time.process_time()) + question.cpu_s
    memory = here + question.memory_bytes
    for what, soft, hard in (
        (resource.RLIMIT_AS, memory, memory + _TO_ANSWER),
        # The kernel asks a process to end at the first and ends it at the second.
        (resource.RLIMIT_CPU, cpu, cpu + _SPARE_CPU_S),
        (resource.RLIMIT_CORE, 0, None),
        (resource.RLIMIT_FSIZE, 0, None),
        (resource.RLIMIT_NOFILE, 0, None),
        (resource.RLIMIT_NPROC, 0, None),
    ):
        resource.setrlimit(what, (soft, soft if hard is None else hard))


def _relax() -> None:
    """Take what was held back, so that an answer can be written whatever reading has used."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def answer(question: Question, stream: BinaryIO, mapped: mmap.mmap | None) -> Answer:
    """Read the file; whatever goes wrong is an answer, too."""
    from enginefarm.errors import InvalidDataset, InvalidModel, TooLarge
    from intake.findings import Answer, Refused

    try:
        return _model(stream, mapped) if question.what == "model" else _dataset(question, stream)
    except (InvalidModel, InvalidDataset, TooLarge) as error:
        refused = {"family": type(error).__name__, "failure": error.as_failure()}
        return Answer(refused=Refused.model_validate(refused))
    except MemoryError:
        return Answer(out_of_memory=True)
    except Exception as error:  # noqa: BLE001 - the last line of defence: said as what it is
        return Answer(crashed=f"{type(error).__name__}: {error}"[:_SHOWN])


def _model(stream: BinaryIO, mapped: mmap.mmap | None) -> Answer:
    from enginefarm.model_file import scan_mapped, scan_open_model
    from intake.findings import Answer, ModelFound

    scan = scan_open_model(stream) if mapped is None else scan_mapped(mapped)
    return Answer(
        model=ModelFound(
            inputs=scan.inputs,
            outputs=scan.outputs,
            opsets=scan.opsets,
            node_count=scan.node_count,
            external=scan.external,
        )
    )


def _dataset(question: Question, stream: BinaryIO) -> Answer:
    from intake.datasets import scan_npz
    from intake.findings import Answer

    limits = {"max_bytes": question.max_bytes, "max_expanded_bytes": question.max_expanded_bytes}
    return Answer(dataset=scan_npz(stream, **limits))


def _peak(status: int) -> int:
    match = _PEAK.search(os.pread(status, _STATUS_BYTES, 0))
    return int(match[1]) << 10 if match else 0


def _say(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    # Isolated, Python looks for modules neither in the working folder nor beside this file.
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    try:
        code = main(sys.argv[1:])
    finally:
        sys.stderr.flush()
    os._exit(code)
