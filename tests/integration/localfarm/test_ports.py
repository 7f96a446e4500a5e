"""Ports are free when chosen, kept apart while reserved, and remembered."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localfarm.ports import HOST, Ports, is_free, is_open, moved

PortsOf = Callable[[str], Ports]


@pytest.fixture
def ports_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PortsOf]:
    """Make the ports of a farm by its name; reservations are this test's own, and given back."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made: list[Ports] = []

    def ports_of(name: str) -> Ports:
        made.append(Ports(tmp_path / f"{name}.json"))
        return made[-1]

    yield ports_of
    for ports in made:
        ports.release()


@pytest.fixture
def free_port(ports_of: PortsOf) -> int:
    ports = ports_of("probe")
    chosen = ports.choose({"any": 0})
    ports.release()
    return chosen["any"]


def test_a_free_port_is_chosen_as_preferred(ports_of: PortsOf, free_port: int) -> None:
    assert ports_of("farm").choose({"api": free_port}) == {"api": free_port}


def test_a_port_that_is_taken_is_passed_over(ports_of: PortsOf) -> None:
    with socket.create_server((HOST, 0)) as server:
        taken = server.getsockname()[1]

        chosen = ports_of("farm").choose({"api": taken})

    assert chosen["api"] != taken
    assert is_free(chosen["api"])


def test_who_expected_a_port_that_is_taken_is_told_which_is_used_instead() -> None:
    said = moved(
        {"api": 8080, "flower": 5555, "filer": 0}, {"api": 24001, "flower": 5555, "filer": 9}
    )

    assert said == ["port 8080 is taken, so the API is on 24001"]


def test_a_port_without_a_preference_is_remembered(ports_of: PortsOf) -> None:
    first = ports_of("farm")
    chosen = first.choose({"filer": 0})
    first.release()

    assert ports_of("farm").choose({"filer": 0}) == chosen


def test_two_farms_that_start_together_never_get_the_same_port(
    ports_of: PortsOf, free_port: int
) -> None:
    first = ports_of("one").choose({"api": free_port})
    second = ports_of("other").choose({"api": free_port})

    assert first == {"api": free_port}
    assert second != first


def test_one_farm_gets_a_port_for_each_name(ports_of: PortsOf) -> None:
    names = [f"port_{number}" for number in range(20)]

    chosen = ports_of("farm").choose(dict.fromkeys(names, 0))

    assert len(set(chosen.values())) == len(names)


def test_a_port_is_open_only_while_something_listens() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        assert is_open(port)

    assert not is_open(port)
