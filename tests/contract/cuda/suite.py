"""What CUDA's driver must do with the calls that are made of it: asked of a stand-in, and of a GPU.

It needs numpy and pytest beside the repository, and none of the farm's own packages.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tests.contract.cuda.room import TIMES, Make, Room, noise, took_ms
from workers.backends.cuda_driver import CudaDriver
from workers.backends.device_port import NotOnDevice, give_back

KIB = 1 << 10
MORE_THAN_ANY_GPU = 1 << 50
ODD = 3 * KIB + 7
Open = Callable[..., CudaDriver]


def _raise() -> None:
    raise ValueError("a fault of its own")


class CudaDriverSuite:
    """The calls of CUDA's driver do what is made of them."""

    unit = KIB
    """What one part of a copy has, in bytes: large enough to take a time."""
    large = 1 << 20
    """What fits on the device, and four hundred of it do not."""

    @pytest.fixture
    def open_driver(self) -> Open:
        """Return what opens a stream."""
        raise NotImplementedError

    @pytest.fixture
    def driver(self, open_driver: Open) -> CudaDriver:
        """Return a stream on the first device."""
        return open_driver()

    @pytest.fixture
    def room(self) -> Iterator[Make]:
        """Return what makes room, and give it all back."""
        made: list[Room] = []

        def make(driver: CudaDriver, size: int) -> Room:
            made.append(
                Room(driver, size, driver.pinned(size), driver.allocated(size), driver.pinned(size))
            )
            return made[-1]

        yield make
        for each in made:
            each.driver.use()
            each.driver.freed(each.device)
            each.driver.unpin(each.source)
            each.driver.unpin(each.goal)

    @pytest.mark.parametrize("size", [1, 4097, 0])
    def test_what_is_copied_there_and_back_is_the_same(
        self, driver: CudaDriver, room: Make, size: int
    ) -> None:
        size = size or 64 * self.unit
        here, data = room(driver, size), noise(size, 1)
        here.put(data)

        here.both()
        driver.finish()

        assert np.array_equal(here.found(), data)

    def test_events_tell_more_time_of_more_work(self, driver: CudaDriver, room: Make) -> None:
        took = [took_ms(driver, room(driver, parts * self.unit).both) for parts in (4, 16, 64)]

        sys.stdout.write(f"there and back of 4, 16 and 64 x {self.unit}: {took} ms\n")
        assert 0 < took[0] < took[1] < took[2]

    def test_a_graph_does_nothing_when_it_is_made_and_all_of_it_each_time_it_is_launched(
        self, driver: CudaDriver, room: Make
    ) -> None:
        here = room(driver, ODD)
        here.put(noise(ODD, 0))
        here.both()
        driver.finish()

        untouched = noise(ODD, 1)
        here.put(untouched)
        graph = driver.captured(here.both)
        driver.finish()
        assert np.all(here.found() == 0xA5)

        for seed in (2, 3):
            data = noise(ODD, seed)
            here.put(data)
            driver.launch(graph)
            driver.finish()
            assert np.array_equal(here.found(), data)
        driver.drop_graph(graph)

    def test_a_graph_is_timed_by_the_events_around_it(self, driver: CudaDriver, room: Make) -> None:
        small, large = room(driver, self.unit), room(driver, 64 * self.unit)
        graphs = [driver.captured(each.both) for each in (small, large)]

        took = [took_ms(driver, lambda graph=graph: driver.launch(graph)) for graph in graphs]  # type: ignore[misc]

        sys.stdout.write(f"graphs of 1 and 64 x {self.unit} there and back: {took} ms\n")
        assert 0 < took[0] < took[1]
        give_back(driver.drop_graph, graphs)

    @pytest.mark.parametrize("fault", ["waits", "allocates", "raises"])
    def test_what_cannot_be_a_graph_says_so_and_the_stream_goes_on(
        self, driver: CudaDriver, room: Make, fault: str
    ) -> None:
        here, data = room(driver, ODD), noise(ODD, 4)
        does: dict[str, Callable[[], object]] = {
            "waits": driver.finish,
            "allocates": lambda: driver.allocated(KIB),
            "raises": _raise,
        }

        def work() -> None:
            here.both()
            does[fault]()

        with pytest.raises((NotOnDevice, ValueError)) as refused:
            driver.captured(work)
        sys.stdout.write(f"{fault}: {refused.value}\n")
        assert isinstance(refused.value, ValueError if fault == "raises" else NotOnDevice)

        here.put(data)
        here.both()
        driver.finish()
        assert np.array_equal(here.found(), data)
        here.put(data)
        graph = driver.captured(here.both)
        driver.launch(graph)
        driver.finish()
        assert np.array_equal(here.found(), data)
        driver.drop_graph(graph)

    def test_memory_that_is_not_there_is_told_in_the_drivers_words(
        self, driver: CudaDriver, room: Make
    ) -> None:
        with pytest.raises(NotOnDevice, match="cuMemAlloc_v2 answered 2: out of memory"):
            driver.allocated(MORE_THAN_ANY_GPU)
        here, data = room(driver, ODD), noise(ODD, 5)
        here.put(data)
        here.both()
        driver.finish()
        assert np.array_equal(here.found(), data)

    def test_what_was_given_back_is_there_again(self, driver: CudaDriver) -> None:
        """More, in all, than any GPU has."""
        for _ in range(400):
            driver.freed(driver.allocated(self.large))
        address = driver.pinned(KIB)
        driver.unpin(address)
        with pytest.raises(NotOnDevice, match="cuMemFreeHost answered"):
            driver.unpin(address)

    def test_what_is_given_back_twice_is_no_trouble(self, driver: CudaDriver) -> None:
        address = driver.allocated(KIB)
        driver.freed(address)
        with pytest.raises(NotOnDevice, match="cuMemFree_v2 answered"):
            driver.freed(address)
        give_back(driver.freed, [address, driver.allocated(KIB)])

    def test_two_streams_work_at_once_each_on_its_own(
        self, driver: CudaDriver, open_driver: Open, room: Make
    ) -> None:
        drivers = [driver, open_driver()]
        assert drivers[0].stream != drivers[1].stream
        rooms = [room(each, ODD) for each in drivers]
        gate, right = threading.Barrier(2), []

        def work(at: int) -> None:
            here = rooms[at]
            here.driver.use()
            gate.wait()
            for number in range(TIMES):
                data = noise(ODD, 100 * at + number)
                here.put(data)
                here.both()
                here.driver.finish()
                right.append(np.array_equal(here.found(), data))

        threads = [threading.Thread(target=work, args=(at,)) for at in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert right == [True] * TIMES * 2

    def test_one_stream_makes_a_graph_while_the_other_works(
        self, driver: CudaDriver, open_driver: Open, room: Make
    ) -> None:
        """As streams are swept: what another thread does spoils no capture."""
        other = open_driver()
        mine, its = room(driver, ODD), room(other, ODD)
        over, done = threading.Event(), []

        def work() -> None:
            other.use()
            while not over.is_set():
                its.both()
                other.finish()
                other.freed(other.allocated(KIB))
                done.append(1)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for seed in range(TIMES):
                data = noise(ODD, seed)
                mine.put(data)
                graph = driver.captured(mine.both)
                driver.launch(graph)
                driver.finish()
                driver.drop_graph(graph)
                assert np.array_equal(mine.found(), data)
        finally:
            over.set()
            thread.join()
        assert done

    def test_a_thread_that_did_not_say_that_it_works_here_is_refused(
        self, driver: CudaDriver
    ) -> None:
        said: list[str] = []

        def work() -> None:
            for allowed in (False, True):
                try:
                    if allowed:
                        driver.use()
                    driver.freed(driver.allocated(KIB))
                    said.append("taken")
                except NotOnDevice as error:
                    said.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        sys.stdout.write(f"{said}\n")
        assert said[0].startswith("cuMemAlloc_v2 answered 201")
        assert said[1:] == ["taken"]

    def test_streams_come_and_go(self, driver: CudaDriver, open_driver: Open, room: Make) -> None:
        for _ in range(300):
            open_driver().close()
        here, data = room(driver, ODD), noise(ODD, 6)
        here.put(data)
        here.both()
        driver.finish()
        assert np.array_equal(here.found(), data)

    def test_a_device_that_is_not_there_is_told(
        self, driver: CudaDriver, open_driver: Open
    ) -> None:
        with pytest.raises(NotOnDevice, match="cuDeviceGet answered 101"):
            open_driver(4096)
        driver.finish()
