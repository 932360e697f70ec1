"""Runners of a capture on a model of a cluster and a directory: they take turns at each operation, pause, die, and lose answers.

The topic grows while they run: some of them see it, others not yet.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import Final, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

from esp.capture.claim import Claim
from esp.capture.decision import Log, OvertakenError
from esp.capture.file_names import FileName, parse_path, work_name
from esp.consumer.connection import Deadline
from esp.consumer.group_messages import Committed
from esp.consumer.messages import Partition
from esp.sink.attempts import in_attempts
from esp.sink.errors import BeginAnewError

_Found = TypeVar("_Found")
PARTITIONS: Final = (Partition("t", 0), Partition("t", 1), Partition("t", 2))
PARTITIONS_AT_FIRST: Final = 2
TOPIC_ID: Final = "0a"
HALF: Final = "half of a file"
RUNNERS_MOST: Final = 6
PAUSE_MOST: Final = 100
"""Turns of other runners; one takes a capture over in about twenty."""


class World:
    """A cluster, a directory, and the runners that live.

    Args:
        seed: of all that happens.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.logs = {
            partition: sorted(self.random.sample(range(40), self.random.randint(0, 30))) for partition in PARTITIONS
        }
        self.partitions = list(PARTITIONS[:PARTITIONS_AT_FIRST])
        self.ends = dict.fromkeys(PARTITIONS, 10)
        self.epoch = 0
        self.offsets: dict[Partition, Committed] = {}
        self.owner: str | None = None
        self.files: dict[str, object] = {}
        self.warnings: list[str] = []
        self.is_calm = False
        self.fates: list[str] = []
        self._scheduler = getcurrent()

    def step(self) -> None:
        """Let another runner go on."""
        if getcurrent() is not self._scheduler:
            self._scheduler.switch()

    def chance(self, odds: float) -> bool:
        """True now and then, while there is trouble."""
        return not self.is_calm and self.random.random() < odds

    def run(self) -> None:
        """Let runners come and go, then one finish the work alone."""
        living: list[greenlet] = []
        begun = turn = 0
        paused: dict[greenlet, int] = {}
        while living or begun < RUNNERS_MOST:
            if begun < RUNNERS_MOST and (not living or self.random.random() < 0.03):
                living.append(greenlet(Runner(self, f"r{begun}").run))
                begun += 1
            turn += 1
            one = self.random.choice([each for each in living if paused.get(each, 0) <= turn] or living)
            if self.random.random() < 0.02:
                paused[one] = turn + self.random.randint(1, PAUSE_MOST)
            if self.random.random() < 0.02:
                one.throw(GreenletExit)
                self.fates.append("killed")
            else:
                one.switch()
            living = [each for each in living if not each.dead]
            if self.random.random() < 0.01:
                self.partitions = list(PARTITIONS)
            for partition in PARTITIONS:
                self.ends[partition] = min(40, self.ends[partition] + (self.random.random() < 0.1))
            self.check_names()
        self.is_calm = True
        self.partitions = list(PARTITIONS)
        self.ends = dict.fromkeys(PARTITIONS, 40)
        Runner(self, "last").run()
        self.check_names()

    def check_names(self) -> None:
        """Each file is whole, and no two overlap."""
        for names in self.named().values():
            assert all(before.end <= after.first for before, after in pairwise(names)), names
        for path, content in self.files.items():
            name = parse_path(path)
            if name is not None:
                assert content == self.records(name.partition, name.first, name.end), path

    def named(self) -> dict[Partition, list[FileName]]:
        """The files with names, by partition."""
        names = sorted(name for name in map(parse_path, self.files) if name is not None)
        return {partition: [name for name in names if name.partition == partition] for partition in PARTITIONS}

    def records(self, partition: Partition, first: int, end: int) -> list[int]:
        """The offsets of the records in a range."""
        return [offset for offset in self.logs[partition] if first <= offset < end]


class Ledger:
    """A runner's producer, and the offsets."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._epoch: int | None = None

    @property
    def has_epoch(self) -> bool:
        return self._epoch is not None

    def forget_epoch(self) -> None:
        self._epoch = None

    def begin_epoch(self, _deadline: Deadline) -> None:
        self._world.step()
        self._world.epoch += 1
        epoch = self._world.epoch
        self._world.step()
        self._epoch = epoch

    def in_attempts(self, attempt: Callable[[Deadline], _Found], failure: str) -> _Found:
        return in_attempts(self, attempt, failure, 60.0, 0.0)

    def look(self, partitions: Sequence[Partition] | None, _deadline: Deadline) -> Mapping[Partition, Committed]:
        self._world.step()
        found = {
            each: self._world.offsets[each]
            for each in partitions or [*self._world.offsets]
            if each in self._world.offsets
        }
        self._world.step()
        return found

    def commit(self, offsets: Mapping[Partition, Committed], _deadline: Deadline) -> None:
        self._world.step()
        if self._epoch != self._world.epoch:
            raise BeginAnewError("fenced")
        if self._world.chance(0.05):
            raise BeginAnewError("the coordinator moved before the commit")
        self._world.offsets |= offsets
        self._world.step()
        if self._world.chance(0.05):
            raise BeginAnewError("the answer was lost")


class Store:
    """The directory."""

    def __init__(self, world: World) -> None:
        self._world = world

    def read_owner(self) -> str | None:
        self._world.step()
        return self._world.owner

    def write_owner(self, name: str) -> None:
        self._world.step()
        self._world.owner = name

    def has_files(self) -> bool:
        return any(map(parse_path, self._world.files))

    def list_work(self) -> Collection[str]:
        self._world.step()
        return [path for path in self._world.files if parse_path(path) is None]

    def has(self, path: str) -> bool:
        self._world.step()
        return path in self._world.files

    def publish(self, work: str, path: str) -> bool:
        self._world.step()
        if work not in self._world.files:
            return False
        self._world.files[path] = self._world.files.pop(work)
        self._world.step()
        return True

    def remove(self, path: str) -> None:
        self._world.step()
        self._world.files.pop(path, None)


class Runner:
    """A runner, which captures up to the ends that it finds, again and again."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._claim = Claim("c", name, Ledger(world), Store(world), self._observe, world.warnings.append)

    def _observe(self, partitions: Sequence[Partition], _known: Collection[Partition]) -> Mapping[Partition, Log]:
        self._world.step()
        return {partition: Log(TOPIC_ID, 0, self._world.ends[partition]) for partition in partitions}

    def run(self) -> None:
        """Run until another runner takes over, or nothing is left."""
        with suppress(OvertakenError):
            self._claim.take(self._describe())
            is_any = True
            while is_any:
                is_any = self._capture_all()
                is_any |= self._add()
            self._world.fates.append("done")
            return
        self._world.fates.append("overtaken")

    def _describe(self) -> list[Partition]:
        """The topic's partitions, as they are before others go on."""
        found = [*self._world.partitions]
        self._world.step()
        return found

    def _add(self) -> bool:
        """Begin with new partitions; False if there are none."""
        new = [partition for partition in self._describe() if partition not in self._claim.positions]
        if new:
            self._claim.add(new)
        return bool(new)

    def _capture_all(self) -> bool:
        """Capture a file of each partition; a failure of one is told when all are through, as by threads."""
        ended: OvertakenError | None = None
        is_any = False
        for partition in [*self._claim.positions]:
            try:
                is_any |= self._capture(partition)
            except OvertakenError as error:
                ended = error
        if ended is not None:
            raise ended
        return is_any

    def _capture(self, partition: Partition) -> bool:
        """Capture one file; False if there are no records."""
        first = self._claim.positions[partition].offset
        end = min(first + self._world.random.randint(1, 12), self._world.ends[partition])
        records = self._world.records(partition, first, end)
        while not records and end < self._world.ends[partition]:
            end += 1
            records = self._world.records(partition, first, end)
        if not records:
            return False
        work = work_name(partition, first, self._claim.runner)
        self._world.files[work] = HALF
        self._world.step()
        if work in self._world.files:  # a newer runner may have removed it
            self._world.files[work] = records
        self._world.step()
        self._claim.commit(partition, end, work, FileName(partition, first, end, 0).path)
        return True
