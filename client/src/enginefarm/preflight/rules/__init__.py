"""The rules by theme. Each is a function from a subject to findings; a new one is added here."""

from __future__ import annotations

from enginefarm.preflight.rules import (
    agreement,
    branches,
    interface,
    machine,
    memory,
    number_types,
    operators,
    precision,
    profiles,
    quantization,
    schemas,
    sizes,
    uses,
    versions,
    weights,
)
from enginefarm.preflight.subject import Rule

RULES: tuple[Rule, ...] = (
    *versions.RULES,
    *operators.RULES,
    *schemas.RULES,
    *agreement.RULES,
    *uses.RULES,
    *number_types.RULES,
    *precision.RULES,
    *quantization.RULES,
    *branches.RULES,
    *interface.RULES,
    *profiles.RULES,
    *sizes.RULES,
    *weights.RULES,
    *memory.RULES,
    *machine.RULES,
)
