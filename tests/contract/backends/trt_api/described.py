"""A stand-in for TensorRT's Python module that has a recorded API, and refuses all else.

It builds nothing. A name that the recorded version lacks, an argument too many, of another name or
of another type, a property that cannot be set, a class whose own constructor was not called: each
raises as the real binder would. What was used is noted, so that a test can tell that it was asked.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FOLDER = Path(__file__).parent
VERSIONS = sorted(path.stem for path in FOLDER.glob("*.json"))
_SIGNATURE = re.compile(r"^\w*\((?P<arguments>.*)\) -> (?P<returns>.+)$")
_PLAIN: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "bool": (bool,),
    "Dims": (tuple, list),
    "typing.SupportsInt": (int,),
    "typing.SupportsFloat": (float, int),
}
_BUFFERS = {"buffer", "typing_extensions.Buffer"}
_EMPTY: dict[str, Any] = {"int": 0, "str": "{}", "bool": True, "float": 0.0}
# What a function of the module really returns, where its signature names only the binder's own.
_RETURNED = {"get_plugin_registry": "IPluginRegistry"}
# What the binder's trampolines hand over, where it is not what the signature says.
_HANDED = {"IStreamWriter.write": 1}
Acts = Mapping[str, Callable[..., Any]]


def description(version: str) -> dict[str, Any]:
    """Return the recorded classes of a version."""
    told: dict[str, Any] = json.loads((FOLDER / f"{version}.json").read_text("utf-8"))["classes"]
    return told


class Api:
    """One version's module: ``module`` is what the source is given, ``used`` what it used.

    ``acts`` says what a method does, by ``Class.method``; others return what their type allows.
    """

    def __init__(
        self, version: str, acts: Acts | None = None, classes: Mapping[str, Any] | None = None
    ) -> None:
        """Make a class for each that was recorded, or of these that are described."""
        self.acts, self.used = dict(acts or {}), set[str]()
        self.classes: dict[str, Any] = {}
        functions: dict[str, Any] = {}
        for name, told in (classes or description(version)).items():
            if "function" in told:
                functions[name] = self._function(name, told["function"])
            else:
                self.classes[name] = (
                    enum.IntEnum(name, told["enum"]) if "enum" in told else self._class(name, told)
                )
        self.module: Any = SimpleNamespace(__version__=version, **self.classes, **functions)

    def _function(self, name: str, signatures: list[str]) -> Callable[..., Any]:
        wanted = [each.replace("()", f"(self: {name})", 1) for each in signatures]

        def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - anything is given
            self.used.add(name)
            returns = self._bind(name, wanted, given, named)
            return self._empty(_RETURNED.get(name, returns))

        return call

    def _class(self, name: str, told: dict[str, Any]) -> type:
        body: dict[str, Any] = {
            "__init__": self._constructor(name, told["methods"]["__init__"]),
            "__setattr__": _settable(name, told),
            "__init_subclass__": classmethod(_overriding(name, told)),
        }
        for method, signatures in told["methods"].items():
            if method != "__init__":
                body[method] = self._method(name, method, signatures)
        for attribute, how in told["properties"].items():
            body[attribute] = self._property(name, attribute, how)
        for kind, members in told["enums"].items():
            body[kind] = enum.IntEnum(kind, members)
        return type(name, (), body)

    def _constructor(self, name: str, signatures: list[str]) -> Callable[..., None]:
        def build(this: Any, *given: Any, **named: Any) -> None:  # noqa: ANN401 - anything is given
            self.used.add(name)
            self._bind(f"{name}()", signatures or [f"__init__(self: {name}) -> None"], given, named)
            vars(this)["_made"] = {}

        return build

    def _method(self, name: str, method: str, signatures: list[str]) -> Callable[..., Any]:
        place = f"{name}.{method}"

        def call(this: Any, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - anything is given
            self.used.add(place)
            returns = self._bind(place, signatures, given, named)
            act = self.acts.get(place)
            return self._empty(returns) if act is None else act(this, *given, **named)

        return call

    def _property(self, name: str, attribute: str, how: dict[str, Any]) -> property:
        place, returns = f"{name}.{attribute}", how["get"].rpartition(" -> ")[2]

        def read(this: Any) -> Any:  # noqa: ANN401 - of any type
            self.used.add(place)
            act = self.acts.get(place)
            kept = vars(this)["_made"]
            return kept.get(attribute, self._empty(returns)) if act is None else act(this)

        def write(this: Any, value: Any) -> None:  # noqa: ANN401 - of any type
            self.used.add(place)
            if not self._fits(returns, value):
                raise TypeError(f"{place} takes {returns}, not {value!r}")
            vars(this)["_made"][attribute] = value

        return property(read, write if how["set"] else None)

    def _bind(
        self, place: str, signatures: list[str], given: tuple[Any, ...], named: dict[str, Any]
    ) -> str:
        for signature in signatures:
            returns = self._bound(signature, given, named)
            if returns is not None:
                return returns
        raise TypeError(f"{place} takes {signatures}, not {given} {named}")

    def _bound(self, signature: str, given: tuple[Any, ...], named: dict[str, Any]) -> str | None:
        """Return what an overload returns if the arguments are its own."""
        match = _SIGNATURE.match(signature)
        assert match is not None, signature
        wanted = [part.partition(": ")[::2] for part in _split(match["arguments"]) if ": " in part][
            1:
        ]
        if len(given) > len(wanted):
            return None
        left = dict(named)
        for number, (name, told) in enumerate(wanted):
            kind, _, default = told.partition(" = ")
            if number < len(given):
                fits = name not in left and self._fits(kind, given[number])
            elif name in left:
                fits = self._fits(kind, left.pop(name))
            else:
                fits = bool(default)
            if not fits:
                return None
        return None if left else match["returns"]

    def _fits(self, kind: str, value: Any) -> bool:  # noqa: ANN401 - anything is given
        if kind in _PLAIN:
            return isinstance(value, _PLAIN[kind])
        if kind in _BUFFERS:
            memoryview(value).release()
            return True
        known = self.classes.get(_name(kind))
        if known is None:
            return True
        made = issubclass(known, enum.Enum) or "_made" in getattr(value, "__dict__", {})
        return isinstance(value, known) and made

    def _empty(self, returns: str) -> Any:  # noqa: ANN401 - of any type
        known = self.classes.get(_name(returns))
        if known is None:
            return _EMPTY.get(returns)
        if issubclass(known, enum.Enum):
            return next(iter(known))
        made = known.__new__(known)
        vars(made)["_made"] = {}
        return made


def _name(kind: str) -> str:
    """Return the class that is meant: ``nvonnxparser::IParserError`` is ``ParserError``."""
    plain = kind.rpartition("::")[2]
    return "ParserError" if plain == "IParserError" else plain


def _split(arguments: str) -> list[str]:
    return re.split(r", (?=\w+: )", arguments)


def _settable(name: str, told: dict[str, Any]) -> Callable[..., None]:
    def assign(this: Any, attribute: str, value: Any) -> None:  # noqa: ANN401 - anything is set
        own = type(this).__name__ != name  # a class of ours has attributes of its own
        if attribute not in told["properties"] and not own:
            raise AttributeError(f"{name} has no {attribute}")
        object.__setattr__(this, attribute, value)

    return assign


def _overriding(name: str, told: dict[str, Any]) -> Callable[[Any], None]:
    def check(kind: Any) -> None:  # noqa: ANN401 - a class
        for method, code in vars(kind).items():
            if method.startswith("_") or not callable(code):
                continue
            if method not in told["methods"]:
                raise AttributeError(f"{name} has no {method} to override")
            says = _SIGNATURE.match(told["methods"][method][0])
            assert says is not None
            wanted = _HANDED.get(f"{name}.{method}", len(_split(says["arguments"])) - 1)
            if code.__code__.co_argcount - 1 != wanted:
                raise TypeError(f"{name}.{method} is handed {wanted} arguments")

    return check
