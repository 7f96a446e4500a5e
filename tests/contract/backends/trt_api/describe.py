"""Write down the API of TensorRT's real Python bindings, without TensorRT: names and signatures.

The bindings are a small wheel of their own (``tensorrt_cu13_bindings``) and need nine C symbols,
which ``shim.c`` gives. For each version::

    pip download --no-deps tensorrt_cu13_bindings==11.4.0.106 && unzip -d bindings *.whl
    gcc -shared -fPIC -Wl,-soname,libnvinfer.so.11 -o libnvinfer.so.11 shim.c
    cp libnvinfer.so.11 libnvonnxparser.so.11; cp libnvinfer.so.11 libnvinfer_plugin.so.11
    LD_LIBRARY_PATH=. python describe.py bindings 11.4.0.106 > 11.4.0.106.json

Only signatures are kept; a property has its type and whether it can be set.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

CLASSES = (
    *("Builder", "BuilderFlag", "DataType", "EngineInspector", "ErrorCode"),
    *("ExecutionContextAllocationStrategy", "HardwareCompatibilityLevel", "IBuilderConfig"),
    *("ICudaEngine", "IErrorRecorder", "IExecutionContext", "IHostMemory", "ILogger"),
    *("INetworkDefinition", "IOptimizationProfile", "IOutputAllocator", "IPluginCreatorV3One"),
    *("IPluginRegistry", "IProgressMonitor", "IStreamWriter", "ITensor", "ITimingCache"),
    *("LayerInformationFormat", "MemoryPoolType"),
    *("NetworkDefinitionCreationFlag", "OnnxParser", "ParserError", "ProfilingVerbosity"),
    *("Runtime", "RuntimePlatform", "TensorIOMode", "TensorLocation"),
    *("TilingOptimizationLevel", "TimingCacheKey", "TimingCacheValue"),
)
"""What the source uses, and what it may come to use; a name elsewhere is refused by the test."""

FUNCTIONS = ("get_plugin_registry",)
"""Of the module itself."""

_MODULE = re.compile(r"\btensorrt_(?:bindings\.tensorrt|rtx_bindings\.tensorrt_rtx)\.")
_NUMBERED = re.compile(r"^\d+\. ")
_OVERRIDDEN = re.compile(r"^\s+def (?P<name>[a-z]\w*)\(self(?P<arguments>[^)]*)\):", re.MULTILINE)


def signatures(name: str, text: str | None) -> list[str]:
    """Return the signatures in a docstring of the binder, one for each overload."""
    lines = [_NUMBERED.sub("", line.strip()) for line in (text or "").splitlines()]
    found = [line for line in lines if line.startswith(f"{name}(") and " -> " in line]
    return [_MODULE.sub("", line) for line in found]


def described(kind: type) -> dict[str, Any]:
    """Return one class: an enum's members, or methods, properties and nested enums."""
    members = getattr(kind, "__members__", None)
    if members is not None:
        return {"enum": sorted(members)}
    told: dict[str, Any] = {"methods": {}, "properties": {}, "enums": {}}
    for name in sorted(dir(kind)):
        if name.startswith("_") and name != "__init__":
            continue
        member = getattr(kind, name)
        if isinstance(member, property):
            read = _MODULE.sub("", (member.fget.__doc__ or "").strip()) if member.fget else ""
            told["properties"][name] = {"get": read, "set": member.fset is not None}
        elif isinstance(member, type):
            told["enums"][name] = sorted(getattr(member, "__members__", ()))
        elif callable(member):
            told["methods"][name] = signatures(name, member.__doc__)
    if set(told["methods"]) == {"__init__"}:
        told["methods"] |= dict(_overridden(kind))
    return told


def _overridden(kind: type) -> Iterator[tuple[str, list[str]]]:
    """Yield methods that are only there to be overridden: the class tells of them in its text."""
    for found in _OVERRIDDEN.finditer(kind.__doc__ or ""):
        given = [name.strip() for name in found["arguments"].split(",") if name.strip()]
        arguments = ", ".join([f"self: {kind.__name__}", *(f"{name}: object" for name in given)])
        yield found["name"], [f"{found['name']}({arguments}) -> object"]


def main(folder: str, version: str) -> None:
    """Print the description of the bindings in a folder."""
    sys.path.insert(0, folder)
    bindings = importlib.import_module("tensorrt_bindings.tensorrt")
    told = {name: described(getattr(bindings, name)) for name in CLASSES}
    told |= {
        name: {"function": signatures(name, getattr(bindings, name).__doc__)} for name in FUNCTIONS
    }
    print(f'{{"version": {json.dumps(version)}, "classes": {{')  # noqa: T201 - it is a filter
    rows = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in told.items()]
    print(",\n".join(rows) + "\n}}")  # noqa: T201 - as above


if __name__ == "__main__":
    main(*sys.argv[1:])
