"""What to do about an error of the farm, in the words of the command line.

The farm's own sentences are for whoever speaks HTTP: they name paths and fields. Here the same
advice names commands and options. With ``--json`` the farm's sentence stays as it came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

_SERVED = "Choose a target that «enginefarm targets» shows, or start a node that has it"
_MEASURED = (
    "{instead} (a target stands before the metric: --gate 'onnxruntime@cpu:cosine>=0.999'), or "
    "wait for such a node: --if-unmeasured wait --wait-for-node 10m."
)
_NOT_SENT = (
    "Name the .onnx file itself, and it is sent if it has to be; «enginefarm models» shows what "
    "the farm has. The digest of a model is not the sha256 of its file: it also covers the "
    "external data."
)

_UPLOADS = "/v1/uploads"
_AGAIN = "Repeat the command: it goes on, or begins anew; what the farm has is not sent twice."

# code: a word by which the farm's own sentence is known, and what is said in its place. Braces
# name a member of the error's context; without that member the farm's sentence stays.
FIXES: Final[dict[str, tuple[str, str]]] = {
    "benchmark_window": (
        "max_duration_ms",
        "Raise --option benchmark.max_duration_ms=…, or lower benchmark.min_duration_ms.",
    ),
    "calibration_missing": (
        "precision.calibration",
        "Name an .npz file of samples of what the engine will see with --calibration.",
    ),
    "comparison_by_build": ("POST /v1/comparisons", "Ask for it by «enginefarm compare A B»."),
    "comparison_not_served": (
        "set wait_for_node",
        "Start a node that does, or wait for one: --wait-for-node 10m. Or: enginefarm diff A B.",
    ),
    "dataset_expired": (
        "POST /v1/",
        "Name the .npz file itself with --evaluation, and it is sent.",
    ),
    "engine_not_finite": (
        "options.benchmark.not_finite",
        "See it with: enginefarm report {artifact}; or add --option benchmark.not_finite=publish.",
    ),
    "plugin_not_served": (
        "set wait_for_node",
        "Name digests that «enginefarm plugins» lists, or wait for a node: --wait-for-node 10m.",
    ),
    "plugin_precision": (
        "Name the same operators",
        "Name the operators' library for ONNX Runtime, too: --option plugins.onnxruntime=FILE.",
    ),
    "plugin_serialize": (
        "leave serialize_plugins out",
        "Name them with --option plugins.tensorrt=FILE, or leave compile.serialize_plugins out.",
    ),
    "plugin_unused": (
        "options.plugins.",
        "Leave the option out, or add a --target of that backend.",
    ),
    "gate_bounds": ("at_least", "Give the gates of one metric finite bounds that leave room."),
    "gate_direction": ("instead of", "Write {metric}{sign}{bound}."),
    "gate_against": ("if_tainted", "Name another artifact, or add --if-tainted allow."),
    "gate_not_met": (
        "look at its report",
        "See its report with: enginefarm report {artifact}; then change model, options or gate.",
    ),
    "gate_tainted": (
        "if_tainted",
        "Repeat the command: only the benchmark is made anew; or add --if-tainted allow.",
    ),
    "gate_unmeasurable": (
        "if_unmeasured",
        _MEASURED,
    ),
    "gate_without_output": ("Leave output out", "Leave the [output] out of this --gate."),
    "idempotency_key_reused": (
        "same body",
        "Repeat the command exactly as it was, or give a new --idempotency-key.",
    ),
    "invalid_field": (
        "/openapi.json",
        "See what each option may be with: enginefarm submit --help",
    ),
    "memory_not_served": (
        "wait_for_node",
        "Reduce the profile's max, start a node with more memory, or add --wait-for-node 10m.",
    ),
    "missing_field": (
        "/openapi.json",
        "See what each option may be with: enginefarm submit --help",
    ),
    "model_expired": ("POST /v1/", "Name the .onnx file itself, and it is sent again."),
    "no_node_in_time": ("GET /v1/targets", f"{_SERVED}, or wait longer with --wait-for-node."),
    "no_such_path": (
        "/openapi.json",
        "Check the farm's address, and that the client is as new as the farm.",
    ),
    "pending_too_long": (
        "GET /v1/nodes",
        "See who could do it with: enginefarm nodes; then submit again.",
    ),
    "no_such_part": (_UPLOADS, _AGAIN),
    "precision_not_served": (
        "set wait_for_node",
        "Start a node for the stage {stage}, or wait for one with --wait-for-node 10m.",
    ),
    "precision_regression": (
        "options.benchmark.not_finite",
        "Choose bf16, exclude what overflows, or add --option benchmark.not_finite=publish.",
    ),
    "precision_slower": (
        "options.benchmark.min_duration_ms",
        "Measure for longer: --option benchmark.min_duration_ms=…; or repeat the command.",
    ),
    "quota_uploads": (
        _UPLOADS,
        "Wait until others have ended: one that nobody goes on with is given up after a day.",
    ),
    "quota_searches": (
        "POST /v1/searches",
        "Wait until some are over, or cancel one: enginefarm search cancel ID.",
    ),
    "search_profile": (
        "options.benchmark.shapes",
        "Widen it, or measure at shapes that all of them allow: --option benchmark.shapes=….",
    ),
    "shapes_outside_profile": (
        "options.benchmark.shapes",
        "Widen a --profile, or name other shapes with --option benchmark.shapes=….",
    ),
    "synthetic_unused": ("Leave out synthetic", "Leave out --synthetic, or --evaluation."),
    "target_not_served": (
        "set wait_for_node",
        f"{_SERVED}, or wait for one with --wait-for-node 10m.",
    ),
    "unauthenticated": (
        "Authorization",
        "Put your key in ENGINEFARM_KEY, or in the settings file beside the farm's address.",
    ),
    "unknown_artifact": (
        "GET /v1/builds",
        "«enginefarm show BUILD» names the artifact of each target.",
    ),
    "unknown_attempt": (
        "GET /v1/builds",
        "«enginefarm show BUILD» lists the jobs and how often each was tried.",
    ),
    "unknown_build": ("GET /v1/builds", "«enginefarm list» shows yours."),
    "unknown_comparison": (
        "GET /v1/comparisons",
        "«enginefarm comparisons list» shows yours.",
    ),
    "unknown_search": ("GET /v1/searches", "«enginefarm search list» shows yours."),
    "unknown_dataset": (
        "POST /v1/",
        "Name the .npz file itself with --evaluation, and it is sent.",
    ),
    "unknown_model": (
        "POST /v1/",
        _NOT_SENT,
    ),
    "unknown_upload": (_UPLOADS, _AGAIN),
    "upload_incomplete": (_UPLOADS, _AGAIN),
    "upload_lost": (_UPLOADS, _AGAIN),
    "upload_not_open": (_UPLOADS, _AGAIN),
}


def fix_in_words(code: str, fix: str, context: Mapping[str, JsonValue]) -> str:
    """Return what a person at the command line does about an error."""
    mark, words = FIXES.get(code, ("", ""))
    if not words or mark not in fix:
        return fix
    try:
        return words.format_map(context)
    except KeyError:
        return fix
