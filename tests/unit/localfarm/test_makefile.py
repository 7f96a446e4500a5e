"""What `make` does before anything is installed: with other Pythons, with a farm, with nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).resolve().parents[3] / "Makefile"
VENV_STAMP = ".venv/.stamp-venv"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder that has only the Makefile."""
    shutil.copy(MAKEFILE, tmp_path)
    return tmp_path


def make(clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run make there."""
    return subprocess.run(
        ["make", *words],  # noqa: S607 - the make that runs these tests
        cwd=clone,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def script(path: Path, text: str) -> Path:
    """Write a shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def interpreter(path: Path, version: str, *, accepted: bool = True) -> Path:
    """Write a Python that says which it is, and can make an environment of itself."""
    return script(
        path,
        f"""case "$*" in
  *sys.exit*) exit {0 if accepted else 1} ;;
  *sys.implementation*) echo "cpython {version}" ;;
  "-m venv "*) mkdir -p $3/bin; cp "$0" $3/bin/python ;;
  "-V") echo "Python {version}" ;;
esac""",
    )


@pytest.mark.parametrize("target", ["stop", "status", "clean"])
def test_in_a_fresh_clone_there_is_nothing_to_end_and_nothing_is_installed(
    clone: Path, target: str
) -> None:
    done = make(clone, target)

    assert done.returncode == 0, done.stderr
    assert "nothing" in done.stdout
    assert [path.name for path in clone.iterdir()] == ["Makefile"]


def farm_in(clone: Path, stop_status: int) -> Path:
    """Pretend that a farm was set up; return where its commands are written down."""
    said = clone / "said"
    script(
        clone / ".venv/bin/python",
        f'[ "$1" = -c ] && echo me || {{ echo "$*" >> {said}; exit {stop_status}; }}',
    )
    (clone / ".venv/.stamp-farm").touch()
    (clone / ".farm").mkdir()
    return said


def test_clean_ends_the_farm_before_its_data_goes(clone: Path) -> None:
    said = farm_in(clone, stop_status=0)

    done = make(clone, "clean")

    assert done.returncode == 0, done.stderr
    assert said.read_text().strip() == "-m localfarm stop"
    assert not (clone / ".farm").exists()
    assert "removed" in done.stdout


def test_data_of_a_farm_that_does_not_end_stays(clone: Path) -> None:
    farm_in(clone, stop_status=1)

    assert make(clone, "clean").returncode != 0
    assert (clone / ".farm").is_dir()
    assert (clone / ".venv").is_dir()


def test_another_python_makes_another_environment(clone: Path) -> None:
    first = interpreter(clone / "python-a", "3 11 7")
    other = interpreter(clone / "python-b", "3 13 0")
    make(clone, f"PYTHON={first}", VENV_STAMP)
    left = clone / ".venv" / "left-by-the-first"
    left.touch()

    again = make(clone, f"PYTHON={first}", VENV_STAMP)
    assert left.exists(), again.stdout
    assert make(clone, VENV_STAMP).returncode == 0
    assert left.exists()  # without a word about Python, what is there stays

    changed = make(clone, f"PYTHON={other}", VENV_STAMP)
    assert changed.returncode == 0, changed.stderr
    assert not left.exists()
    assert "3 13 0" in (clone / ".venv/bin/python").read_text()


def test_an_environment_that_does_not_run_is_made_again(clone: Path) -> None:
    script(clone / ".venv/bin/python", "exit 127")
    (clone / VENV_STAMP).touch()

    done = make(clone, f"PYTHON={interpreter(clone / 'python-a', '3 12 1')}", VENV_STAMP)

    assert done.returncode == 0, done.stderr
    assert "3 12 1" in (clone / ".venv/bin/python").read_text()


def test_a_python_that_is_not_supported_is_refused_and_nothing_is_lost(clone: Path) -> None:
    make(clone, f"PYTHON={interpreter(clone / 'python-a', '3 11 7')}", VENV_STAMP)
    old = interpreter(clone / "python-b", "3 9 1", accepted=False)

    refused = make(clone, f"PYTHON={old}", VENV_STAMP)

    assert refused.returncode != 0
    assert "3.11, 3.12 and 3.13" in refused.stderr
    assert (clone / VENV_STAMP).exists()


def test_the_farm_needs_no_models(clone: Path) -> None:
    for name in ("requirements/farm.txt", "requirements/models.txt", "client/pyproject.toml"):
        (clone / name).parent.mkdir(exist_ok=True)
        (clone / name).touch()

    assert "models.txt" not in make(clone, "-n", "farm").stdout
    assert "models.txt" in make(clone, "-n", "demo").stdout
