"""``enginefarm pull`` and ``enginefarm verify``: exactly what was signed, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue

from enginefarm.cli.arguments import digest as read_digest
from enginefarm.cli.arguments import refusal
from enginefarm.cli.display import bytes_progress
from enginefarm.cli.figures import size
from enginefarm.cli.output import Json, clean, print_json, remark, say, stderr
from enginefarm.cli.session import connect, settings_of, told_if_interrupted
from enginefarm.client import FarmClient
from enginefarm.digest import hex_of
from enginefarm.errors import VerificationFailed
from enginefarm.install import BlobCache, Installed, require_published, triton, verify_folder
from enginefarm.install import pull as install
from enginefarm.install.host import Fit, Host, fit_of, look_at_host, require_fit
from enginefarm.manifest import EngineConfig
from enginefarm.revocation import LONGEST_REASON
from enginefarm.runtime_cache import Place, none_of_use
from enginefarm.trust import read_trust

Trust = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The trust file: the public keys to verify with."),
]

HostGpu = Annotated[
    str | None,
    typer.Option(metavar="SKU", help="Take the runtime cache for this GPU, and not for mine."),
]
HostDriver = Annotated[
    str | None, typer.Option(metavar="VERSION", help="The driver that is used with that GPU.")
]
_KEPT = "what was fetched is kept, and the next pull goes on from there"
Goal = Annotated[
    Path | None,
    typer.Argument(
        metavar="FOLDER",
        help="Where to put it; absent: engine-<digest>. For triton: the model repository.",
    ),
]


class Layout(StrEnum):
    """How an artifact is laid out on the disk."""

    FOLDER = "folder"
    TRITON = "triton"


@dataclass(frozen=True)
class _Place:
    """Where an artifact goes, and what it must be to go there."""

    folder: Path
    host: Host
    layout: Layout
    model_name: str | None = None
    other_gpu: bool = False

    def accept(self, config: EngineConfig) -> None:
        """Refuse an engine before it is fetched."""
        if not self.other_gpu:
            require_fit(config, self.host)
        if self.layout is Layout.TRITON:
            triton.require_triton(config)
            if config.model_name != self.model_name:
                raise VerificationFailed(
                    "The farm tells another name of the model than was signed.",
                    code="artifact_unexpected",
                    why=f"It says {self.model_name!r}, and {config.model_name!r} was signed.",
                    fix="Do not use it; ask the farm's operator.",
                )


def pull(  # noqa: PLR0913 - one parameter for each option
    ctx: typer.Context,
    digest: Annotated[str, typer.Argument(metavar="DIGEST", help="The artifact's digest.")],
    folder: Goal = None,
    *,
    trust: Trust = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where fetched files are kept.")
    ] = None,
    layout: Annotated[
        Layout,
        typer.Option(metavar="LAYOUT", help="folder: a folder of its own; triton: a Triton model."),
    ] = Layout.FOLDER,
    other_gpu: Annotated[
        bool, typer.Option("--other-gpu", help="Also an engine for another GPU than is here.")
    ] = False,
    host_gpu: HostGpu = None,
    host_driver: HostDriver = None,
    as_json: Json = False,
) -> None:
    """Fetch an artifact by its digest, and verify it."""
    settings, digest = settings_of(ctx), read_digest(digest)
    keys = read_trust(settings.require_trust(trust)).keys
    root = folder or Path(f"engine-{hex_of(digest)[:12]}")
    with connect(ctx) as farm, told_if_interrupted(_KEPT), bytes_progress(stderr()) as told:
        place = _place(farm, digest, root, layout, other_gpu=other_gpu)
        installed = install(
            farm.artifacts,
            digest,
            place.folder,
            keys,
            cache=BlobCache(cache or settings.cache),
            told=told,
            accept=place.accept,
            place=(there := _place_of_caches(place.host, host_gpu, host_driver)),
        )
    _say_if_none(installed, there, host_gpu or host_driver)
    if layout is Layout.TRITON and not triton.write_config(installed):
        remark(f"{installed.folder.parent / triton.CONFIG_FILE} is yours and was kept")
    _print(installed, fit_of(installed.config, place.host), as_json=as_json)


def _say_if_none(installed: Installed, there: Place, named: str | None) -> None:
    """Say why nothing is installed for the machine that was named, if nothing is."""
    why = none_of_use(installed.artifact.manifest.layers, there)
    if named and why is not None:
        remark(f"no runtime cache is of use there: {why}")


def _place_of_caches(host: Host, gpu: str | None, driver: str | None) -> Place:
    """Return the machine that runtime caches are for: this one, but for what is told of another."""
    told = {"gpus": (gpu,)} if gpu else {}
    return host.place.model_copy(update=told | ({"driver": driver} if driver else {}))


def _place(farm: FarmClient, digest: str, root: Path, layout: Layout, *, other_gpu: bool) -> _Place:
    host = look_at_host()
    if layout is Layout.FOLDER:
        return _Place(root, host, layout, other_gpu=other_gpu)
    # Only where it goes: that it is this name which was signed is looked at later.
    name = farm.artifacts.get(digest).model_name
    folder = triton.model_folder(root, name) / triton.VERSION
    return _Place(folder, host, layout, name, other_gpu)


def verify(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that pull has made.")],
    ctx: typer.Context,
    *,
    trust: Trust = None,
    digest: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Also: it must be this artifact.")
    ] = None,
    allow_extra: Annotated[
        bool, typer.Option("--allow-extra", help="Other files may stand beside it.")
    ] = False,
    online: Annotated[
        bool,
        typer.Option("--online", help="Also ask the farm whether it was revoked since."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Tell, offline, whether a folder is what was signed."""
    keys = read_trust(settings_of(ctx).require_trust(trust)).keys
    wanted = None if digest is None else read_digest(digest)
    installed = verify_folder(folder, keys, digest=wanted, allow_extra=allow_extra)
    if online:
        with connect(ctx) as farm:
            require_published(farm.artifacts, installed.artifact.digest)
    _print(installed, as_json=as_json)


def revoke(
    ctx: typer.Context,
    digest: Annotated[str, typer.Argument(metavar="DIGEST", help="The artifact's digest.")],
    *,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why; told to everybody who asks for it.")
    ],
    as_json: Json = False,
) -> None:
    """Take an artifact back for good: nobody is given it any more."""
    why = reason.strip()
    if not 0 < len(why) <= LONGEST_REASON:
        raise refusal("--reason", why, f"'calibrated on the wrong data', up to {LONGEST_REASON}")
    with connect(ctx) as farm:
        told = farm.artifacts.revoke(read_digest(digest), why)
    if as_json:
        print_json(told)
        return
    say(f"{told.digest} revoked: {clean(told.reason)}")
    if told.reason != why:
        remark(f"it was revoked before, on {told.revoked_at:%Y-%m-%d}; that reason stays")
    remark("what is installed stays installed; see it with: enginefarm verify FOLDER --online")


def _print(installed: Installed, fit: Fit | None = None, *, as_json: bool) -> None:
    artifact, config = installed.artifact, installed.config
    if as_json:
        told = _document(installed)
        if fit is not None:
            told["gpu"] = {"fits": fit.fits, "said": fit.said}
        print_json(told)
        return
    say(f"verified  {artifact.digest}")
    say(f"target    {config.target}, {config.backend} {config.backend_version}")
    if fit is not None:
        say(f"GPU       {fit.said}")
    say(f"model     {config.model_name} {config.model}")
    say(f"signed by {artifact.statement.keyid}")
    say(f"builder   {artifact.statement.builder}")
    for each in config.plugins:
        say(f"needs     the plugin {each}: its runtime must have loaded it")
    for layer in artifact.manifest.layers:
        if layer.name not in installed.left_out:
            say(f"  {size(layer.size):>9}  {installed.folder / layer.name}")
    for name, why in installed.left_out.items():
        say(f"left out  {name}: {why}")


def _document(installed: Installed) -> dict[str, JsonValue]:
    artifact = installed.artifact
    return {
        "digest": artifact.digest,
        "folder": str(installed.folder),
        "engine": str(installed.engine),
        "fetched": installed.fetched,
        "keyid": artifact.statement.keyid,
        "builder": artifact.statement.builder,
        "config": installed.config.model_dump(mode="json"),
        "files": [
            {"name": layer.name, "digest": layer.digest, "size": layer.size}
            for layer in artifact.manifest.layers
            if layer.name not in installed.left_out
        ],
        "left_out": dict[str, JsonValue](installed.left_out),
    }
