"""What a rule is given: a model's facts, the target, what was asked for, and what is around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from enginefarm.finding import Finding
from enginefarm.preflight.dtypes import TypedNode, follow_types, typed_nodes
from enginefarm.preflight.facts import ModelFacts, TensorFacts
from enginefarm.preflight.origins import Origins, trace
from enginefarm.preflight.shapes import Known, infer
from enginefarm.preflight.tables import capabilities_of
from enginefarm.preflight.tables.limits import Capabilities
from enginefarm.preflight.weights import WeightsSeen
from enginefarm.spec import CompileOptions, Profile
from enginefarm.target import Target

ENDS = ("min", "opt", "max")


@dataclass(frozen=True)
class Measured:
    """The memory that a stage took in an earlier build of this model, with these options.

    ``enough``: at sizes no smaller than these; otherwise it is the least that is needed.
    """

    stage: str
    peak_bytes: int
    enough: bool


@dataclass(frozen=True)
class Room:
    """What a machine offers a job. None: not known, and then nothing is said of it."""

    memory_bytes: int | None = None
    gpu_memory_bytes: int | None = None
    driver: str | None = None
    """Version of the NVIDIA driver, where the machine has the target's GPU."""
    most_memory_bytes: int | None = None
    """What the machine that offers most has for such a job: it may be built there instead."""
    measured: tuple[Measured, ...] = ()
    served: tuple[str, ...] | None = None
    """The targets that the farm's live nodes build for now; None: no farm was asked."""


@dataclass(frozen=True)
class Sized:
    """What is certain of the graph at one end of one profile."""

    profile: int | None
    end: str
    inputs: Mapping[str, Sequence[int]]
    known: Known

    @property
    def place(self) -> str:
        """Return the place in words."""
        return (
            "the model's own shapes"
            if self.profile is None
            else f"profile {self.profile}, {self.end}"
        )


@dataclass(frozen=True)
class Subject:
    """A model for a target. ``seen`` is what was seen of its weights, if anybody looked."""

    facts: ModelFacts
    target: Target
    profiles: Sequence[Profile] = ()
    options: CompileOptions = field(default_factory=CompileOptions)
    version: str | None = None
    seen: WeightsSeen | None = None
    room: Room = field(default_factory=Room)
    repairs_follow: bool = False
    """Whether the model is still to be repaired before it is built."""
    plugins: bool = False
    """Whether the target's backend has been given plugins, with operators that no table has."""

    @cached_property
    def capabilities(self) -> Capabilities:
        """What the target's backend can do."""
        return capabilities_of(self.target.backend, self.version)

    def left_to_plugins(self, domain: str) -> bool:
        """Tell whether an operator of a domain that nobody else has may be a plugin's.

        What looks at names alone finds its plugins in ONNX's own domain, too.
        """
        return self.plugins and (bool(domain) or self.capabilities.knows_by_name)

    @cached_property
    def origins(self) -> Origins:
        """On what each tensor depends."""
        return trace(self.facts.graph, self.facts.inputs)

    @cached_property
    def strict_origins(self) -> Origins:
        """As ``origins``, but for fixed sizes, too: what is computed from one is not folded."""
        return trace(self.facts.graph, self.facts.inputs, fixed=True)

    @cached_property
    def agreed_profiles(self) -> list[Profile]:
        """The profiles with one range for dimensions of one name."""
        from enginefarm.preflight.rules.profiles import agreed

        return [agreed(self.facts.inputs, profile) for profile in self.profiles]

    @cached_property
    def typed_nodes(self) -> tuple[TypedNode, ...]:
        """Every node with the types of what it reads and makes, of inner graphs, too."""
        return tuple(typed_nodes(self.facts.graph, self.facts.opset, self.facts.functions))

    @cached_property
    def types(self) -> dict[str, str]:
        """The data type of every tensor of which it is certain."""
        return follow_types(self.facts.graph, self.typed_nodes)

    @cached_property
    def constants(self) -> dict[str, TensorFacts]:
        """What has the same value in every run, of inner graphs, too."""
        found: dict[str, TensorFacts] = {}
        for graph in self.facts.graph.every_graph():
            found |= graph.constants()
        return found

    @cached_property
    def sized(self) -> list[Sized]:
        """What is certain at min, opt and max of each profile, as far as the profiles fit."""
        fixed = {
            row.name: [dim for dim in row.shape if isinstance(dim, int)]
            for row in self.facts.inputs
            if all(isinstance(dim, int) for dim in row.shape)
        }
        names = {row.name: len(row.shape) for row in self.facts.inputs}
        if len(fixed) == len(names):
            return [self._sized(None, "opt", fixed)]
        found = []
        for number, profile in enumerate(self.agreed_profiles):
            for end in ENDS:
                shapes = fixed | {
                    name: list(getattr(row, end))
                    for name, row in profile.items()
                    if names.get(name) == len(getattr(row, end))
                }
                found.append(self._sized(number, end, shapes))
        return found

    def _sized(self, profile: int | None, end: str, inputs: dict[str, list[int]]) -> Sized:
        return Sized(profile, end, inputs, infer(self.facts.graph, inputs, self.facts.opset))

    def at_end(self, end: str) -> list[Sized]:
        """Return what is certain at one end of every profile, or at the model's own shapes."""
        return [row for row in self.sized if row.end == end or row.profile is None]


Rule = Callable[[Subject], Iterable[Finding]]
