"""``enginefarm submit``: send a model if the farm lacks it, and ask for engines of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from pydantic import JsonValue

from enginefarm.cli import arguments, plugin_arguments, trtexec_arguments
from enginefarm.cli import submit_options as options
from enginefarm.cli.check import findings_table
from enginefarm.cli.display import upload_progress
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.cli.gate_arguments import Ifs, judged
from enginefarm.cli.models import send_model, told_name
from enginefarm.cli.output import Json, print_json, remark, say, stderr, stdout
from enginefarm.cli.precision_lines import precision_asked
from enginefarm.cli.search import begin
from enginefarm.cli.search_arguments import (
    AUTO,
    Wanted,
    asked_kind,
    searched,
    space_asked,
    valid_search,
)
from enginefarm.cli.session import connect, settings_of, told_if_interrupted
from enginefarm.cli.tables import plan_table
from enginefarm.cli.watch import watch_to_its_end
from enginefarm.client import FarmClient
from enginefarm.client.catalogue import require_npz
from enginefarm.client.local_model import require_model_file
from enginefarm.finding import Severity
from enginefarm.gate import Tainted, Unmeasured
from enginefarm.plan_views import PlannedTarget
from enginefarm.spec import BuildSpec
from enginefarm.spec_errors import valid_spec
from enginefarm.views import BuildView


def submit(  # noqa: PLR0913, PLR0917 - one parameter for each option
    ctx: typer.Context,
    model: options.Model,
    target: options.Targets,
    profile: options.Profiles = None,
    gate: options.Gates = None,
    if_unmeasured: options.IfUnmeasured = Unmeasured.FAIL,
    if_tainted: options.IfTainted = Tainted.FAIL,
    label: options.Labels = None,
    option: options.Options = None,
    trtexec: options.Trtexec = None,
    fix: options.Fixes = None,
    allow: options.Allowed = None,
    synthetic: options.Synthetic = None,
    evaluation: options.Evaluation = None,
    metric: options.Metric = None,
    precision: options.Kind = "as-is",
    calibration: options.Calibration = None,
    require: options.Required = None,
    prefer: options.Preferred = None,
    budget: options.Budget = None,
    measure_on: options.MeasureOn = None,
    try_profile: options.TryProfiles = None,
    seed: options.Seed = 0,
    name: options.Name = None,
    priority: options.Priority = 5,
    wait_for_node: options.WaitForNode = "0",
    *,
    dry_run: options.DryRun = False,
    explain: options.Explain = False,
    key: options.IdempotencyKey = None,
    watch: options.Watch = False,
    as_json: Json = False,
) -> None:
    """Ask for engines of a model."""
    more, space = _rewritten(option or [], fix, allow, precision, measure_on)
    asked = _built(target, profile, more, trtexec) | _when(label, seed, priority, wait_for_node)
    asked |= judged(gate or [], Ifs(if_unmeasured, if_tainted), metric, synthetic or [])
    files, way = (model, name, evaluation, calibration), _Way(dry_run, explain, key, watch, as_json)
    _send(ctx, asked, Wanted(space, require, budget, prefer, try_profile), files, way)


@dataclass(frozen=True)
class _Files:
    """What is sent, each a file or the digest of what the farm has."""

    model: str
    name: str | None
    evaluation: str | None
    calibration: str | None


@dataclass(frozen=True)
class _Way:
    """How it is asked for, and what is told."""

    dry_run: bool
    explain: bool
    key: str | None
    watch: bool
    as_json: bool


def _send(
    ctx: typer.Context,
    asked: dict[str, JsonValue],
    wanted: Wanted,
    sent: tuple[str, str | None, str | None, str | None],
    way: _Way,
) -> None:
    search = searched(wanted, plan=way.dry_run or way.explain)
    files = _Files(*sent)
    _refuse_early(asked, search, files.model, [files.evaluation, files.calibration])
    with connect(ctx) as farm:
        asked |= _sent(farm, files.model, files.name, files.evaluation, settings_of(ctx).cache)
        if search is not None:
            return _search(farm, asked, search, files.calibration, way)
        spec = valid_spec(asked | _calibrated(farm, asked, files.calibration))
        if way.dry_run or way.explain:
            return _plan(farm, spec, explain=way.explain, as_json=way.as_json)
        return _ask(farm, spec, way.key, watch=way.watch, as_json=way.as_json)


def _search(
    farm: FarmClient,
    asked: dict[str, JsonValue],
    search: dict[str, JsonValue],
    calibration: str | None,
    way: _Way,
) -> None:
    with told_if_interrupted("no search was begun"):
        data = _dataset(farm, calibration)
    spec = valid_search({"build": asked, "calibration": data} | search)
    begin(farm, spec, way.key, as_json=way.as_json)


def _built(
    target: list[str],
    profile: list[str] | None,
    more: dict[str, JsonValue],
    trtexec: list[str] | None,
) -> dict[str, JsonValue]:
    named: dict[str, JsonValue] = {
        "targets": [str(each) for each in arguments.targets(target)],
        "profiles": arguments.plain_profiles(arguments.profiles(profile or [])),
    }
    return trtexec_arguments.added(named | more, trtexec or [])


def _when(labels: list[str] | None, seed: int, priority: int, wait: str) -> dict[str, JsonValue]:
    return {
        "labels": dict[str, JsonValue](arguments.labels(labels or [])),
        "seed": seed,
        "priority": priority,
        "wait_for_node": arguments.seconds(wait),
    }


def _rewritten(
    option: list[str],
    fix: list[str] | None,
    allow: list[str] | None,
    kind: str,
    skus: list[str] | None,
) -> tuple[dict[str, JsonValue], JsonValue]:
    """Return options by stage, precision and SKUs, and the space of a search if one is asked for.

    What is finer stands among the options.
    """
    given = plugin_arguments.in_options(arguments.options(option))
    finer = given.pop("precision", {})
    rewritten: dict[str, JsonValue] = {"options": arguments.repairs(given, fix or [], allow or [])}
    rewritten["measure_on"] = list[JsonValue](skus or [])
    if kind == AUTO:
        return rewritten, space_asked(finer)
    return rewritten | {"precision": precision_asked(asked_kind(kind), finer)}, None


def _calibrated(
    farm: FarmClient, asked: dict[str, JsonValue], calibration: str | None
) -> dict[str, JsonValue]:
    """Return the precision with the digest of its calibration data, which is sent if need be."""
    precision = asked["precision"]
    if calibration is None or not isinstance(precision, dict):
        return {}
    with told_if_interrupted("nothing was asked for, and no build was made"):
        return {"precision": {**precision, "calibration": _dataset(farm, calibration)}}


def _refuse_early(
    asked: dict[str, JsonValue],
    search: dict[str, JsonValue] | None,
    model: str,
    datasets: Sequence[str | None],
) -> None:
    """Tell what is misspelt, and which file is not here, before a long upload and not after."""
    build: dict[str, JsonValue] = {"model": f"sha256:{'0' * 64}", **asked}
    valid_spec(build) if search is None else valid_search({"build": build} | search)
    for dataset in datasets:
        if dataset is not None and not arguments.is_reference(dataset):
            require_npz(Path(dataset))
    if not arguments.is_reference(model):
        require_model_file(Path(model))


def _sent(
    farm: FarmClient, model: str, name: str | None, evaluation: str | None, cache: Path
) -> dict[str, JsonValue]:
    with told_if_interrupted("nothing was asked for, and no build was made"):
        sent = _model(farm, model, name, cache)
        return {"model": sent, "evaluation": _dataset(farm, evaluation)}


def _model(farm: FarmClient, text: str, name: str | None, cache: Path) -> str:
    if arguments.is_reference(text):
        if name is not None:
            remark("--name is not used: the farm has the model, under the name that it was sent by")
        return arguments.digest(text)
    view = send_model(farm, Path(text), name, cache)
    remark(f"model {view.name} {view.digest}" + (" (the farm has it already)" * view.existed))
    told_name(view, name)
    return view.digest


def _dataset(farm: FarmClient, text: str | None) -> str | None:
    if text is None or arguments.is_reference(text):
        return None if text is None else arguments.digest(text)
    with upload_progress(stderr(), Path(text).name) as sent:
        return farm.datasets.upload(Path(text), sent=sent).digest


def _plan(farm: FarmClient, spec: BuildSpec, *, explain: bool, as_json: bool) -> None:
    plan = farm.builds.plan(spec, explain=explain)
    if as_json:
        print_json(plan)
    else:
        stdout().print(plan_table(plan))
        if plan.calibration:
            stdout().print(findings_table("calibration data", plan.calibration))
        for target in plan.targets:
            _tell_findings(target)
    if any(row.severity is Severity.ERROR for row in plan.calibration or ()):
        raise typer.Exit(ExitCode.BAD_INPUT)


def _tell_findings(planned: PlannedTarget) -> None:
    """Tell what the check found of a target, if it has been checked as it would be now."""
    if planned.findings is None:
        remark(f"{planned.target}: not checked yet as it would be; see: enginefarm check")
    elif planned.findings:
        stdout().print(findings_table(str(planned.target), planned.findings))
    else:
        say(f"{planned.target}: checked before, nothing was found")


def _ask(farm: FarmClient, spec: BuildSpec, key: str | None, *, watch: bool, as_json: bool) -> None:
    with told_if_interrupted("the build may have been asked for; see: enginefarm list"):
        build, existed = farm.builds.submit(spec, key)
    if watch:
        remark(f"build {build.id}")
        watch_to_its_end(farm, build.id, as_json=as_json)
    _accepted(build, existed=existed, as_json=as_json)


def _accepted(build: BuildView, *, existed: bool, as_json: bool) -> None:
    if as_json:
        print_json(build)
        return
    say(build.id)
    remark("this key had asked for it before" if existed else f"{build.state}")
    remark(f"watch it with: enginefarm watch {build.id}")
