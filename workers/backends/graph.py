"""What every backend asks about an ONNX file: the checker, opsets, inputs; and joining its data.

By path only, never the whole model in one message: files above 2 GiB keep their weights outside.
"""

from __future__ import annotations

import re
from pathlib import Path

import onnx
from onnx import external_data_helper

from enginefarm.finding import Finding, error_finding, warning_finding
from enginefarm.views import TensorView
from workers.backends.base import MODEL_BYTES_IN_ONE_FILE
from workers.backends.strangers import set_apart
from workers.diagnosis import Runtime, diagnose, shorten

_NO_SHAPE = re.compile(r"Field 'shape' of 'type' is required but missing")


def check_file(path: Path, *, others: bool = False) -> list[Finding]:
    """Run the ONNX checker and compare the opsets with the newest that is known here.

    ``others``: operators that ONNX does not have may stand in its domain, and are let be.
    """
    if not others:
        return _checked(path)
    with set_apart(path) as copy:
        return _checked(copy)


def _checked(path: Path) -> list[Finding]:
    try:
        onnx.checker.check_model(str(path))
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        if _NO_SHAPE.search(str(error)):
            return [_undeclared()]
        return [_checker_finding(without_folder(str(error), path))]
    return _opset_findings(_graph_only(path)) or _inference_findings(path)


def _undeclared() -> Finding:
    """The checker wants a shape of every output; no runtime does."""
    return warning_finding(
        "shape_undeclared",
        "An input or output of the graph has no declared shape.",
        why="The ONNX checker stops at that, so the rest of the graph was not looked at by it.",
        fix="Export with shapes: a name for each dimension that is not fixed.",
    )


def without_folder(text: str, path: Path) -> str:
    """Return a text without the folder of the node in which the model lies for now."""
    named = text.replace(f"'{path.parent}/'", "the model's folder")
    return named.replace(f"{path.parent}/", "")


def _checker_finding(text: str) -> Finding:
    row = diagnose(text, Runtime.ONNX)
    return error_finding(
        row.code if row else "invalid_graph",
        f"The ONNX checker refuses the model. It says: {shorten(text, 300)}",
        fix=row.fix if row else "Export it again; onnx.checker.check_model names the place.",
    )


def _inference_findings(path: Path) -> list[Finding]:
    """Shapes that contradict each other: a warning, for runtimes may take the model."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:  # noqa: BLE001 - the binding raises more kinds than it declares
        said = shorten(without_folder(str(error), path), 300)
        return [
            warning_finding(
                "shape_inference_failed",
                f"Shape inference finds a contradiction: {said}",
                fix="Export with a current exporter, or mend the shapes named.",
            )
        ]
    return []


def _graph_only(path: Path) -> onnx.ModelProto:
    return onnx.load(str(path), load_external_data=False)


def _opset_findings(model: onnx.ModelProto) -> list[Finding]:
    newest = {"": onnx.defs.onnx_opset_version(), "ai.onnx.ml": _newest_of("ai.onnx.ml")}
    newest["ai.onnx"] = newest[""]
    found = []
    for opset in model.opset_import:
        known = newest.get(opset.domain)
        if known is not None and opset.version > known:
            domain = opset.domain or "ai.onnx"
            found.append(
                error_finding(
                    "unsupported_opset",
                    f"The model uses {domain} {opset.version}; known here is {known}.",
                    where=domain,
                    fix=f"Export with opset {known} or older.",
                )
            )
    return found


def _newest_of(domain: str) -> int:
    return max(
        s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.domain == domain
    )


def inputs_of(path: Path) -> list[TensorView]:
    """Return the real inputs: what the graph lists, less its initializers."""
    graph = _graph_only(path).graph
    weights = {tensor.name for tensor in graph.initializer}
    return [_view(value) for value in graph.input if value.name not in weights]


def _view(value: onnx.ValueInfoProto) -> TensorView:
    tensor = value.type.tensor_type
    dims = [
        dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None)
        for dim in tensor.shape.dim
    ]
    dtype = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
    return TensorView(name=value.name, dtype=dtype, shape=dims)


def keep_interface(written: Path, original: Path) -> str | None:
    """Give a rewritten model the inputs and outputs of the original, no more and no less.

    A rewriter that folds away a weight which is also listed as an input (as before IR version 4)
    leaves the listing behind: a required input that nobody knows. Returns what still differs.
    """
    model = _graph_only(written)
    weights = {tensor.name for tensor in model.graph.initializer}
    wanted = [view.name for view in inputs_of(original)]
    left_over = [v for v in model.graph.input if v.name not in weights and v.name not in wanted]
    if left_over:
        for value in left_over:
            model.graph.input.remove(value)
        written.write_bytes(model.SerializeToString())
    found = [value.name for value in model.graph.input if value.name not in weights]
    outputs = [value.name for value in model.graph.output]
    wanted_outputs = [value.name for value in _graph_only(original).graph.output]
    if found != wanted or outputs != wanted_outputs:
        return f"inputs {found} and outputs {outputs} instead of {wanted} and {wanted_outputs}"
    return None


def has_external_data(path: Path) -> bool:
    """Tell whether any weight is kept in another file."""
    weights = _graph_only(path).graph.initializer
    return any(external_data_helper.uses_external_data(weight) for weight in weights)


def take_in_data(path: Path, folder: Path) -> bool:
    """Write a model's external data, read from ``folder``, into the file itself.

    Returns False, with the file unchanged, if one file cannot hold them all.
    """
    model = _graph_only(path)
    outside = [w for w in model.graph.initializer if external_data_helper.uses_external_data(w)]
    total = path.stat().st_size + sum(_length(weight, folder) for weight in outside)
    if total > MODEL_BYTES_IN_ONE_FILE:
        return False
    external_data_helper.load_external_data_for_model(model, str(folder))
    path.write_bytes(model.SerializeToString())
    return True


def _length(weight: onnx.TensorProto, folder: Path) -> int:
    info = {entry.key: entry.value for entry in weight.external_data}
    if "length" in info:
        return int(info["length"])
    return int((folder / info["location"]).stat().st_size)
