"""The error codes of what the command line asks for, checks and fetches."""

from __future__ import annotations

from typing import Final

CLIENT_CODES: Final[dict[str, str]] = {
    "cache_in_use": "A pull uses the cache that was to be made smaller.",
    "check_not_finished": "The check of a target did not come to its end.",
    "gate_direction": "A gate's only bound is on the side on which engines get worse.",
    "gpu_differs": "The engine is for another GPU than any of this machine.",
    "layout_refused": "The engine cannot be laid out as was asked.",
    "trtexec_flag_refused": "A flag of trtexec has no place in a build of the farm.",
    "trtexec_flag_unknown": "A word of --trtexec is no flag of trtexec.",
}
