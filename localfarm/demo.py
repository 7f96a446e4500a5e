"""The main job, shown from end to end: two real models, three targets, one engine fetched by hash.

It runs the commands that a person would run, in the words that it prints: each can be pasted.
"""

from __future__ import annotations

import secrets
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from enginefarm.client import FarmClient
from enginefarm.digest import hex_of
from enginefarm.errors import JobFailed
from enginefarm.profile_text import as_flags
from enginefarm.spec import SyntheticInput
from enginefarm.state import ArtifactState, Blame
from enginefarm.target import Target
from localfarm.folder import Folder, read_client_file
from localfarm.models import ShippedModel, repair_words, shipped
from localfarm.screen import out, say, short
from localfarm.settings import PREFIX, inherited_environment

MODELS = ("magika", "rapidocr-det")
TARGETS = ("onnxruntime@cpu", "tensorrt-rtx@sm_86", "tensorrt-rtx@sm_89")
PULLED = ("rapidocr-det", "onnxruntime@cpu")
NEXT = """\
That is all of it. Next: `make farm` keeps a farm running, with its API described under /docs and
its nodes and queues in Flower; the README's five minutes go on from there with your own model."""

Run = Callable[[Sequence[str]], int]


@dataclass(frozen=True)
class Demo:
    """A demonstration on the farm that runs on a folder."""

    folder: Folder
    run_command: Run | None = None

    def run(self) -> None:
        """Build, show, fetch, verify and run.

        Raises:
            JobFailed: a step did not end well.
        """
        if not _finds(self.folder, Path.cwd()):
            say(f"elsewhere than here these commands need what {self.folder.client_file} says")
        mark = secrets.token_hex(4)
        for name in MODELS:
            model = shipped(name)
            out.print()
            say(f"{model.name}, {model.licence}, from {model.package}")
            self._step(submit_words(model, mark))
        digest = self._digest(mark)
        place = short(self.folder.private("pulled") / hex_of(digest)[:12])
        out.print()
        self._step(["pull", digest, place])
        out.print()
        say("with the public key alone, and without asking the farm:")
        self._step(["verify", place, "--trust", short(self.folder.trust_file)])
        out.print()
        self._step(["run", place])
        out.print()
        say(NEXT)

    def _step(self, words: Sequence[str]) -> None:
        """Say a command, run it, and end the demo where it fails."""
        argv = [program(), *words]
        out.print(Text(f"$ {shlex.join(argv)}", style="bold cyan"), soft_wrap=True)
        code = (self.run_command or self._as_a_person)(argv)
        if code != 0:
            raise JobFailed(
                f"`enginefarm {words[0]}` ended with exit code {code}.",
                blame=Blame.FARM,
                code="demo_failed",
                fix="What it said stands above.",
            )

    def _as_a_person(self, argv: Sequence[str]) -> int:
        known = read_client_file(self.folder)
        told = {PREFIX + name.upper(): value for name, value in known.items()}
        own_cache = {f"{PREFIX}CACHE": str(self.folder.private("cache"))}
        environment = inherited_environment() | told | own_cache
        return subprocess.run(argv, env=environment, check=False).returncode

    def _digest(self, mark: str) -> str:
        """Return the digest of the artifact that is fetched."""
        name, wanted = PULLED
        known = read_client_file(self.folder)
        with FarmClient(known["url"], known["key"]) as farm:
            page = farm.builds.page(labels={"demo": mark})
        build = next(build for build in page.items if build.model_name == name)
        target = next(each for each in build.targets if each.target == Target.parse(wanted))
        if target.artifact is None or target.artifact_state is not ArtifactState.PUBLISHED:
            raise JobFailed(
                f"The build of {name} for {wanted} is {target.state}.",
                blame=Blame.FARM,
                code="demo_failed",
                why="The demo's models build on every machine that the farm supports.",
                fix=f"See why with: {program()} show {build.id}",
            )
        return target.artifact


def submit_words(model: ShippedModel, mark: str) -> list[str]:
    """Return the words after ``enginefarm`` that build a model for all targets of the demo."""
    words = ["submit", short(model.file()), "--name", model.name]
    for target in TARGETS:
        words += ["-t", target]
    if model.profile:
        words += shlex.split(as_flags(model.profile))
    for name, wanted in model.synthetic.items():
        words += ["--synthetic", f"{name}={_values(wanted)}"]
    words += [part for row in repair_words(model.repair) for part in row.split()]
    return [*words, "--label", f"demo={mark}", "--watch"]


def program() -> str:
    """Return the command as it can be typed here, whether or not the environment is activated."""
    return short(Path(sys.executable).with_name("enginefarm"))


def _values(wanted: SyntheticInput) -> str:
    if wanted.value is not None:
        return f"{wanted.value:g}"
    return f"{wanted.low:g}:{wanted.high:g}"


def _finds(folder: Folder, here: Path) -> bool:
    """Tell whether ``enginefarm`` finds the farm by itself from ``here``."""
    return folder.client_file in [each / ".farm" / "client.toml" for each in (here, *here.parents)]
