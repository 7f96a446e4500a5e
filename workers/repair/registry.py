"""The passes by their names. What each is for, and its version, is in ``enginefarm.repairs``."""

from __future__ import annotations

from workers.repair.base import Pass
from workers.repair.passes import (
    expand_operators,
    fix_inputs,
    fold_constants,
    lower_ir_version,
    narrow_int64,
    pin_dimensions,
    prune_unused,
    raise_opset,
    restore_float,
    sort_nodes,
    unique_dimensions,
    unique_names,
    weights_not_inputs,
)

PASSES: dict[str, Pass] = {
    "expand-operators": expand_operators.run,
    "fix-inputs": fix_inputs.run,
    "fold-constants": fold_constants.run,
    "lower-ir-version": lower_ir_version.run,
    "narrow-int64": narrow_int64.run,
    "pin-dimensions": pin_dimensions.run,
    "prune-unused": prune_unused.run,
    "raise-opset": raise_opset.run,
    "restore-float": restore_float.run,
    "sort-nodes": sort_nodes.run,
    "unique-dimensions": unique_dimensions.run,
    "unique-names": unique_names.run,
    "weights-not-inputs": weights_not_inputs.run,
}
