"""Whether the plugins that a build names make sense, and which live nodes have them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from enginefarm.errors import InvalidRequest, NotServed
from enginefarm.plugins import REFERENCE, TAKES_PLUGINS, Named, needed, require_takes_plugins
from enginefarm.state import Stage
from tasks.routing import APART, lacking, plugins_of

if TYPE_CHECKING:
    from enginefarm.spec import BuildSpec
    from enginefarm.target import Target
    from tasks.plan import LiveNode

_SHOWN = 5


def check_plugins(spec: BuildSpec) -> None:
    """Refuse plugins that nothing of a build would load, and what cannot load those it needs.

    Raises:
        InvalidRequest: ``plugin_backend``, ``plugin_unused``, ``plugin_precision``,
            ``plugin_serialize``.
    """
    backends = {target.backend for target in spec.targets}
    for backend in sorted(spec.options.plugins):
        require_takes_plugins(backend)
        if backend != REFERENCE and backend not in backends:
            raise InvalidRequest(
                f"Plugins for {backend} are named, and no target is of it.",
                code="plugin_unused",
                why=_of_others(backends),
                fix=f"Leave options.plugins.{backend} out, or add such a target.",
            )
    _check_precision(spec)
    if spec.options.compile.serialize_plugins and not spec.options.plugins.get("tensorrt"):
        raise InvalidRequest(
            "Plugins shall lie in the engine, and none is named for tensorrt.",
            code="plugin_serialize",
            why="options.compile.serialize_plugins puts those of options.plugins.tensorrt there.",
            fix="Name them by digest, or leave serialize_plugins out.",
        )


def _of_others(backends: set[str]) -> str:
    deaf = " or ".join(sorted(backends - set(TAKES_PLUGINS)))
    why = f"The targets are of {', '.join(sorted(backends))}"
    return f"{why}; no plugin is loaded by {deaf}." if deaf else f"{why}."


def _check_precision(spec: BuildSpec) -> None:
    """A precision is made by running the model, which a tool must be able to do."""
    if spec.precision.stage is None or not spec.options.plugins:
        return
    if spec.precision.maker in APART:
        raise InvalidRequest(
            f"{spec.precision.maker} cannot change the precision of a model that needs plugins.",
            code="plugin_precision",
            why="It runs the model in an environment of its own, into which no plugin is loaded.",
            fix="Choose a precision that ONNX Runtime's tool makes, or build the model as it is.",
        )
    if REFERENCE not in spec.options.plugins:
        raise InvalidRequest(
            f"A model in {spec.precision.kind} cannot be made without its operators.",
            code="plugin_precision",
            why=f"A precision is made with {REFERENCE}, for which no plugin is named.",
            fix=f"Name the same operators' library for {REFERENCE}, or build the model as it is.",
        )


def plugins_loaded(recipes: Iterable[dict[str, Any] | None]) -> dict[str, list[str]]:
    """Return every library that any of these stages has loaded, by its backend."""
    found: dict[str, set[str]] = {}
    for recipe in recipes:
        for backend, digests in plugins_of(recipe).items():
            found.setdefault(backend, set()).update(digests)
    return {backend: sorted(found[backend]) for backend in sorted(found)}


def having(
    nodes: Sequence[LiveNode], stage: Stage, target: Target, plugins: Named
) -> Sequence[LiveNode]:
    """Return the nodes that have all plugins that a stage on a target needs."""
    wanted = needed(stage, target, plugins)
    return [row for row in nodes if not lacking(row.description, wanted)] if wanted else nodes


def nobody_has(target: Target, plugins: Named, nodes: Sequence[LiveNode]) -> NotServed:
    """Return the refusal of a build whose plugins no live node that builds the target has."""
    wanted = needed(Stage.CHECK, target, plugins)
    missing = sorted({each for each in _all(wanted) if _holders(each, nodes) == []})
    if missing:
        why = f"No live node has {_listed(missing)}; {_there(wanted, nodes)}."
    else:
        holders = (f"{each} is on {', '.join(_holders(each, nodes))}" for each in _all(wanted))
        why = f"No one live node that builds the target has all of them: {'; '.join(holders)}."
    return NotServed(
        f"Nobody can build {target} with the plugins that are named.",
        code="plugin_not_served",
        why=why,
        fix="Name plugins by the digests that `enginefarm plugins` lists, have the operator install"
        " them on nodes, or set wait_for_node.",
        target=str(target),
        plugins=list[JsonValue](missing or _all(wanted)),
    )


def _all(wanted: Mapping[str, Sequence[str]]) -> list[str]:
    return [digest for digests in wanted.values() for digest in digests]


def _holders(digest: str, nodes: Sequence[LiveNode]) -> list[str]:
    return sorted(
        node.name
        for node in nodes
        if any(each.digest == digest for row in node.description.backends for each in row.plugins)
    )


def _there(wanted: Named, nodes: Sequence[LiveNode]) -> str:
    found = sorted(
        {
            f"{each.name} {each.digest} ({row.name})"
            for node in nodes
            for row in node.description.backends
            if row.name in wanted
            for each in row.plugins
        }
    )
    return f"they have {_listed(found)}" if found else "they have no plugin at all"


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
