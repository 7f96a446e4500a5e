"""Check the external data that a model names against the files that came with it.

A location is a plain file name beside the model. Anything else could make a loader read a file
that was never sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from pydantic import JsonValue

from enginefarm.errors import InvalidModel
from enginefarm.onnx_types import ExternalRef

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_PATH = re.compile(r"[/\\:]|^\.|\.\.|[\x00-\x1f\x7f]")
_NAMED = 20
_LISTED = 1024


class _NamesExternalData(Protocol):
    @property
    def external(self) -> Sequence[ExternalRef]: ...


def check_external(scan: _NamesExternalData, sizes: Mapping[str, int]) -> None:
    """Check that every byte a model refers to is there.

    ``sizes`` has the size of each file beside the model, by its plain name.

    Raises:
        InvalidModel: ``external_path_escapes``, ``external_name_refused``,
            ``external_data_missing`` (naming up to 1024), ``external_data_short``,
            ``external_data_overlaps``.
    """
    for ref in scan.external:
        if _PLAIN.fullmatch(ref.location) is None or ".." in ref.location:
            raise _bad_location(ref)
    missing = sorted({ref.location for ref in scan.external} - set(sizes))
    if missing:
        listed: list[JsonValue] = [*missing[:_LISTED]]
        raise InvalidModel(
            f"External data is missing: {', '.join(missing[:_NAMED])}"
            f"{f' and {len(missing) - _NAMED} more' if len(missing) > _NAMED else ''}.",
            code="external_data_missing",
            why="The model keeps weights in files beside it.",
            fix="Send these files together with the model, under these names.",
            missing=listed,
            missing_count=len(missing),
        )
    for ref in scan.external:
        _require_bytes(ref, sizes[ref.location])
    _require_apart(scan.external)


def _require_bytes(ref: ExternalRef, size: int) -> None:
    length = _length(ref)
    if ref.offset + length > size:
        why = f"It needs bytes {ref.offset} to {ref.offset + length}; the file has {size}."
        fix = "Send the file that was written together with this model; this one may be cut."
    elif length < ref.needed:
        why = f"Its shape and type need {ref.needed} bytes; the model says {length}."
        fix = "Save the model and its external data again."
    else:
        return
    raise InvalidModel(
        f"External data {ref.location!r} is too short for tensor {ref.tensor[:80]!r}.",
        code="external_data_short",
        why=why,
        fix=fix,
        tensor=ref.tensor[:200],
        location=ref.location,
    )


def _require_apart(refs: Sequence[ExternalRef]) -> None:
    """Refuse bytes that are a part of two tensors: tied weights share all of theirs, or none."""
    former: ExternalRef | None = None
    for ref in sorted(refs, key=lambda ref: (ref.location, ref.offset, _length(ref))):
        if former is not None and former.location == ref.location:
            same = (former.offset, _length(former)) == (ref.offset, _length(ref))
            if not same and ref.offset < former.offset + _length(former) and _length(ref):
                raise _overlap(former, ref)
        former = ref if former is None or _end(ref) >= _end(former) else former


def _length(ref: ExternalRef) -> int:
    return ref.needed if ref.length is None else ref.length


def _end(ref: ExternalRef) -> tuple[str, int]:
    return ref.location, ref.offset + _length(ref)


def _overlap(first: ExternalRef, second: ExternalRef) -> InvalidModel:
    return InvalidModel(
        f"The tensors {first.tensor[:80]!r} and {second.tensor[:80]!r} share a part of their "
        "external data.",
        code="external_data_overlaps",
        why=f"In {first.location!r} they have bytes {first.offset} to "
        f"{first.offset + _length(first)} and {second.offset} to "
        f"{second.offset + _length(second)}; tied weights share all of theirs.",
        fix="Save the model again with onnx.save_model(…, save_as_external_data=True).",
        tensors=[first.tensor[:200], second.tensor[:200]],
        location=first.location,
    )


def _bad_location(ref: ExternalRef) -> InvalidModel:
    shown = ref.location[:200]
    escapes = _PATH.search(ref.location) is not None
    return InvalidModel(
        f"Tensor {ref.tensor[:80]!r} keeps its data in {shown!r}, which is "
        f"{'not a file beside the model' if escapes else 'no plain file name'}.",
        code="external_path_escapes" if escapes else "external_name_refused",
        why="A path could name any file of the machine that reads the model."
        if escapes
        else "A name is at most 128 letters, digits, dots, dashes and underscores.",
        fix="Save the model again with its external data in one file beside it, as weights.bin.",
        tensor=ref.tensor[:200],
        location=shown,
    )
