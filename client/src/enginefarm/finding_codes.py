"""The codes of findings that let a build go on: warnings and notes."""

from __future__ import annotations

from typing import Final

FINDING_CODES: Final[dict[str, str]] = {
    "activations_beyond_fp16": "A tensor inside the model is larger than fp16 can hold; a note.",
    "dim_name_placeholder": "A dimension's name means nothing and stands for several; a note.",
    "findings_cut": "There are more findings than are listed; a note.",
    "int64_beyond_int32": "Whole numbers of the model do not fit into 32 bits; a note.",
    "loop_unbounded": "A Loop ends only when the data says so; a warning.",
    "memory_estimate": "How much memory the build will need; a note.",
    "memory_tight": "The build may need more memory than a job may have; a warning.",
    "operator_fragile": "The compiler builds few forms of the operator; a warning.",
    "operator_mistaken": "The compiler takes another domain's operator for ONNX's; a warning.",
    "operator_of_plugin": "An operator is left to the plugins, which no rule knows; a note.",
    "operator_written_out": "A farm writes the operator out before it builds; a note.",
    "other_targets": "Other targets can take the model, by the rules alone; a note.",
    "profile_not_tried": "The original model was not run at the profile's shapes; a note.",
    "profile_wide": "A profile's largest sizes are far from its usual ones; a note.",
    "shape_inference_failed": "The model's shapes contradict each other; a warning.",
    "shape_undeclared": "An input or output of the graph has no declared shape; a warning.",
    "type_narrowed": "The backend computes a type with less precision; a note.",
    "weights_beyond_fp16": "Weights are larger than fp16 can hold; a note.",
    "weights_denormal": "Weights hold values near zero that are slow or taken for zero; a note.",
    "weights_not_checked": "The weights were not looked at, or not all; a note.",
    "weights_overridable": "Weights are also listed as inputs; a note.",
    "weights_twice": "Large weights are in the file twice; a note.",
    "zero_size_tensor": "A tensor inside the model has no element; a note.",
}
