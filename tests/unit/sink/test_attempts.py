"""Attempts of producers that fence each other, on a clock of their own: writers take turns at each wait."""

import heapq
from collections.abc import Callable
from random import Random

import pytest
from greenlet import getcurrent, greenlet

from esp.consumer.connection import Deadline
from esp.consumer.errors import ConsumerError
from esp.sink.attempts import in_attempts
from esp.sink.errors import BeginAnewError, FencedError, UnendedError

TIMEOUT_S = 120.0
REQUEST_S = 0.005


class World:
    """A clock by which greenlets wait, and the one partition that they write.

    Attributes:
        epoch: the newest one.
        is_written: whether the rows are there.
    """

    def __init__(self, seed: int) -> None:
        self.epoch = 0
        self.is_written = False
        self.random = Random(seed)
        self._now_s = 0.0
        self._waiting: list[tuple[float, int, greenlet]] = []
        self._waits = 0
        self._hub = getcurrent()

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, seconds: float, /) -> None:
        self._wait(self._now_s + seconds, getcurrent())
        self._hub.switch()

    def run(self, *begins: tuple[float, Callable[[], None]]) -> float:
        """Run functions, each from a time on; return the time when all have ended."""
        for begin_s, function in begins:
            self._wait(begin_s, greenlet(function))
        while self._waiting:
            self._now_s, _, one = heapq.heappop(self._waiting)
            one.switch()
        return self._now_s

    def _wait(self, until_s: float, one: greenlet) -> None:
        self._waits += 1
        heapq.heappush(self._waiting, (until_s, self._waits, one))


class Writer:
    """A task that writes the rows in so many seconds, with requests that are fenced by another epoch."""

    def __init__(self, world: World, write_s: float) -> None:
        self._world = world
        self._write_s = write_s
        self._epoch: int | None = None
        self.done = ""

    @property
    def has_epoch(self) -> bool:
        return self._epoch is not None

    def forget_epoch(self) -> None:
        self._epoch = None

    def begin_epoch(self, _deadline: Deadline) -> None:
        self._world.sleep(REQUEST_S)
        self._world.epoch += 1
        self._epoch = self._world.epoch

    def run(self) -> None:
        self.done = in_attempts(
            self,
            self._attempt,
            "the rows were not written",
            TIMEOUT_S,
            0.1,
            clock=self._world,
            draw=self._world.random.random,
        )

    def _attempt(self, _deadline: Deadline) -> str:
        self._world.sleep(REQUEST_S)
        if self._world.is_written:
            return "skipped"
        for _ in range(20):
            self._world.sleep(self._write_s / 20)
            if self._epoch != self._world.epoch:
                raise FencedError("another producer has its transactional id")
        self._world.is_written = True
        return "written"


@pytest.mark.parametrize("write_s", [0.01, 0.4, 3.0, 20.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.97])
def test_of_two_writers_of_a_partition_one_writes_and_the_other_finds_it_written(write_s: float, share: float) -> None:
    ends_s: list[float] = []
    for seed in range(50):
        world = World(seed)
        writers = [Writer(world, write_s) for _ in range(2)]
        end_s = world.run((0.0, writers[0].run), (share * write_s, writers[1].run))
        assert sorted(writer.done for writer in writers) == ["skipped", "written"]
        ends_s.append(end_s)
        assert world.epoch <= 14
    assert max(ends_s) < min(TIMEOUT_S, 7 * write_s + 1)


def test_of_three_drivers_one_writes() -> None:
    for seed in range(50):
        world = World(seed)
        writers = [Writer(world, 2.0) for _ in range(3)]
        world.run(*((0.5 * number, writer.run) for number, writer in enumerate(writers)))
        assert sorted(writer.done for writer in writers) == ["skipped", "skipped", "written"]


class Producer:
    """A producer whose epochs are counted."""

    def __init__(self) -> None:
        self.has_epoch = False
        self.epochs = 0

    def forget_epoch(self) -> None:
        self.has_epoch = False

    def begin_epoch(self, _deadline: Deadline) -> None:
        self.has_epoch = True
        self.epochs += 1


@pytest.mark.parametrize("error", [ConsumerError("a record is too large"), KeyboardInterrupt()])
def test_an_epoch_ends_with_an_attempt_that_fails_for_good(error: BaseException) -> None:
    """Its sequences are used: a leader would take the next rows for batches that it has, and append nothing."""
    producer = Producer()

    def attempt(_deadline: Deadline) -> None:
        raise error

    with pytest.raises(type(error)):
        in_attempts(producer, attempt, "", 5.0, 0.0)
    assert not producer.has_epoch
    assert in_attempts(producer, lambda _deadline: 1, "", 5.0, 0.0) == 1
    assert producer.has_epoch
    assert producer.epochs == 2


def test_an_attempt_that_was_not_fenced_is_soon_followed_by_the_next() -> None:
    world = World(1)
    failures = iter(range(9))

    def attempt(_deadline: Deadline) -> None:
        world.sleep(1.0)
        if next(failures, None) is not None:
            raise BeginAnewError("the coordinator moves")

    end_s = world.run((0.0, lambda: in_attempts(Producer(), attempt, "", 60.0, 0.1, clock=world, draw=lambda: 0.5)))
    assert end_s == pytest.approx(10 * 1.0 + 9 * 0.1)


def test_attempts_end_with_their_time() -> None:
    world = World(1)
    found: list[str] = []

    def attempt(_deadline: Deadline) -> None:
        world.sleep(1.0)
        raise FencedError("another producer has its transactional id")

    def run() -> None:
        with pytest.raises(ConsumerError) as caught:
            in_attempts(Producer(), attempt, "batch 7 was not written", 60.0, 0.1, clock=world)
        found.append(str(caught.value))

    assert 60.0 <= world.run((0.0, run)) < 62.0
    assert found == ["batch 7 was not written within 60 s: another producer has its transactional id"]


class UnendedProducer(Producer):
    """A producer of which no transaction is ended that it has begun."""

    def begin_epoch(self, deadline: Deadline) -> None:
        if self.epochs:
            raise UnendedError("its last transaction is being ended")
        super().begin_epoch(deadline)


def test_where_a_transaction_is_not_ended_the_reason_is_told_for_which_its_attempt_failed() -> None:
    world = World(1)
    found: list[str] = []

    def attempt(_deadline: Deadline) -> None:
        raise BeginAnewError("too few replicas are in sync")

    def run() -> None:
        with pytest.raises(ConsumerError) as caught:
            in_attempts(UnendedProducer(), attempt, "batch 7 was not written", 60.0, 0.1, clock=world)
        found.append(str(caught.value))

    world.run((0.0, run))
    assert found == ["batch 7 was not written within 60 s: too few replicas are in sync"]
