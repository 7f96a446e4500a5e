"""docker-compose.yml and the Dockerfiles as data, read the way Compose and Docker read them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILES = sorted((ROOT / "deploy").glob("Dockerfile.*"))
_VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(?::([?-])([^}]*))?\}")


def variables(text: str) -> dict[str, str | None]:
    """Return each variable of a Compose file and its default; None where one must be given."""
    return {
        name: default if kind == "-" else None for name, kind, default in _VARIABLE.findall(text)
    }


def interpolated(text: str, values: dict[str, str]) -> str:
    """Put values for variables as Compose does; a required one that is empty is an error."""

    def value(match: re.Match[str]) -> str:
        name, kind, rest = match.groups()
        given = values.get(name, "")
        if given or kind is None:
            return given
        if kind == "?":
            raise KeyError(f"{name}: {rest}")
        return str(rest)

    return _VARIABLE.sub(value, text).replace("$$", "$")


def example_values() -> dict[str, str]:
    """Return a value for every variable of the example environment."""
    lines = (ROOT / "deploy" / "example.env").read_text("utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value or f"example-{name.lower()}" for name, _, value in pairs}


def composition() -> dict[str, Any]:
    """Return the Compose file with the example's values, anchors and merges resolved."""
    read: dict[str, Any] = yaml.safe_load(
        interpolated(COMPOSE.read_text("utf-8"), example_values())
    )
    return read


def arguments(command: str | list[str]) -> list[list[str]]:
    """Return the programs that a command or health check runs, each with its arguments."""
    words = shlex.split(command) if isinstance(command, str) else list(command)
    if words[0] in {"CMD", "CMD-SHELL"}:
        shell = words[0] == "CMD-SHELL"
        words = words[1:]
        if shell:
            words = ["sh", "-c", words[0]]
    if words[:2] == ["sh", "-c"]:
        return [shlex.split(part) for part in re.split(r"&&|\|", words[2])]
    return [words]


@dataclass(frozen=True)
class Dockerfile:
    """What an image is made of."""

    path: Path

    @property
    def instructions(self) -> list[tuple[str, str]]:
        """Return the instructions, continued lines joined."""
        text = self.path.read_text("utf-8").replace("\\\n", " ")
        lines = (line for line in text.splitlines() if line and not line.startswith("#"))
        return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]

    def of(self, name: str) -> list[str]:
        """Return what stands after each instruction of that name."""
        return [rest for known, rest in self.instructions if known == name]

    @property
    def copied(self) -> list[tuple[str, str]]:
        """Return source and destination of every file taken from the repository."""
        lines = [line.split() for line in self.of("COPY") if not line.startswith("--from")]
        return [(source, target) for source, target in lines]

    @property
    def environment(self) -> dict[str, str]:
        """Return what ENV sets."""
        pairs = (pair.partition("=") for line in self.of("ENV") for pair in shlex.split(line))
        return {name: value for name, _, value in pairs}
