"""Where the farm is, with which key, and whom to trust: from the environment, else from a file.

The file is the nearest ``.farm/client.toml`` upwards that this user owns, else
``~/.config/enginefarm/config.toml``. A key is sent only to the address it stands with: one from a
file goes to no other address than that file's.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from enginefarm.errors import InvalidRequest, VerificationFailed
from enginefarm.nearest import did_you_mean

_FIELDS = ("url", "key", "trust")
LOCAL_FILE = Path(".farm") / "client.toml"


def tell_nobody() -> None:
    """Keep ONNX Runtime, if it is imported from now on, from telling its maker of what it runs.

    Its packages do so by default. Whoever has set the variable is left with what they set.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


@dataclass(frozen=True)
class ClientSettings:
    """What the commands need to know."""

    url: str | None
    key: str | None = field(repr=False)
    trust: Path | None
    cache: Path
    file: Path | None = None
    withheld: str | None = None
    """The address to which the file's key belongs, if that is another and the key stays here."""

    def require_url(self) -> str:
        """Return the farm's address.

        Raises:
            InvalidRequest: none is known (code ``farm_address_missing``).
        """
        if self.url is not None:
            return self.url
        raise InvalidRequest(
            "No farm is known here.",
            code="farm_address_missing",
            why="Neither --url, ENGINEFARM_URL, .farm/client.toml nor ~/.config/enginefarm/"
            "config.toml names one.",
            fix="Ask the operator of yours for its address and a key, and set ENGINEFARM_URL and "
            "ENGINEFARM_KEY, or write url and key into that file. Or start a farm on this machine: "
            "make farm, in the folder of the source, and work in that folder.",
        )

    def require_trust(self, given: Path | None) -> Path:
        """Return the trust file; it is never fetched behind one's back.

        Raises:
            VerificationFailed: none is known (code ``trust_missing``).
        """
        found = given or self.trust
        if found is not None:
            return found
        raise VerificationFailed(
            "No trust file is known here.",
            code="trust_missing",
            why="Without the farm's public keys nothing can be verified.",
            fix="Save them once with: enginefarm trust --save FILE, compare the key ids with the "
            "operator's, and name the file with --trust or ENGINEFARM_TRUST.",
        )


def read_settings(
    url: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> ClientSettings:
    """Read the settings; ``url`` is what the command line names."""
    env = os.environ if environment is None else environment
    home = Path(env["HOME"]) if env.get("HOME") else Path.home()
    path, stored = _stored(folder or Path.cwd(), env, home)
    chosen = url or env.get("ENGINEFARM_URL") or stored.get("url")
    key = env.get("ENGINEFARM_KEY")
    own = chosen is not None and _same(chosen, stored.get("url"))
    if not key and own:
        key = stored.get("key")
    trust = env.get("ENGINEFARM_TRUST") or stored.get("trust")
    cache = env.get("ENGINEFARM_CACHE") or Path(env.get("XDG_CACHE_HOME") or home / ".cache")
    return ClientSettings(
        url=chosen,
        key=key or None,
        trust=Path(trust) if trust else None,
        cache=Path(cache) if isinstance(cache, str) else cache / "enginefarm",
        file=path,
        withheld=stored.get("url", "no address") if stored.get("key") and not own else None,
    )


def wants_traceback() -> bool:
    """Tell whether whoever runs this wants to see where a mistake of ours was made."""
    return bool(os.environ.get("ENGINEFARM_DEBUG"))


def _same(one: str, other: str | None) -> bool:
    return other is not None and one.rstrip("/") == other.rstrip("/")


def _stored(folder: Path, env: Mapping[str, str], home: Path) -> tuple[Path | None, dict[str, str]]:
    for path in _candidates(folder, env, home):
        try:
            # Whoever owns the file chooses where this user's models go.
            if path.stat().st_uid != os.geteuid():
                continue
            text = path.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            continue
        return path, _parse(path, text)
    return None, {}


def _candidates(folder: Path, env: Mapping[str, str], home: Path) -> Iterator[Path]:
    for parent in (folder, *folder.parents):
        yield parent / LOCAL_FILE
    yield Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "enginefarm" / "config.toml"


def _parse(path: Path, text: str) -> dict[str, str]:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _invalid(path, f"{error}.", "Write it as TOML.") from error
    for name, value in values.items():
        if name not in _FIELDS:
            raise _invalid(path, f"There is no setting {name!r}.", did_you_mean(name, _FIELDS))
        if not isinstance(value, str):
            raise _invalid(path, f"{name} is not a text.", "Put it in quotes.")
    if "trust" in values:
        values["trust"] = str(path.parent / Path(values["trust"]).expanduser())
    return values


def _invalid(path: Path, why: str, fix: str) -> InvalidRequest:
    return InvalidRequest(
        f"The settings file {path} cannot be used.",
        code="client_settings_invalid",
        why=why,
        fix=fix,
    )
