"""Portability of an engine, which a target or a compile option may name: it is one thing. Pure."""

from __future__ import annotations

from enginefarm.compile_options import OPTIONS_OF_BACKEND, CompileOptions, HardwareCompatibility
from enginefarm.errors import InvalidRequest
from enginefarm.spec import BuildSpec
from enginefarm.target import Target
from enginefarm.target_text import Portability, takes_ampere_plus

_OPTION = "hardware_compatibility"


def portability_of(target: Target, options: CompileOptions) -> Portability | None:
    """Return what an engine is portable by, whichever of the two has named it."""
    asked = options.hardware_compatibility
    if target.portability is not None or _OPTION not in OPTIONS_OF_BACKEND[target.backend]:
        return target.portability
    return None if asked in {None, HardwareCompatibility.NONE} else Portability[asked.name]


def in_options(spec: BuildSpec, target: Target) -> tuple[BuildSpec, Target]:
    """Return a build and a target in which the option alone says what is portable.

    So what is made has one key, and one measurement, however it was asked for.
    """
    if target.portability is None:
        return spec, target
    named = {_OPTION: HardwareCompatibility[target.portability.name]}
    compiled = spec.options.compile.model_copy(update=named)
    options = spec.options.model_copy(update={"compile": compiled})
    bare = target.model_copy(update={"portability": None})
    return spec.model_copy(update={"options": options}), bare


def check_portability(spec: BuildSpec) -> None:
    """Refuse a target and an option that do not say the same, and what cannot be built.

    Raises:
        InvalidRequest: code ``portability_refused``.
    """
    asked = spec.options.compile.hardware_compatibility
    for target in spec.targets:
        if asked is None or _OPTION not in OPTIONS_OF_BACKEND[target.backend]:
            continue
        bare = target.model_copy(update={"portability": None})
        if target.portability is not None and asked.name != target.portability.name:
            raise InvalidRequest(
                f"The target {target} and options.compile.{_OPTION} say different things.",
                code="portability_refused",
                why=f"The option is {asked}, and it goes for every target of the build.",
                fix=f"Leave the option out, or write {bare}.",
                target=str(target),
            )
        if asked is HardwareCompatibility.AMPERE_PLUS and not takes_ampere_plus(target.arch):
            raise InvalidRequest(
                f"No engine for Ampere and newer can be built for {target}.",
                code="portability_refused",
                why="It is older than Ampere, and an engine is built on a GPU that it runs on.",
                fix=f"Leave the option out, or name sm_80 or newer in the place of {target.arch}.",
                target=str(target),
            )
