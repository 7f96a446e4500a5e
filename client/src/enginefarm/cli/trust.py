"""``enginefarm trust``: see the farm's public keys, and keep them to verify with.

What comes over the network is not trusted by coming: compare the key ids with the operator's. A
trust file that is already there is only replaced when one says so.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from enginefarm.cli.output import Json, print_json, remark, stdout
from enginefarm.cli.session import connect
from enginefarm.cli.tables import trust_table
from enginefarm.errors import Conflict, VerificationFailed
from enginefarm.trust import read_trust, require_sound
from enginefarm.trust_views import TrustView


def trust(
    ctx: typer.Context,
    *,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the keys in this file.")
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY", help="Refuse any key whose id is not one of these. Repeatable."
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a file that names other keys.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the farm's public keys, and save them."""
    with connect(ctx) as farm:
        view = farm.trust()
        url = farm.url
    require_sound(view.keys, f"what {url} sent")
    _require_expected(view, expect)
    if save is not None:
        _save(view, save, replace=replace)
    if as_json:
        print_json(view)
        return
    stdout().print(trust_table(view.keys))
    if save is not None:
        remark(f"saved to {save}; compare the key ids with the operator's before you trust them")


def _require_expected(view: TrustView, expected: list[str] | None) -> None:
    if expected is None:
        return
    for key in view.keys:
        if key.keyid not in expected:
            raise VerificationFailed(
                f"The farm names a key that was not expected: {key.keyid}.",
                code="key_unexpected",
                why=f"Expected: {', '.join(expected)}.",
                fix="Ask the operator whether the farm has a new key.",
                keyid=key.keyid,
            )


def _save(view: TrustView, path: Path, *, replace: bool) -> None:
    if path.exists() and not replace:
        known = {key.keyid: key for key in read_trust(path).keys}
        changed = [key.keyid for key in view.keys if known.get(key.keyid) != key]
        gone = [keyid for keyid in known if keyid not in {key.keyid for key in view.keys}]
        if changed or gone:
            raise Conflict(
                f"{path} names other keys than the farm does now.",
                code="trust_changed",
                why=f"New or changed: {', '.join(changed) or 'none'}; gone: "
                f"{', '.join(gone) or 'none'}.",
                fix="Compare the key ids with the operator's, then save with --replace.",
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(view.model_dump_json(indent=2) + "\n")
        os.fchmod(handle, 0o644)
    Path(partial).replace(path)
