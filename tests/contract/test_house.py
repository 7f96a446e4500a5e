"""The rules of this house that no other tool holds, each with its reason and its exceptions.

Each test names the places that break its rule. An exception is written here, with why.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE_LINES = 300
FUNCTION_LINES = 40

# A migration that was applied somewhere is a record: it is never rewritten, not even to be shorter.
RECORDS = "migrations/versions/"

VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc"}

# Who may read the environment. Everybody else is given what a settings module has read.
ENVIRONMENT = {
    "client/src/enginefarm/cli/settings.py": "the settings of the command line",
    "localfarm/settings.py": "the settings of the local farm, and what its children inherit",
    "tasks/fault_points.py": "asks whether a test wants the process to die; nobody else may",
    "workers/settings.py": "the settings of a node, and what a job's child may see",
    "tests/conftest.py": "keeps every client in the tests from reading certificates",
    "tests/contract/backends/nursery.py": "is the child that would have been started with its own",
    "tests/contract/test_migrations.py": "composes the environment of alembic's own command",
    "tests/e2e/conftest.py": "composes the environment of the farm and of the command line",
    "tests/e2e/test_localfarm.py": "composes the environment of the local farm",
    "tests/integration/api/test_process.py": "composes the environment of the API's process",
    "tests/integration/tasks/test_main.py": "composes the environment of the control loops",
    "tests/integration/workers/test_node_process.py": "composes the environment of a node",
    "tests/unit/client/conftest.py": "takes the person's own settings away from the tests",
}
_ENVIRONMENT_NAMES = {"environ", "environb", "getenv", "putenv", "unsetenv"}

# From where packages and images come is for each machine to say, in pip's and Docker's own
# settings; a host that is written here would go around its mirror.
_REGISTRIES = re.compile(
    r"pypi\.org|pythonhosted\.org|pypi\.nvidia\.com|download\.pytorch\.org|anaconda\.org"
    r"|npmjs\.org|huggingface\.co|docker\.io|ghcr\.io|quay\.io|nvcr\.io|gcr\.io|mcr\.microsoft\.com"
)


@cache
def _tracked() -> tuple[str, ...]:
    """Return the files that git knows, from the root."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: which files are the house's own is not known")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return tuple(name for name in listed.stdout.decode().split("\0") if (ROOT / name).is_file())


def _sources() -> list[str]:
    return [name for name in _tracked() if name.endswith(".py")]


@dataclass
class _Seen:
    """What the rules ask of a source file. To keep a thousand trees would cost more than it."""

    silent: bool
    reads_environment: bool
    functions: list[tuple[int, str, int]] = field(default_factory=list)
    """Where each begins, its name, and its lines from ``def`` to the end, docstring and all."""
    dropped: list[int] = field(default_factory=list)
    """Where an error is caught and nothing is done."""


@cache
def _seen() -> dict[str, _Seen]:
    return {name: _look((ROOT / name).read_text("utf-8"), name) for name in _sources()}


def _look(text: str, name: str) -> _Seen:
    tree = ast.parse(text, name)
    # To look at each expression is most of the work, and few files have a word of it.
    asks = any(word in text for word in _ENVIRONMENT_NAMES)
    seen = _Seen(not ast.get_docstring(tree), asks and any(map(_is_environment, ast.walk(tree))))
    for node in _statements(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                lines = (node.end_lineno or 0) - node.lineno + 1
                seen.functions.append((node.lineno, node.name, lines))
            case ast.ExceptHandler(body=body):
                if all(isinstance(each, ast.Pass) or _is_ellipsis(each) for each in body):
                    seen.dropped.append(node.lineno)
    return seen


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield node
            yield from _statements(node)


def _is_environment(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="os"), attr=word):
            return word in _ENVIRONMENT_NAMES
        case ast.ImportFrom(module="os", names=names):
            return any(each.name in _ENVIRONMENT_NAMES for each in names)
        case _:
            return False


def _told(rule: str, offenders: Iterable[str]) -> str:
    return "\n  ".join([f"{rule}:", *offenders])


def test_the_rules_look_at_every_room() -> None:
    rooms = {name.partition("/")[0] for name in _sources()}

    assert rooms >= {"api", "bench", "client", "localfarm", "migrations", "storage"}
    assert rooms >= {"tasks", "tests", "workers"}


def test_no_file_is_longer_than_one_reads_in_a_sitting() -> None:
    lengths = {name: len((ROOT / name).read_text().splitlines()) for name in _sources()}
    long = [
        f"{name}: {lines} lines"
        for name, lines in lengths.items()
        if lines > FILE_LINES and not name.startswith(RECORDS)
    ]

    assert not long, _told(f"split by purpose; a file has at most {FILE_LINES} lines", long)


def test_no_function_is_longer_than_a_screen() -> None:
    """A docstring counts: what needs a long one does too much for one name."""
    long = [
        f"{name}:{at} {function}: {lines} lines"
        for name, seen in _seen().items()
        for at, function, lines in seen.functions
        if lines > FUNCTION_LINES and not name.startswith(RECORDS)
    ]

    assert not long, _told(f"take a part out and name it; at most {FUNCTION_LINES} lines", long)


def test_every_module_says_what_it_is() -> None:
    silent = [name for name, seen in _seen().items() if seen.silent]

    assert not silent, _told("open with what it is and which rules it keeps", silent)


def test_no_module_has_a_name_that_could_hold_anything() -> None:
    vague = [
        name
        for name in _sources()
        if any(VAGUE & set(part.split("_")) for part in Path(name).with_suffix("").parts)
    ]

    assert not vague, _told("name it after the one thing in it", vague)


def test_only_settings_read_the_environment() -> None:
    reading = {name for name, seen in _seen().items() if seen.reads_environment}

    others = sorted(reading - ENVIRONMENT.keys())
    needless = sorted(ENVIRONMENT.keys() - reading)
    assert not others, _told("take it from a settings module", others)
    assert not needless, _told("no longer an exception; take it off the list", needless)


def test_no_registry_is_named() -> None:
    named = []
    for name in _tracked():
        try:
            lines = (ROOT / name).read_text("utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        named += [
            f"{name}:{number} {found[0]}"
            for number, line in enumerate(lines, 1)
            if (found := _REGISTRIES.search(line))
        ]

    assert not named, _told("leave it to the machine's own settings", named)


def test_no_error_is_dropped_without_a_word() -> None:
    """``contextlib.suppress`` with the reason, or a return, says that it is meant."""
    dropped = [f"{name}:{at}" for name, seen in _seen().items() for at in seen.dropped]

    assert not dropped, _told("use contextlib.suppress and say why, or return", dropped)


def _is_ellipsis(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant(value=value)):
            return value is ...
        case _:
            return False
