"""Whoever merges timing caches: a union, taken from one version only, and again adds nothing.

One suite for the port. TensorRT's side of it runs on a stand-in with TensorRT's recorded API, whose
caches are sets: that shows that the calls are made, and made so, that a union comes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.backends.trt_api.described import VERSIONS, Api
from tests.timing_sets import VERSION, SetCaches, joined, names_in, packed
from workers.backends.tensorrt import TensorRT
from workers.timing import TimingCaches

A, B, C = packed("a", "b"), packed("b", "c"), packed("d")
FOREIGN = packed("a", version="10.13.3.9")
DAMAGED = [b"\0" * 100, A[:-9], FOREIGN]


def stand_in(version: str) -> Api:
    """Return TensorRT's API over caches that are sets."""
    sets, held = SetCaches(), dict[int, bytes]()

    def create(config: Any, data: bytes) -> Any:  # noqa: ANN401 - a class of the stand-in
        made = config.get_timing_cache()
        held[id(made)] = bytes(data) or packed()
        kept.append(made)
        return made

    def combine(this: Any, other: Any, *, ignore_mismatch: bool) -> bool:  # noqa: ANN401 - as above
        assert ignore_mismatch
        both = sets.merged(held[id(this)], held[id(other)])
        held[id(this)] = both or held[id(this)]
        return both is not None

    kept: list[Any] = []
    acts: dict[str, Callable[..., Any]] = {
        "IBuilderConfig.create_timing_cache": create,
        "IBuilderConfig.set_timing_cache": lambda _self, cache, *, ignore_mismatch: (
            ignore_mismatch and sets.entries(held[id(cache)]) is not None
        ),
        "ITimingCache.combine": combine,
        "ITimingCache.serialize": lambda this: bytearray(held[id(this)]),
        "ITimingCache.queryKeys": lambda this: sorted(names_in(held[id(this)])),
    }
    return Api(version, acts)


KINDS: dict[str, Callable[[], TimingCaches]] = {
    "sets": SetCaches,
    **{
        f"TensorRT {version}": lambda version=version: TensorRT(  # type: ignore[misc]
            stand_in(version).module, has_gpu=True
        ).timing_caches()
        for version in VERSIONS
    },
}


@pytest.fixture(params=KINDS)
def caches(request: pytest.FixtureRequest) -> TimingCaches:
    return KINDS[request.param]()


def test_a_merge_is_a_union_in_any_order(caches: TimingCaches) -> None:
    ways = [(A, B), (B, A)]
    for one, other in ways:
        both = caches.merged(one, other)
        assert both is not None
        assert names_in(both) == {"a", "b", "c"}
        assert caches.entries(both) == 3


def test_merging_again_adds_nothing(caches: TimingCaches) -> None:
    both = caches.merged(A, B)
    assert both is not None
    for other in (A, B, both):
        again = caches.merged(both, other)
        assert again is not None
        assert names_in(again) == names_in(both)


def test_it_does_not_matter_who_is_merged_first(caches: TimingCaches) -> None:
    left = caches.merged(caches.merged(A, B) or b"", C)
    right = caches.merged(A, caches.merged(B, C) or b"")
    assert left is not None
    assert right is not None
    assert names_in(left) == names_in(right) == {"a", "b", "c", "d"}


@pytest.mark.parametrize("wrong", DAMAGED, ids=["noise", "cut off", "another version"])
def test_what_is_not_its_own_is_not_taken(
    caches: TimingCaches, tmp_path: Path, wrong: bytes
) -> None:
    assert caches.entries(wrong) is None
    assert caches.merged(A, wrong) is None
    assert caches.merged(wrong, A) is None
    assert joined(caches, A, wrong, tmp_path / "join") is None


def test_files_are_merged_as_bytes_are(caches: TimingCaches, tmp_path: Path) -> None:
    both = joined(caches, A, B, tmp_path / "join")
    assert both is not None
    assert names_in(both) == {"a", "b", "c"}


def test_the_version_of_the_sets_is_one_that_is_recorded() -> None:
    assert VERSION in VERSIONS
