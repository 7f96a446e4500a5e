"""The error codes of precisions: of data, of models, of what tools make and architectures lack."""

from __future__ import annotations

from typing import Final

PRECISION_CODES: Final[dict[str, str]] = {
    "activations_beyond_fp16": "A tensor inside the model is larger than fp16 can hold; a note.",
    "already_quantized": "A precision is asked for, but the model is quantized already.",
    "calibration_cache": "The dataset is a calibration cache of TensorRT 10 or older.",
    "calibration_constant": "An input is the same in every calibration sample; a warning.",
    "calibration_duplicates": "Calibration samples are there twice; a warning.",
    "calibration_few_samples": "There are fewer calibration samples than are usual; a warning.",
    "calibration_is_evaluation": "The same dataset is given for calibration and for evaluation.",
    "calibration_length_differs": "Calibration samples are of other lengths than the evaluation's.",
    "calibration_missing": "A precision whose ranges come from data is asked for without it.",
    "calibration_noise": "The calibration data looks like random noise.",
    "calibration_not_finite": "Calibration samples hold NaN or infinity.",
    "calibration_outside_profile": "Calibration samples do not fit the profile.",
    "calibration_range_differs": "Calibration and evaluation data have other ranges; a warning.",
    "calibration_rounded": "Calibration data is float64 and is rounded; a note.",
    "calibration_too_few": "There are too few calibration samples, and nothing judges the result.",
    "precision_interface_differs": "In another precision the model has other inputs or outputs.",
    "precision_method": "The tool that makes the precision does not have the method.",
    "precision_not_finite": "In the precision that is asked for the model gives NaN or infinity.",
    "precision_not_loadable": "The model that was written in another precision does not load.",
    "precision_not_on_architecture": "The model uses a number type that the architecture lacks.",
    "precision_not_run": "ONNX Runtime does not run the model, by which a precision is judged.",
    "precision_not_served": "No live node takes the stage that the precision needs.",
    "precision_operator": "An operator is named that there is not in the precision.",
    "precision_option_unused": "An option of the precision is given that its kind does not take.",
    "precision_tool": "The tool that is named does not make the precision.",
    "precision_tool_failed": "The tool that changes the precision failed on the model.",
    "precision_without_effect": "Nothing of the model is in the new precision.",
    "quantization_asymmetric": "The model is quantized with a zero point other than 0.",
    "quantization_bias": "The bias of a layer is quantized to int32.",
    "quantization_scale_invalid": "A quantization scale is zero, negative or not a number.",
    "search_empty": "There is no precision that a search could try on its target.",
    "search_precision": "The build of a search asks for a precision or a check of its own.",
    "search_requirement": "What a search requires names another artifact or another target.",
    "search_target": "The build of a search has several targets.",
    "weights_beyond_fp16": "Weights are larger than fp16 can hold; a note.",
}
