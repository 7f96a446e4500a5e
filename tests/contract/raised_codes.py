"""Read from the source which error codes it can give, by syntax alone.

A code is written where it is given: as ``code="…"``, as the positional argument of a function or
class of ours that has a ``code`` parameter, as a ``default_code``, or as a constant named in one of
these places. What is put together at run time is returned apart, to be told by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PARAMETER = "code"


@dataclass
class Given:
    """The codes of a tree of source files, and the expressions that could not be read.

    ``texts`` has every text constant of the files but for the register's own.
    """

    codes: dict[str, set[str]] = field(default_factory=dict)
    composed: dict[str, set[str]] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)

    def add(self, code: str, place: str) -> None:
        """Note where a code is given."""
        self.codes.setdefault(code, set()).add(place)


@dataclass
class Source:
    """What one look at a file finds: whatever could give a code, and where it would stand."""

    tree: ast.Module
    calls: list[ast.Call] = field(default_factory=list)
    defaults: list[ast.expr] = field(default_factory=list)
    takers: dict[str, int] = field(default_factory=dict)
    """Each function with a positional ``code``, and each class with such a field."""
    texts: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, path: Path) -> Source:
        """Look at each node of a file once: there are a million in all."""
        source = cls(ast.parse(path.read_text()))
        for node in ast.walk(source.tree):
            source._note(node)
        return source

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Constant(value=str(text)):
                self.texts.add(text)
            case ast.Call():
                self.calls.append(node)
            case ast.AnnAssign(target=ast.Name(id="default_code"), value=ast.expr() as value):
                self.defaults.append(value)
            case ast.Assign(targets=[ast.Name(id="default_code")], value=value):
                self.defaults.append(value)
            case ast.FunctionDef(name=name, args=arguments):
                names = [each.arg for each in arguments.args if each.arg not in {"self", "cls"}]
                self._take(name, names)
            case ast.ClassDef(name=name, body=body):
                self._take(
                    name,
                    [
                        each.target.id
                        for each in body
                        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
                    ],
                )

    def _take(self, name: str, names: list[str]) -> None:
        if PARAMETER in names:
            self.takers[name] = names.index(PARAMETER)


def codes_of(files: Iterable[Path], root: Path) -> Given:
    """Return every code that the files can give."""
    sources = {path: Source.of(path) for path in files}
    takers = [taker for source in sources.values() for taker in source.takers.items()]
    public = {name: at for name, at in takers if name[0] != "_"}
    constants = {
        name: value for source in sources.values() for name, value in _constants(source.tree)
    }
    given = Given()
    for path, source in sources.items():
        if path.name != "codes.py":
            given.texts |= source.texts
        # A private name is known in its own file only; two files may use it differently.
        for expression in _expressions(source, public | source.takers):
            place = f"{path.relative_to(root)}:{expression.lineno}"
            _note(given, expression, constants, place)
    return given


def _note(given: Given, node: ast.expr, constants: dict[str, str], place: str) -> None:
    match node:
        case ast.Constant(value=str(code)):
            given.add(code, place)
        case ast.IfExp(body=body, orelse=orelse):
            _note(given, body, constants, place)
            _note(given, orelse, constants, place)
        case ast.BoolOp(values=values):
            for value in values:
                _note(given, value, constants, place)
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in constants:
            given.add(constants[name], place)
        case ast.JoinedStr():
            given.composed.setdefault(ast.unparse(node), set()).add(place)
        case _:
            pass  # A variable: what is in it was given somewhere else.


def _expressions(source: Source, positions: dict[str, int]) -> Iterator[ast.expr]:
    yield from source.defaults
    for call in source.calls:
        yield from (each.value for each in call.keywords if each.arg == PARAMETER)
        at = positions.get(_called(call.func))
        if at is not None and at < len(call.args):
            yield call.args[at]


def _called(func: ast.expr) -> str:
    match func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                yield name, text
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for target, value in zip(names, values, strict=False):
                    match target, value:
                        case ast.Name(id=one), ast.Constant(value=str(text)):
                            yield one, text
