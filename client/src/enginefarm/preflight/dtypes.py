"""Follow data types through a graph: what is declared, and what operators certainly give. Pure."""

from __future__ import annotations

from collections.abc import Callable

from enginefarm.onnx_types import dtype_name
from enginefarm.preflight.facts import GraphFacts, NodeFacts, TensorFacts
from enginefarm.preflight.names import words

_OF_FIRST = words(
    "Abs Add AveragePool BatchNormalization Ceil Clip Concat Conv ConvTranspose Cos CumSum "
    "DepthToSpace Div Dropout Einsum Elu Erf Exp Expand Flatten Floor Gather GatherElements "
    "GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool HardSigmoid HardSwish Hardmax Identity "
    "InstanceNormalization LRN LayerNormalization LeakyRelu Log LogSoftmax LpNormalization LpPool "
    "MatMul Max MaxPool Mean Min Mish Mod Mul Neg PRelu Pad Pow Reciprocal ReduceL1 ReduceL2 "
    "ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare Relu Reshape Resize Round ScatterElements ScatterND Selu Sigmoid Sign Sin "
    "Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tan Tanh "
    "ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample"
)
_BOOL = words("And Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Not Or Xor")
_INT64 = words("ArgMax ArgMin NonZero Shape Size")


def follow_types(graph: GraphFacts, around: dict[str, str] | None = None) -> dict[str, str]:
    """Return the type of every tensor of which it is certain, inner graphs with their own."""
    found = dict(around or {})
    found |= {name: tensor.dtype for name, tensor in graph.weights.items()}
    for name, view in graph.declared.items():
        if view.dtype != "undefined":
            found.setdefault(name, view.dtype)
    for node in graph.nodes:
        dtype = _made(node, found)
        if dtype is not None:
            for name in node.outputs[: 1 if node.op in {"TopK", "MaxPool", "Dropout"} else None]:
                found.setdefault(name, dtype)
        for inner in node.graphs.values():
            found |= {
                name: kind for name, kind in follow_types(inner, found).items() if name not in found
            }
    return found


def _made(node: NodeFacts, known: dict[str, str]) -> str | None:
    """Return the type of what a node makes, if its operator tells."""
    if node.domain:
        return None
    if node.op in _BOOL | _INT64:
        return "bool" if node.op in _BOOL else "int64"
    if node.op in _SPECIAL:
        return _SPECIAL[node.op](node, known)
    return known.get(node.given(0)) if node.op in _OF_FIRST else None


def _constant(node: NodeFacts, _known: dict[str, str]) -> str | None:
    made = GraphFacts(nodes=[node]).constants()
    return next((tensor.dtype for tensor in made.values()), None)


def _filled(node: NodeFacts, _known: dict[str, str]) -> str:
    value = node.attributes.get("value")
    return value.dtype if isinstance(value, TensorFacts) else "float32"


_SPECIAL: dict[str, Callable[[NodeFacts, dict[str, str]], str | None]] = {
    "Cast": lambda node, _known: dtype_name(node.whole("to", 0)),
    "Constant": _constant,
    "ConstantOfShape": _filled,
    "DequantizeLinear": lambda node, known: known.get(node.given(1)),
    "QuantizeLinear": lambda node, known: (
        known.get(node.given(2)) if node.given(2) else dtype_name(node.whole("output_dtype", 2))
    ),
    "Where": lambda node, known: known.get(node.given(1)),
}
