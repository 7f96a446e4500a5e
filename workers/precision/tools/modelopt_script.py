"""Run NVIDIA ModelOpt on one model, in ModelOpt's own environment: a request in, an answer out.

This file is all that runs there; nothing of the farm can be imported. Both are JSON, models are
ONNX files, samples ``.npz`` files without Python objects. What it prints is the job's log.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

PARTS = ("nvidia-modelopt", "onnx", "onnxruntime", "onnx-graphsurgeon", "numpy")
PARTS_USED = ("quantization.quantize", "autocast")
METHODS = {
    "minmax": "max",
    "entropy": "entropy",
    "rtn": "rtn_dq",
    "awq-lite": "awq_lite",
    "awq-clip": "awq_clip",
}
UNUSED = ("torch", "cppimport")
"""Imported by ModelOpt's ONNX part for what is never asked of it here: to bake weights into fp8,
and to compile an extension into the environment while a job runs."""


class _Absent(ModuleType):
    """Stands for a module that must not be used; the first use of it ends the run."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        message = f"{self.__name__}.{name} is not used here"
        raise RuntimeError(message)


def modules() -> tuple[Any, Any]:
    """Import ModelOpt's quantizer and AutoCast."""
    import_module("onnxruntime.quantization")  # it looks for the true ones
    for name in UNUSED:
        sys.modules[name] = _Absent(name)
    found = [import_module(f"modelopt.onnx.{part}") for part in PARTS_USED]
    del sys.modules["torch"]  # others look whether it is there
    return found[0], found[1]


def versions() -> dict[str, str]:
    """Return the versions of all that has a say."""
    return {name: version(name) for name in PARTS}


class Reader:
    """The samples in order, one at a time; the count is kept for who watches."""

    def __init__(self, folder: Path, taken: Path) -> None:
        """``taken`` is the file in which the count stands."""
        self._paths = sorted(folder.glob("*.npz"))
        self._taken = taken
        self._next = 0

    def get_next(self) -> dict[str, Any] | None:
        """Return the next sample; None at the end."""
        if self._next >= len(self._paths):
            return None
        self._next += 1
        self._taken.write_text(str(self._next))
        return self._read(self._paths[self._next - 1])

    def get_first(self) -> dict[str, Any]:
        """Return the first sample, without moving on."""
        return self._read(self._paths[0])

    def rewind(self) -> None:
        """Begin again."""
        self._next = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield those that are left."""
        return iter(self.get_next, None)

    def __next__(self) -> dict[str, Any]:
        """Return the next sample."""
        found = self.get_next()
        if found is None:
            raise StopIteration
        return found

    @staticmethod
    def _read(path: Path) -> dict[str, Any]:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}


def _exactly(names: list[str]) -> list[str]:
    """Return patterns of which each fits one name: ModelOpt reads names as regular expressions."""
    return [re.escape(name) + r"\Z" for name in names]


def quantize(asked: dict[str, Any], quantizer: Any) -> None:  # noqa: ANN401 - ModelOpt has no types
    """Write the model with Q/DQ nodes; what is not quantized stays in fp32."""
    folder = Path(asked["folder"])
    more: dict[str, Any] = {}
    if asked["kind"] == "int4":
        more["block_size"] = asked["block_size"]
        more["awqlite_fuse_nodes"] = False  # fails where a constant is a single number
    elif asked["op_types"]:
        more["op_types_to_quantize"] = list(asked["op_types"])
    quantizer.quantize(
        asked["model"],
        quantize_mode=asked["kind"],
        # Never None: it would make samples up.
        calibration_data_reader=Reader(folder / "samples", folder / "taken"),
        calibration_method=METHODS[asked["method"]],
        calibration_eps=["cpu"],  # a list of its own, for it is changed
        nodes_to_exclude=_exactly(asked["exclude"]),
        use_external_data_format=asked["large"],
        output_path=asked["made"],
        high_precision_dtype="fp32",
        **more,
    )


def cast(asked: dict[str, Any], autocast: Any) -> None:  # noqa: ANN401 - as above
    """Write the model in half precision; inputs and outputs keep their types."""
    onnx = import_module("onnx")
    made = autocast.convert_to_mixed_precision(
        asked["model"],
        low_precision_type=asked["kind"],
        nodes_to_exclude=_exactly(asked["exclude"]) or None,
        op_types_to_exclude=asked["leave"] or None,
        keep_io_types=True,
        calibration_data=str(Path(asked["folder"]) / "samples"),
        providers=["cpu"],
    )
    large = asked["large"]
    onnx.save_model(made, asked["made"], save_as_external_data=large, location="made.bin")


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Carry out a request; whatever is raised is the answer."""
    try:
        quantizer, autocast = modules()
        if asked["kind"] in {"fp16", "bf16"}:
            cast(asked, autocast)
        else:
            quantize(asked, quantizer)
    except MemoryError:
        return {"memory": True}
    except OSError as error:
        return {"errno": error.errno, "error": f"{type(error).__name__}: {error}"}
    except Exception as error:  # noqa: BLE001 - it raises what it likes
        return {"error": f"{type(error).__name__}: {error}"}
    return {"versions": versions()}


def main(arguments: list[str]) -> int:
    """``--version``, ``--describe`` (which imports all of it), or a request and an answer."""
    if arguments[0] == "--describe":
        modules()
    if arguments[0].startswith("--"):
        print(json.dumps(versions()))  # noqa: T201 - printing is what this is for
        return 0
    asked, told = Path(arguments[0]), Path(arguments[1])
    said = json.dumps(answer(json.loads(asked.read_text())))
    told.write_text(said)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
