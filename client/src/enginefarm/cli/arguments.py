"""Read what a person writes on the command line into a spec: profiles, labels, options.

Nothing is guessed: what does not fit is refused with the way to write it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from enginefarm.digest import require_digest
from enginefarm.errors import InvalidRequest
from enginefarm.profile import parse_shape_range
from enginefarm.spec import (
    FixedInput,
    Profile,
    RepairMode,
    RepairOptions,
    ShapeRange,
    SyntheticInput,
)
from enginefarm.spec_errors import explain
from enginefarm.target import Target

_DURATION = re.compile(r"^(?P<count>\d+)(?P<unit>[smhd]?)$")
_BARE = re.compile(r"^[0-9a-fA-F]{64}$")
_LISTS = frozenset({"benchmark.batches", "benchmark.streams"})
"""Options that take several values, with commas between them."""
_SHAPES = "benchmark.shapes"
"""The option that takes a shape for each input, as ``x=1x3x320x480,y=1x4``."""
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
Value = TypeVar("Value")


def targets(texts: Iterable[str]) -> list[Target]:
    """Read ``backend@arch``, several also in one text, separated by commas."""
    read: list[Target] = []
    for text in texts:
        for part in text.split(","):
            target = Target.parse(part.strip())
            if target in read:
                raise _twice("--target", str(target))
            read.append(target)
    return read


def profiles(texts: Iterable[str], flag: str = "--profile") -> list[Profile]:
    """Read ``name=min:opt:max``, several inputs separated by commas or in texts of their own.

    An input that is named again begins the next profile.
    """
    read: list[dict[str, ShapeRange]] = []
    for text in texts:
        for part in text.split(","):
            name, equals, shapes = part.strip().rpartition("=")
            if not equals or not name:
                raise refusal(flag, part, "x=1x3x160x160:1x3x320x480:4x3x960x960")
            if not read or name in read[-1]:
                read.append({})
            read[-1][name] = parse_shape_range(shapes)
    return list(read)


def plain_profiles(profiles: Iterable[Profile]) -> JsonValue:
    """Return profiles as they stand in a body."""
    return [
        {name: shapes.model_dump(mode="json") for name, shapes in profile.items()}
        for profile in profiles
    ]


def labels(texts: Iterable[str]) -> dict[str, str]:
    """Read ``key=value``."""
    return dict(_pairs("--label", texts, "team=vision", str))


def options(texts: Iterable[str]) -> dict[str, JsonValue]:
    """Read ``stage.option=value`` into options by stage; which there are, the spec decides."""
    read: dict[str, JsonValue] = {}
    for path, value in _pairs("--option", texts, "compile.optimization_level=3", _scalar):
        stage, dot, name = path.partition(".")
        if not dot or not name:
            raise refusal("--option", path, "compile.optimization_level=3")
        group = read.setdefault(stage, {})
        if isinstance(group, dict):
            group[name] = _shapes(value) if path == _SHAPES else _listed(value, path)
    return read


def _shapes(value: JsonValue) -> list[JsonValue]:
    """Return ``x=1x4,y=1x8`` as the one place that it is."""
    return [{name: list[JsonValue](shape) for name, shape in shapes([str(value)]).items()}]


def _listed(value: JsonValue, path: str) -> JsonValue:
    """Return ``1,2,4`` as a list where the option takes one; a single value is one, too."""
    if path not in _LISTS:
        return value
    return [_scalar(part.strip()) for part in str(value).split(",")]


def repairs(
    read: dict[str, JsonValue], fix: Iterable[str], allow: Iterable[str]
) -> dict[str, JsonValue]:
    """Add what ``--fix`` and ``--allow`` ask for to the options by stage."""
    fixed = dict(_pairs("--fix", fix, "sr=16000 or x=1x3x320x480", _fixed))
    allowed: list[JsonValue] = [part.strip() for text in allow for part in text.split(",")]
    asked: dict[str, JsonValue] = {"fix_inputs": fixed} if fixed else {}
    asked |= {"allow": allowed} if allowed else {}
    given = read.get("repair", {})
    if not isinstance(given, dict):
        return read
    kept = given.get("keep_outputs")
    if isinstance(kept, str):
        asked["keep_outputs"] = [part.strip() for part in kept.split(",")]
    if not asked:
        return read
    return read | {"repair": given | asked}


def synthetic(texts: Iterable[str]) -> dict[str, JsonValue]:
    """Read ``name=value`` or ``name=low:high``, both ends included."""
    example = "ids=0:30521 or sr=16000"
    apart = [part for text in texts for part in _apart("--synthetic", text, example)]
    return dict(_pairs("--synthetic", apart, example, _synthetic))


def _apart(flag: str, text: str, example: str) -> list[str]:
    """Refuse several inputs in one text: names may have commas, so nothing is guessed."""
    if re.search(r",[^=,]+=", text):
        why = "One text is for one input; names of inputs may have commas."
        raise refusal(flag, text, f"{example}, and {flag} again for the next input", why=why)
    return [text]


def made_up(texts: Iterable[str]) -> dict[str, SyntheticInput]:
    """Read as :func:`synthetic`, and refuse what cannot be right."""
    read = {}
    for name, how in synthetic(texts).items():
        try:
            read[name] = SyntheticInput.model_validate(how)
        except ValidationError as error:
            raise _of_input(name, explain(error, SyntheticInput)) from error
    return read


def shapes(texts: Iterable[str]) -> dict[str, list[int]]:
    """Read ``name=1x3x320x480``, one shape for each input."""
    read: dict[str, list[int]] = {}
    for text in texts:
        for part in text.split(","):
            name, equals, shape = part.strip().rpartition("=")
            if not equals or not name or ":" in shape:
                raise refusal("--shape", part, "x=1x3x320x480")
            if name in read:
                raise _twice("--shape", name)
            read[name] = list(parse_shape_range(shape).opt)
    return read


def seconds(text: str, flag: str = "--wait-for-node") -> int:
    """Read a duration: ``90``, ``10m``, ``2h``, ``1d``."""
    match = _DURATION.match(text.strip())
    if match is None:
        raise refusal(flag, text, "90, 10m, 2h or 1d")
    return _in_seconds(match)


def age(text: str, flag: str) -> int:
    """Read a duration that must have its unit: ``30`` may be meant as days, and is seconds."""
    match = _DURATION.match(text.strip())
    if match is None or not match["unit"]:
        bare = None if match is None else f"{match['count']} could be seconds or days."
        raise refusal(flag, text, "30d, 12h, 10m or 90s", why=bare or "")
    return _in_seconds(match)


def _in_seconds(match: re.Match[str]) -> int:
    return int(match["count"]) * _SECONDS[match["unit"]]


def is_reference(text: str) -> bool:
    """Tell whether an argument names something the farm has, rather than a file."""
    return text.startswith("sha256:") or (_BARE.match(text) is not None and not Path(text).exists())


def digest(text: str) -> str:
    """Read a digest, also one that is written without ``sha256:``.

    Raises:
        InvalidRequest: it is none (code ``invalid_digest``).
    """
    return f"sha256:{text.lower()}" if _BARE.match(text) else require_digest(text)


def repair_texts(asked: RepairOptions) -> list[str]:
    """Return what was asked of the repairs, as it is written."""
    words = [f"--fix {name}={_fix_text(row)}" for name, row in asked.fix_inputs.items()]
    words += [f"--allow {each}" for each in asked.allow]
    words += ["--option repair.prune_unused=true"] if asked.prune_unused else []
    words += ["--option repair.drop_defaults=true"] if asked.drop_defaults else []
    words += ["--option repair.narrow_int64=true"] if asked.narrow_int64 else []
    kept = ",".join(asked.keep_outputs)
    words += [f"--option repair.keep_outputs={kept}"] if kept else []
    return words + (["--option repair.mode=none"] if asked.mode is RepairMode.NONE else [])


def _fix_text(row: FixedInput) -> str:
    shape = [] if row.shape is None else [f"[{','.join(map(str, row.shape))}]"]
    value = [] if row.value is None else [json.dumps(row.value)]
    return " ".join(value + shape)


def _pairs(
    flag: str, texts: Iterable[str], example: str, read: Callable[[str], Value]
) -> Sequence[tuple[str, Value]]:
    pairs: dict[str, Value] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise refusal(flag, text, example)
        if name in pairs:
            raise _twice(flag, name)
        try:
            pairs[name] = read(value)
        except ValueError as error:
            raise refusal(flag, text, example) from error
    return list(pairs.items())


def _scalar(text: str) -> JsonValue:
    """Read a number, true, false or null as what it is, and anything else as text."""
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, dict | list) else value


def _synthetic(text: str) -> JsonValue:
    low, colon, high = text.partition(":")
    return {"low": float(low), "high": float(high)} if colon else {"value": float(text)}


def _fixed(text: str) -> JsonValue:
    """Read ``16000``, ``true`` or ``0.5`` as a value, ``1x576`` and ``[128]`` as a shape."""
    bare = text.strip()
    inside = bare.removeprefix("[").removesuffix("]")
    if inside != bare or "x" in bare:
        dims: list[JsonValue] = [int(dim) for dim in re.split(r"[x,]", inside) if inside]
        return {"shape": dims}
    value = _scalar(bare)
    if not isinstance(value, bool | int | float):
        message = f"{bare!r} is neither a value nor a shape"
        raise ValueError(message)  # noqa: TRY004 - it is what was written, not a type
    return {"value": value}


def _twice(flag: str, name: str) -> InvalidRequest:
    return InvalidRequest(
        f"{flag} names {name[:80]!r} twice.",
        code="named_twice",
        fix="Keep one of them.",
    )


def _of_input(name: str, error: InvalidRequest) -> InvalidRequest:
    """Name the input in an error about how to make it up."""
    return InvalidRequest(
        f"The input {name[:80]!r} cannot be made up like this.",
        code=error.code,
        why=error.why,
        fix="Write it like ids=0:30521 or sr=16000.",
    )


def refusal(flag: str, text: str, example: str, why: str = "") -> InvalidRequest:
    """Return the error of what cannot be read, with the way to write it."""
    return InvalidRequest(
        f"{flag} {text[:80]!r} cannot be read.",
        code="invalid_argument",
        why=why,
        fix=f"Write it like {example}.",
    )
