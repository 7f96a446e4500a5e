"""Exit codes of the command line. They are stable: a number never changes its meaning.

An error's family decides, except where its code says more: what this machine lacks is neither the
farm's fault nor the model's.
"""

from __future__ import annotations

from enum import IntEnum

from enginefarm import errors
from enginefarm.errors import FarmError
from enginefarm.state import BuildState


class ExitCode(IntEnum):
    """What a command came to."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    VERIFICATION_REFUSED = 3
    BUILD_FAILED = 4
    BUILD_PARTIAL = 5
    NOT_FOUND = 6
    NOT_ALLOWED = 7
    BAD_INPUT = 8
    FARM_UNAVAILABLE = 9
    CANCELLED = 10
    NOT_SERVED = 11
    CONFLICT = 12
    THIS_MACHINE = 13
    NOT_SET_UP = 14
    WORSE = 15
    REVOKED = 16
    INTERRUPTED = 130


MEANING: dict[ExitCode, str] = {
    ExitCode.OK: "Done. For a watched build: every target was published.",
    ExitCode.UNEXPECTED: "A mistake of the client or the farm.",
    ExitCode.USAGE: "The command line itself is wrong.",
    ExitCode.VERIFICATION_REFUSED: "Bytes, signature, key or subject are not what was signed.",
    ExitCode.BUILD_FAILED: "The build was watched to its end and no target was published.",
    ExitCode.BUILD_PARTIAL: "The build was watched to its end; only some targets were published.",
    ExitCode.NOT_FOUND: "Your tenant has nothing of that name.",
    ExitCode.NOT_ALLOWED: "No key, a key that is not valid, or one without the scope.",
    ExitCode.BAD_INPUT: "A model, dataset, profile or option was refused.",
    ExitCode.FARM_UNAVAILABLE: "No farm answers, or a part of it is away. Try again.",
    ExitCode.CANCELLED: "The build was watched and somebody cancelled it.",
    ExitCode.NOT_SERVED: "No live node can do what a target needs.",
    ExitCode.CONFLICT: "The request contradicts what is already there.",
    ExitCode.THIS_MACHINE: "This machine lacks room, a right, a package, or the engine's runtime "
    "or GPU.",
    ExitCode.NOT_SET_UP: "No farm is known here, or the client's settings file cannot be used.",
    ExitCode.WORSE: "With diff --fail-if-worse or compare --fail-if-slower: the second artifact is "
    "worse than the first, or it cannot be told.",
    ExitCode.REVOKED: "The artifact was revoked: it may be installed and run nowhere any more.",
    ExitCode.INTERRUPTED: "Ctrl-C. A build that was watched goes on.",
}
"""One line for each; the page docs/use/exit-codes.md says the same, which a test proves."""

_BY_CODE = {
    # What stands on the command line cannot be read at all; what is read and refused is BAD_INPUT.
    "invalid_argument": ExitCode.USAGE,
    "invalid_digest": ExitCode.USAGE,
    "invalid_target": ExitCode.USAGE,
    "invalid_url": ExitCode.USAGE,
    "named_twice": ExitCode.USAGE,
    "profile_syntax": ExitCode.USAGE,
    "usage": ExitCode.USAGE,
    # Nothing was asked of anybody: repeating the command does not help.
    "client_settings_invalid": ExitCode.NOT_SET_UP,
    "farm_address_missing": ExitCode.NOT_SET_UP,
    # What was signed is as it was, and its owner has taken it back.
    "artifact_revoked": ExitCode.REVOKED,
    # Whoever answers is not the farm.
    "unavailable": ExitCode.FARM_UNAVAILABLE,
    "unexpected_answer": ExitCode.FARM_UNAVAILABLE,
    "unexpected_redirect": ExitCode.FARM_UNAVAILABLE,
    "disk_full": ExitCode.THIS_MACHINE,
    "engine_load_failed": ExitCode.THIS_MACHINE,
    "extra_missing": ExitCode.THIS_MACHINE,
    "gpu_differs": ExitCode.THIS_MACHINE,
    "local_io": ExitCode.THIS_MACHINE,
    "plugin_needed": ExitCode.THIS_MACHINE,
    "target_not_run_here": ExitCode.THIS_MACHINE,
}
BY_FAMILY: dict[type[FarmError], ExitCode] = {
    errors.FarmError: ExitCode.UNEXPECTED,
    errors.InvalidRequest: ExitCode.BAD_INPUT,
    errors.InvalidModel: ExitCode.BAD_INPUT,
    errors.InvalidDataset: ExitCode.BAD_INPUT,
    errors.InvalidProfile: ExitCode.BAD_INPUT,
    errors.TooLarge: ExitCode.BAD_INPUT,
    errors.QuotaExceeded: ExitCode.NOT_ALLOWED,
    errors.NotServed: ExitCode.NOT_SERVED,
    errors.Unauthenticated: ExitCode.NOT_ALLOWED,
    errors.Forbidden: ExitCode.NOT_ALLOWED,
    errors.NotFound: ExitCode.NOT_FOUND,
    errors.Gone: ExitCode.REVOKED,
    errors.Conflict: ExitCode.CONFLICT,
    errors.LeaseLost: ExitCode.UNEXPECTED,
    errors.JobFailed: ExitCode.BUILD_FAILED,
    errors.VerificationFailed: ExitCode.VERIFICATION_REFUSED,
    errors.Unavailable: ExitCode.FARM_UNAVAILABLE,
}
_BY_BUILD = {
    BuildState.SUCCEEDED: ExitCode.OK,
    BuildState.PARTIAL: ExitCode.BUILD_PARTIAL,
    BuildState.FAILED: ExitCode.BUILD_FAILED,
    BuildState.CANCELLED: ExitCode.CANCELLED,
}


def exit_code_of(error: FarmError) -> ExitCode:
    """Return the exit code that an error comes to."""
    known = (BY_FAMILY[family] for family in type(error).__mro__ if family in BY_FAMILY)
    return _BY_CODE.get(error.code) or next(known)


def exit_code_of_build(state: BuildState) -> ExitCode:
    """Return the exit code of a build that was watched to its end."""
    return _BY_BUILD.get(state, ExitCode.UNEXPECTED)
