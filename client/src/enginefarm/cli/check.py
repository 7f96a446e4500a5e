"""``enginefarm check``: all that is wrong with a model for its targets, before anything is built.

Offline the rules speak at once, on this machine; the farm adds what only runtimes know. What a farm
refuses before it comes to a check is told beside all that the rules find here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue
from rich.text import Text

from enginefarm.cli import arguments, plugin_arguments
from enginefarm.cli import submit_options as options
from enginefarm.cli.display import follow
from enginefarm.cli.exit_codes import ExitCode, exit_code_of
from enginefarm.cli.grid import Column, Grid
from enginefarm.cli.models import send_model
from enginefarm.cli.output import (
    Json,
    clean,
    print_error,
    print_json,
    remark,
    say,
    stderr,
    stdout,
)
from enginefarm.cli.session import connect, settings_of, told_if_interrupted
from enginefarm.client import FarmClient
from enginefarm.client.local_model import files_beside, require_model_file
from enginefarm.counted import counted
from enginefarm.errors import FarmError, InvalidRequest
from enginefarm.finding import Finding, Severity, error_finding
from enginefarm.preflight.alternatives import other_targets, without_refused
from enginefarm.preflight.check import check as by_rules
from enginefarm.preflight.check import facts_or_finding, ordered, stops
from enginefarm.preflight.subject import Subject
from enginefarm.preflight.weights import look_at_weights
from enginefarm.spec import BuildSpec
from enginefarm.spec_errors import valid_spec
from enginefarm.state import JobState
from enginefarm.target import NOT_IN_THIS_VERSION, Target
from enginefarm.views import BuildView

Found = Mapping[str, Sequence[Finding]]


@dataclass(frozen=True)
class _Outcome:
    """What was found of each target, and by whom; ``refused``: why a farm came to no check."""

    found: Found
    alone: bool
    refused: FarmError | None = None

    @property
    def good(self) -> bool:
        return self.refused is None and not any(stops(each) for each in self.found.values())

    @property
    def exit_code(self) -> ExitCode:
        if self.refused is not None:
            return exit_code_of(self.refused)
        return ExitCode.OK if self.good else ExitCode.BAD_INPUT


_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


def check(  # noqa: PLR0913 - one parameter for each option
    ctx: typer.Context,
    model: options.Model,
    target: options.Targets,
    *,
    profile: options.Profiles = None,
    option: options.Options = None,
    fix: options.Fixes = None,
    allow: options.Allowed = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no farm: the rules alone, on this machine.")
    ] = False,
    wait_for_node: options.WaitForNode = "0",
    as_json: Json = False,
) -> None:
    """Tell all that is wrong with a model for each target."""
    targets = arguments.targets(target)
    asked: dict[str, JsonValue] = {
        "targets": [str(each) for each in targets],
        "profiles": arguments.plain_profiles(arguments.profiles(profile or [])),
        "options": arguments.repairs(_options(option or []), fix or [], allow or []),
        "wait_for_node": arguments.seconds(wait_for_node),
        "until": "check",
    }
    spec = valid_spec({"model": f"sha256:{'0' * 64}", **asked})
    alone = offline or settings_of(ctx).url is None
    repaired = bool(fix or allow)
    _require_farm(model, alone=alone, repaired=repaired)
    here = not repaired and not arguments.is_reference(model)
    try:
        outcome = _asked(ctx, model, asked, spec, alone=alone)
    except FarmError as error:
        rules = check_here(Path(model), targets, spec) if here and Path(model).is_file() else {}
        found = {str(each): rules.get(str(each), []) for each in targets}
        outcome = _Outcome(found, alone=alone, refused=error)
    _tell(outcome, as_json=as_json)
    if not outcome.good:
        raise typer.Exit(outcome.exit_code)


def _options(option: list[str]) -> dict[str, JsonValue]:
    return plugin_arguments.in_options(arguments.options(option))


def _asked(
    ctx: typer.Context, model: str, asked: dict[str, JsonValue], spec: BuildSpec, *, alone: bool
) -> _Outcome:
    """Check here, or by the farm.

    Raises:
        FarmError: the file is not there, or the farm refuses it or does not answer.
    """
    if not arguments.is_reference(model):
        require_model_file(Path(model))
    if alone:
        return _Outcome(check_here(Path(model), spec.targets, spec), alone=True)
    with connect(ctx) as farm:
        return _Outcome(_by_farm(farm, model, asked, settings_of(ctx).cache), alone=False)


def _require_farm(model: str, *, alone: bool, repaired: bool) -> None:
    if alone and repaired:
        raise InvalidRequest(
            "Only a farm repairs a model.",
            code="usage",
            why="The rules alone look at the file as it is.",
            fix="Leave out --fix and --allow, or ask a farm.",
        )
    if alone and arguments.is_reference(model):
        raise InvalidRequest(
            "A model that the farm has cannot be checked without the farm.",
            code="usage",
            fix="Name an .onnx file, or leave out --offline.",
        )


def check_here(path: Path, targets: Sequence[Target], spec: BuildSpec) -> dict[str, list[Finding]]:
    """Hold the rules against a model on this machine."""
    facts = facts_or_finding(path)
    if isinstance(facts, Finding):
        return {str(target): [facts] for target in targets}
    try:
        files_beside(path, facts.scan)
    except FarmError as refused:
        said = error_finding(refused.code, refused.message, why=refused.why, fix=refused.fix)
        return {str(target): [said] for target in targets}
    seen = look_at_weights(path, facts)
    found = {}
    for target in targets:
        subject = Subject(
            facts,
            target,
            spec.profiles,
            spec.options.compile,
            seen=seen,
            repairs_follow=True,
            plugins=target.backend in spec.options.plugins,
        )
        told = [*by_rules(subject), *_without_code(target)]
        others = other_targets(subject) if stops(told) else []
        found[str(target)] = ordered([*told, *others])
    return found


def _without_code(target: Target) -> list[Finding]:
    if target.backend not in NOT_IN_THIS_VERSION:
        return []
    return [
        error_finding(
            "backend_not_in_version",
            f"No node of this version builds {target.backend}.",
            why="What else is said of it is said by the rules alone.",
            fix="Ask for another backend to have an engine.",
        )
    ]


def _by_farm(farm: FarmClient, model: str, asked: dict[str, JsonValue], cache: Path) -> Found:
    if arguments.is_reference(model):
        digest = arguments.digest(model)
    else:
        digest = send_model(farm, Path(model), None, cache).digest
    with told_if_interrupted("the farm may go on checking; see: enginefarm list"):
        build, _ = farm.builds.submit(valid_spec({"model": digest, **asked}))
        done = follow(farm, build.id, stderr())
    return _found(done)


def _found(build: BuildView) -> Found:
    """Return what each target's check found; one that did not come to it says why."""
    found: dict[str, list[Finding]] = {str(each.target): [] for each in build.targets}
    for job in build.jobs:
        told = found[str(job.target)]
        told += job.findings
        if job.failure is not None and not job.findings:
            failure = job.failure
            told.append(
                Finding(
                    severity=Severity.ERROR,
                    code=failure.code,
                    message=failure.message,
                    why=failure.why,
                    fix=failure.fix,
                )
            )
    for target in build.targets:
        told = found[str(target.target)]
        if target.state is not JobState.SUCCEEDED and not stops(told):
            told.append(_not_finished(target.state))
    refused = {name for name, told in found.items() if stops(told)}
    return {name: without_refused(told, refused) for name, told in found.items()}


def _not_finished(state: JobState) -> Finding:
    return error_finding(
        "check_not_finished",
        "The check of this target did not come to its end.",
        why=f"It is {state}.",
        fix="Check it again.",
    )


def _tell(outcome: _Outcome, *, as_json: bool) -> None:
    refused = outcome.refused
    if as_json:
        targets = {
            target: [each.model_dump(mode="json") for each in told]
            for target, told in outcome.found.items()
        }
        why = None if refused is None else refused.as_failure().model_dump(mode="json")
        head: dict[str, object] = {"ok": outcome.good, "offline": outcome.alone}
        print_json({**head, "targets": targets, "refused": why})
    else:
        _show(outcome)
    if refused is not None:
        print_error(refused, as_json=False)


def _show(outcome: _Outcome) -> None:
    for target, told in outcome.found.items():
        if told:
            stdout().print(findings_table(target, told))
        elif outcome.refused is None:
            say(f"{target}: nothing is wrong")
    if outcome.alone or (any(outcome.found.values()) and outcome.refused is not None):
        remark("by the rules alone; the farm also asks the runtimes and tries the model")


def findings_table(target: str, told: Sequence[Finding]) -> Grid:
    """Return what a check found about a target."""
    errors = sum(each.severity is Severity.ERROR for each in told)
    rest = counted(len(told) - errors, "other finding")
    head = f"{target}  {counted(errors, 'error')}, {rest}"
    columns = (
        Column("", head=True),
        Column("code", head=True),
        Column("what", free=True),
        Column("where", free=True),
        Column("what to do", free=True),
    )
    grid = Grid(columns, title=Text(head), framed=True)
    for each in told:
        what = " ".join(part for part in (each.message, each.why) if part)
        severity = Text(str(each.severity), style=_STYLES[each.severity])
        grid.add(severity, each.code, clean(what), clean(each.where), clean(each.fix))
    return grid
