"""The images are made of files that exist, at the versions that are tested here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.deploy.composition import DOCKERFILES, ROOT, Dockerfile, composition


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: str(path.name))
def test_every_file_that_an_image_copies_exists_and_reaches_the_build(path: Path) -> None:
    allowed = [
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line.startswith("!")
    ]
    for source, _ in Dockerfile(path).copied:
        assert (ROOT / source).exists()
        assert any(Path(source).match(rule) or rule.startswith(f"{source}/") for rule in allowed)


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: str(path.name))
def test_an_image_is_built_from_hashed_requirements_on_a_pinned_base(path: Path) -> None:
    image = Dockerfile(path)
    requirements = next(source for source, _ in image.copied if source.startswith("requirements/"))
    bases = {line.split()[0] for line in image.of("FROM")}

    assert "--hash=sha256:" in (ROOT / requirements).read_text("utf-8")
    assert any("--require-hashes" in line for line in image.of("RUN"))
    assert len(bases) == 1
    assert bases.pop().rpartition(":")[2][0].isdigit()
    assert image.of("USER") == ["enginefarm"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: str(path.name))
def test_every_dockerfile_is_used(path: Path) -> None:
    services = composition()["services"].values()

    assert str(path.relative_to(ROOT)) in {
        service["build"]["dockerfile"] for service in services if "build" in service
    }


def test_the_images_of_nodes_have_no_library_for_database_or_bucket() -> None:
    for name in ("node.txt", "node-gpu.txt"):
        text = (ROOT / "requirements" / name).read_text("utf-8")
        installed = {line.partition("==")[0] for line in text.splitlines() if "==" in line}

        assert installed.isdisjoint({"sqlalchemy", "psycopg", "boto3", "alembic", "fastapi"})


def test_images_run_the_versions_that_are_tested_here() -> None:
    def pins(name: str) -> dict[str, str]:
        lines = (ROOT / "requirements" / name).read_text("utf-8").splitlines()
        pairs = (line.split(" ")[0].partition("==") for line in lines if "==" in line)
        return {package: version for package, _, version in pairs}

    farm = pins("farm.txt")
    for name in ("control.txt", "node.txt", "node-gpu.txt"):
        shared = {key: value for key, value in pins(name).items() if key in farm}

        assert shared == {key: farm[key] for key in shared}


# Refuses to import a module that none of the given distributions installs.
WITH_ONLY = """
import importlib, importlib.metadata, re, sys
locked, modules = set(sys.argv[1].split()), sys.argv[2].split()
plain = lambda name: re.sub("[-_.]+", "-", name).lower()
owners = importlib.metadata.packages_distributions()
class OnlyTheLocked:
    def find_spec(self, name, path=None, target=None):
        owned = {plain(each) for each in owners.get(name.partition(".")[0], ())}
        if owned and not owned & locked and name.partition(".")[0] not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)
sys.meta_path.insert(0, OnlyTheLocked())
for module in modules:
    importlib.import_module(module)
"""
RUN_BY = {
    "Dockerfile.control": "api.__main__ tasks.__main__ tasks.flower storage.__main__"
    " flower.command",
    "Dockerfile.node-cpu": "workers.entry workers.child workers.probe workers.backends.onnxruntime"
    " workers.backends.tensorrt_rtx",
}


@pytest.mark.parametrize("name", RUN_BY)
def test_what_an_image_runs_needs_only_what_its_lock_file_installs(name: str) -> None:
    image = Dockerfile(ROOT / "deploy" / name)
    requirements = next(source for source, _ in image.copied if source.startswith("requirements/"))
    lines = (ROOT / requirements).read_text("utf-8").splitlines()
    locked = {line.partition("==")[0] for line in lines if "==" in line} | {"enginefarm"}
    argv = [sys.executable, "-c", WITH_ONLY, " ".join(locked), RUN_BY[name]]

    done = subprocess.run(argv, cwd=ROOT, capture_output=True, check=False, text=True)

    assert done.returncode == 0, done.stderr
