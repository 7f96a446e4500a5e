"""The columns of a backend's table: which operators, types and uses it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class OnlyValues:
    """An attribute may have only these values; ``given`` is what it has when it is left out."""

    op: str
    attribute: str
    given: int | float | str
    allowed: tuple[int | float | str, ...]
    said: str
    when: tuple[str, str] | None = None
    """Another attribute and the value that it must have for this to count."""


@dataclass(frozen=True)
class OnlyOnes:
    """An attribute's numbers must all be 1."""

    op: str
    attribute: str


@dataclass(frozen=True)
class MostOutputs:
    """Of an operator's outputs only the first may be wanted."""

    op: str
    most: int


@dataclass(frozen=True)
class ConstantInput:
    """An input must be known when the engine is built."""

    op: str
    number: int
    what: str
    of_values: bool = False
    """Only what depends on the values of an input is refused; sizes may decide it."""
    unless: frozenset[str] = NONE
    """Types for which it may come from anywhere."""


@dataclass(frozen=True)
class NeedsAttribute:
    """An attribute that ONNX lets one leave out must be given."""

    op: str
    attribute: str


Limit = OnlyValues | OnlyOnes | MostOutputs | ConstantInput | NeedsAttribute


@dataclass(frozen=True)
class Capabilities:
    """What a backend takes.

    ``missing`` has the operators of ONNX that it lacks; ``other_domains`` what it has of domains
    beside ONNX's, by domain. ``no_kernel`` has by type the operators that it lacks for that type.
    ``refused_types`` may stand nowhere in a model. ``exact`` is false where the table was not made
    for the version at hand.
    """

    label: str
    version: str
    also: tuple[str, ...] = ()
    newest_opset: int | None = None
    oldest_opset: int = 1
    missing: frozenset[str] = NONE
    missing_from: Mapping[str, int] = field(default_factory=dict)
    """By operator, the opset from which on its newer form is lacking."""
    other_domains: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    knows_by_name: bool = False
    """Whether it takes an operator of a domain that it does not know for ONNX's of that name."""
    refused_types: frozenset[str] = NONE
    narrowed_types: Mapping[str, str] = field(default_factory=dict)
    no_kernel: Mapping[str, frozenset[str]] = field(default_factory=dict)
    no_form: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By type, the versions of operators, such as ``Acos-22``, that it lacks for that type."""
    cast_only_types: frozenset[str] = NONE
    """Types that only Q/DQ may make and take."""
    limits: tuple[Limit, ...] = ()
    most_topk: int | None = None
    needs_profile_values: bool = False
    symmetric_only: bool = False
    types_by_arch: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By type, the architectures that have it; a type that is not here is everywhere."""
    no_fp32_gemm: frozenset[str] = NONE
    types_by_schema: bool = False
    """Whether it refuses every type that ONNX's schemas do not allow."""
    branches_alike: bool = False
    names_are_sizes: bool = False
    slices_whole: bool = False
    bytes_per_weight_byte: float = 1.0
    exact: bool = True

    def holds_for(self, version: str) -> bool:
        """Tell whether the table was made for a version."""
        return any(
            version == one or version.startswith(f"{one}.") for one in (self.version, *self.also)
        )

    def loosened(self) -> Capabilities:
        """Return the table as far as it goes for another version."""
        return replace(self, exact=False)
