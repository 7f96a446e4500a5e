"""A child's progress goes out as lines, never backwards, and a stop is heard."""

from __future__ import annotations

import json
import os

from workers.reporting import PartSink, PipeSink


def lines(read_fd: int) -> list[dict[str, object]]:
    """Return what was written to the pipe so far."""
    return [json.loads(line) for line in os.read(read_fd, 1 << 16).splitlines()]


def test_the_fraction_never_falls() -> None:
    read_fd, write_fd = os.pipe()
    sink = PipeSink(write_fd)
    for number, fraction in enumerate([0.5, 0.2, None, 0.7, 3.0]):
        sink.report(fraction, f"phase {number}")
    assert [line["fraction"] for line in lines(read_fd)] == [0.5, 0.5, 0.5, 0.7, 1.0]


def test_repeats_of_a_phase_are_thinned_out_but_new_phases_are_not() -> None:
    read_fd, write_fd = os.pipe()
    sink = PipeSink(write_fd)
    for number in range(100):
        sink.report(number / 100, "same")
    sink.report(1.0, "other")
    found = [line["phase"] for line in lines(read_fd)]
    assert found[-1] == "other"
    assert len(found) < 20


def test_a_part_fills_its_share_of_the_whole() -> None:
    read_fd, write_fd = os.pipe()
    part = PartSink(PipeSink(write_fd), start=0.5, share=0.2)
    part.report(0.5, "a")
    part.report(None, "b")
    assert [line["fraction"] for line in lines(read_fd)] == [0.6, 0.6]


def test_a_stop_is_heard_through_a_part() -> None:
    sink = PipeSink(None)
    part = PartSink(sink, 0.0, 1.0)
    assert not part.stopping
    sink.stop()
    assert part.stopping


def test_a_listener_that_has_gone_does_no_harm() -> None:
    read_fd, write_fd = os.pipe()
    other_read_fd, other_write_fd = os.pipe()
    sink = PipeSink(write_fd)
    os.close(read_fd)
    sink.report(0.1, "a")
    # The number may be given to another file meanwhile: nothing may be said to that one.
    os.dup2(other_write_fd, write_fd)
    sink.report(0.2, "b")
    os.write(other_write_fd, b'{"heard": "nothing else"}\n')
    assert lines(other_read_fd) == [{"heard": "nothing else"}]
