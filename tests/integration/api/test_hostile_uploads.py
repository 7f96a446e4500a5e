"""Whatever is sent, the sender gets an answer with a code, and the farm goes on as before.

The requests are those of ``python -m bench.fuzz_intake``, which sends many more of them.
"""

from __future__ import annotations

import os
import random

from bench.fuzz_intake.attack import Tally, Watch, attack
from bench.fuzz_intake.cases import KINDS, Cases, Request
from enginefarm.state import Scope
from tests.integration.api.made import onnx_model
from tests.integration.api.served import Served

# One of each kind; what takes the longest to make is left to the bench.
SEED = 20
SMALL = 300_000


def requests() -> list[Request]:
    cases = Cases(random.Random(SEED), largest=SMALL)  # noqa: S311 - to be repeated
    return [cases.make(number) for number in range(len(KINDS))]


def test_hostile_uploads_of_every_kind_are_answered_and_leave_nothing(api: Served) -> None:
    tally = Tally()
    with api.client(Scope.SUBMIT) as client, Watch(os.getpid()) as watch:
        attack(client, requests(), tally)
        good = client.post("/v1/models", content=onnx_model(salt=99))

    assert tally.cases.total() == len(KINDS)
    assert (tally.bad, tally.examples) == (0, [])
    assert tally.refused.total() >= len(KINDS) // 2
    assert watch.most_at_once <= api.settings.max_readers
    assert watch.of_children < 256 << 20
    assert good.status_code == 201
    assert api.left() == []


def test_the_same_seed_gives_the_same_requests() -> None:
    """What the bench has found can be sent again."""
    assert requests() == requests()
