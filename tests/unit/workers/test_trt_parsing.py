"""What the ONNX parser and the builder's network say, told once for each kind with its places."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from workers.backends.trt.parsing import complaints
from workers.backends.trt.profiles import value_inputs
from workers.backends.trt.recording import Record


@dataclass
class ParserError:
    """An error as the runtime's parser gives it."""

    kind: str
    operator: str = ""
    name: str = ""
    words: str = ""
    index: int = 0

    def code(self) -> str:
        """Return it as the runtime's enumeration prints it."""
        return f"ErrorCode.{self.kind}"

    def desc(self) -> str:
        """Return the parser's words."""
        return self.words

    def node(self) -> int:
        """Return the node's number, or -1."""
        return self.index

    def node_name(self) -> str:
        """Return the node's name, which may be empty."""
        return self.name

    def node_operator(self) -> str:
        """Return the node's operator."""
        return self.operator


@dataclass
class Parser:
    """A parser that has read a model."""

    errors: list[ParserError]
    known: set[str] = field(default_factory=set)

    @property
    def num_errors(self) -> int:
        """How many errors there are."""
        return len(self.errors)

    def get_error(self, index: int) -> ParserError:
        """Return one of them."""
        return self.errors[index]

    def supports_operator(self, operator: str) -> bool:
        """Tell whether the operator is known at all."""
        return operator in self.known


@pytest.mark.parametrize(
    ("error", "known", "code", "message"),
    [
        (ParserError("UNSUPPORTED_NODE", "Foo"), False, "unsupported_operator", "no operator Foo"),
        (
            ParserError("UNSUPPORTED_NODE", "Conv"),
            True,
            "unsupported_operator_use",
            "cannot take operator Conv",
        ),
        (
            ParserError("UNSUPPORTED_NODE_DATATYPE", "Conv", words="no int8"),
            True,
            "unsupported_data_type",
            "It says: no int8",
        ),
        (
            ParserError("INVALID_GRAPH", words='n > 0 && "The graph is empty"'),
            False,
            "invalid_graph",
            "cannot read the model. It says: The graph is empty",
        ),
        (
            ParserError(
                "INVALID_NODE",
                "",
                words="Assertion failed: ctx->getOpsetVersion() >= 7: Pre-opset 7 broadcasting is"
                " unsupported in this version of the ONNX parser",
            ),
            False,
            "unsupported_opset",
            "Pre-opset 7 broadcasting is unsupported",
        ),
        (
            ParserError("UNSUPPORTED_NODE", "", words="a word that no row knows"),
            False,
            "unsupported_operator",
            "It says: a word that no row knows",
        ),
        (ParserError("SOMETHING_NEW", "Conv"), True, "parser_refused", "cannot take operator Conv"),
        (
            ParserError("UNSUPPORTED_NODE", "Conv", words="false"),
            True,
            "unsupported_operator_use",
            "as it is used here.",
        ),
    ],
)
def test_each_kind_of_error_has_its_code_and_words(
    error: ParserError, *, known: bool, code: str, message: str
) -> None:
    (found,) = complaints(
        Parser([error], {error.operator} if known else set()), "TensorRT", Record(has_gpu=False)
    )

    assert found.code == code
    assert message in found.message
    assert "false" not in found.message
    assert found.fix


def test_one_kind_is_told_once_with_the_first_of_its_nodes() -> None:
    many = [ParserError("UNSUPPORTED_NODE", "Foo", f"n{number}") for number in range(7)]
    other = ParserError("UNSUPPORTED_NODE", "Bar", index=3)
    nowhere = ParserError("UNSUPPORTED_NODE", "Baz", index=-1)

    found = complaints(Parser([*many, other, nowhere]), "TensorRT", Record(has_gpu=False))

    assert [each.where for each in found] == ["n0, n1, n2, n3, n4, … (7 nodes)", "#3", ""]


@dataclass
class Tensor:
    """An input of a network; a dimension is its size, or -1 and a name."""

    name: str
    dims: list[tuple[int, str]]
    is_shape_tensor: bool = False

    @property
    def shape(self) -> list[int]:
        """The sizes."""
        return [size for size, _ in self.dims]

    def get_dimension_name(self, axis: int) -> str:
        """Return a dimension's name, which may be empty."""
        return self.dims[axis][1]


@dataclass
class Network:
    """A network of which only the inputs matter here."""

    inputs: list[Tensor]

    @property
    def num_inputs(self) -> int:
        """How many inputs there are."""
        return len(self.inputs)

    def get_input(self, index: int) -> Tensor:
        """Return one of them."""
        return self.inputs[index]


def test_an_input_whose_values_are_shapes_is_told() -> None:
    network = Network([Tensor("x", [(-1, "")]), Tensor("size", [(2, "")], is_shape_tensor=True)])

    assert [(each.code, each.where) for each in value_inputs(network)] == [
        ("shape_tensor_input", "size")
    ]
