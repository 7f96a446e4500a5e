"""The main job, shown from end to end: two real models, three targets, one engine fetched by hash.

It does with the client package what a person does with ``enginefarm``, and says the command for
each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from enginefarm.cli.app import invoke
from enginefarm.cli.display import follow
from enginefarm.cli.results import result_lines, result_table
from enginefarm.client import FarmClient
from enginefarm.digest import hex_of
from enginefarm.errors import JobFailed
from enginefarm.install import BlobCache, Installed, pull, verify_folder
from enginefarm.spec import BuildSpec
from enginefarm.state import ArtifactState, Blame, BuildState
from enginefarm.target import Target
from enginefarm.trust import read_trust
from enginefarm.views import BuildView
from localfarm.folder import Folder, read_client_file
from localfarm.models import ShippedModel, shipped
from localfarm.screen import out

MODELS = ("magika", "rapidocr-det")
TARGETS = ("onnxruntime@cpu", "tensorrt-rtx@sm_86", "tensorrt-rtx@sm_89")
PULLED = ("rapidocr-det", "onnxruntime@cpu")


@dataclass(frozen=True)
class Demo:
    """A demonstration on the farm that runs on a folder."""

    folder: Folder

    def run(self) -> None:
        """Build, show, fetch, verify and run.

        Raises:
            JobFailed: a build did not end well.
        """
        known = read_client_file(self.folder)
        with FarmClient(known["url"], known["key"]) as farm:
            submitted = [self._submit(farm, shipped(name)) for name in MODELS]
            builds = [follow(farm, build.id, out) for build in submitted]
            for build in builds:
                out.print(result_table(farm, build))
                for line in result_lines(farm, build):
                    out.print(Text(line, style="dim"))
            installed = self._pull(farm, builds)
        self._verify_and_run(installed)

    def _submit(self, farm: FarmClient, model: ShippedModel) -> BuildView:
        path = model.file()
        targets = " ".join(f"-t {target}" for target in TARGETS)
        _step(f"enginefarm submit {model.name}.onnx {targets}")
        out.print(Text(f"{model.name} from {model.package}, {model.licence}", style="dim"))
        uploaded = farm.models.upload(path, name=model.name)
        spec = BuildSpec(
            model=uploaded.digest,
            targets=[Target.parse(target) for target in TARGETS],
            profiles=[model.profile] if model.profile else [],
            synthetic=model.synthetic,
            labels={"demo": "yes"},
        )
        return farm.builds.submit(spec)[0]

    def _pull(self, farm: FarmClient, builds: list[BuildView]) -> Installed:
        name, wanted = PULLED
        build = next(build for build in builds if build.model_name == name)
        target = next(each for each in build.targets if str(each.target) == wanted)
        for each in builds:
            if each.state is not BuildState.SUCCEEDED:
                raise _not_built(each)
        if target.artifact is None or target.artifact_state is not ArtifactState.PUBLISHED:
            raise _not_built(build)
        _step(f"enginefarm pull {target.artifact}")
        place = self.folder.private("pulled") / hex_of(target.artifact)[:12]
        cache = BlobCache(self.folder.private("cache"))
        keys = read_trust(self.folder.trust_file).keys
        installed = pull(farm.artifacts, target.artifact, place, keys, cache=cache)
        out.print(Text(f"every file is what was signed; installed in {_short(place)}"))
        return installed

    def _verify_and_run(self, installed: Installed) -> None:
        """Trust nothing but the public key from here on; the farm is not asked again."""
        trust = self.folder.trust_file
        shown = _short(installed.folder)
        _step(f"enginefarm verify {shown} --trust {_short(trust)}   (offline)")
        digest = installed.artifact.digest
        verify_folder(installed.folder, read_trust(trust).keys, digest=digest)
        _command("verify", str(installed.folder), "--trust", str(trust), "--digest", digest)
        _step(f"enginefarm run {shown}")
        _command("run", str(installed.folder), "--trust", str(trust))


def _command(*words: str) -> None:
    code = invoke(words)
    if code != 0:
        raise JobFailed(
            f"`enginefarm {words[0]}` ended with exit code {code}.",
            blame=Blame.FARM,
            code="demo_failed",
            fix="What it said stands above.",
        )


def _step(command: str) -> None:
    out.print()
    out.print(Text(f"$ {command}", style="bold cyan"), soft_wrap=True)


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _not_built(build: BuildView) -> JobFailed:
    return JobFailed(
        f"The build of {build.model_name} is {build.state}.",
        blame=Blame.FARM,
        code="demo_failed",
        why="The demo's models build on every machine that the farm supports.",
        fix=f"See why with: enginefarm show {build.id}",
    )
