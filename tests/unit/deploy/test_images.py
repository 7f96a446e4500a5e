"""The images are made of files that exist, at the versions that are tested here."""

from __future__ import annotations

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
