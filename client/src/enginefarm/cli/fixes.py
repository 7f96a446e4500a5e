"""What to do about an error of the farm, in the words of the command line.

The farm's own sentences are for whoever speaks HTTP: they name paths and fields. Here the same
advice names commands and options. With ``--json`` the farm's sentence stays as it came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

_SERVED = "Choose a target that «enginefarm targets» shows, or start a node that has it"

# Braces name a member of the error's context; without that member the farm's sentence stays.
FIXES: Final[dict[str, str]] = {
    "benchmark_window": "Raise --option benchmark.max_duration_ms=…, or lower "
    "benchmark.min_duration_ms.",
    "gate_not_met": "See its report with: enginefarm report {artifact}; then change the model, "
    "the options or the gate.",
    "gate_unmeasurable": "Let the gate look only at a target that is measured, as "
    "--gate 'onnxruntime@cpu:cosine>=0.999', or wait for such a node: --if-unmeasured wait "
    "--wait-for-node 10m.",
    "gate_without_output": "Leave the [output] out of this --gate.",
    "idempotency_key_reused": "Repeat the command exactly as it was, or give a new "
    "--idempotency-key.",
    "invalid_field": "See what each option may be with: enginefarm submit --help",
    "missing_field": "See what each option may be with: enginefarm submit --help",
    "no_node_in_time": f"{_SERVED}, or wait longer with --wait-for-node.",
    "no_such_path": "Check the farm's address, and that the client is as new as the farm.",
    "pending_too_long": "See who could do it with: enginefarm nodes; then submit again.",
    "synthetic_unused": "Leave out --synthetic, or --evaluation.",
    "target_not_served": f"{_SERVED}, or wait for one with --wait-for-node 10m.",
    "unauthenticated": "Put your key in ENGINEFARM_KEY, or in the settings file beside the farm's "
    "address.",
    "unknown_artifact": "«enginefarm show BUILD» names the artifact of each target.",
    "unknown_attempt": "«enginefarm show BUILD» lists the jobs and how often each was tried.",
    "unknown_build": "«enginefarm list» shows yours.",
    "unknown_dataset": "Name the .npz file itself with --evaluation, and it is sent.",
    "unknown_model": "Name the .onnx file itself, and it is sent if it has to be; «enginefarm "
    "models» shows what the farm has. The digest of a model is not the sha256 of its file: it "
    "also covers the external data.",
}


def fix_in_words(code: str, fix: str, context: Mapping[str, JsonValue]) -> str:
    """Return what a person at the command line does about an error."""
    # The nearest right word, and what this client has found out itself, is better advice.
    if code not in FIXES or fix.startswith("Did you mean") or "ENGINEFARM_" in fix:
        return fix
    try:
        return FIXES[code].format_map(context)
    except KeyError:
        return fix
