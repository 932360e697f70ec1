"""The claim of a runner on a capture: the order of commits and names, so that each record is in one file, whatever dies when.

A file is whole at its work path before its range is committed, and gets its name after. The commit is a transaction of the capture's one
transactional id, whose newest epoch fences all older runners. A runner that takes the capture over writes its own name beside the
offsets: an older one that was fenced finds it there, and ends. It may find it at one partition only, if one of the two has seen a topic
grow and the other has not: so each new epoch looks at all partitions of the claim before it commits one.

A takeover removes work files of older runners, which cannot commit them any more. It removes only files that it has listed before its
epoch, as later ones may be a newer runner's, and only those of its own partitions, as others may be committed and wait for their names.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Protocol, TypeVar

from esp.capture.decision import (
    Doubt,
    Log,
    OvertakenError,
    Publication,
    check_directory,
    check_topics,
    decide_doubt,
    plan_publication,
    plan_start,
)
from esp.capture.file_names import partition_of_work
from esp.capture.position import Position
from esp.consumer.connection import Deadline
from esp.consumer.group_messages import Committed
from esp.consumer.messages import Partition

_Found = TypeVar("_Found")


class Ledger(Protocol):
    """The committed offsets of a capture, changed in fenced transactions."""

    def in_attempts(self, attempt: Callable[[Deadline], _Found], failure: str) -> _Found:
        """Return what an attempt returns that succeeds; each is made in an epoch, a failed one is followed by a new epoch."""

    def look(self, partitions: Sequence[Partition] | None, deadline: Deadline) -> Mapping[Partition, Committed]:
        """Return what is committed for partitions; None: for all, those of other topics too."""

    def commit(self, offsets: Mapping[Partition, Committed], deadline: Deadline) -> None:
        """Commit offsets, all or none; nothing is committed in an epoch that was fenced."""


class Store(Protocol):
    """The directory of a capture. Paths are relative to it."""

    def read_owner(self) -> str | None:
        """Return the name of the capture that stands in the directory; None: none does."""

    def write_owner(self, name: str) -> None:
        """Write the name of a capture."""

    def has_files(self) -> bool:
        """True if the directory has captured files."""

    def list_work(self) -> Collection[str]:
        """Return the paths of all work files."""

    def has(self, path: str) -> bool:
        """True if there is a file."""

    def publish(self, work: str, path: str) -> bool:
        """Give a work file its name, and return when that is durable; False if the work file is not there."""

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""


class Claim:
    """A runner's claim. One thread uses it at a time. A runner whose commit failed commits nothing more.

    Args:
        name: of the capture.
        runner: of this runner; no other one has it.
        ledger: the committed offsets.
        store: the directory.
        observe: called with partitions, and with those of them that have committed offsets, for which files are not looked at; returns
            how each is now.
        warn: called with a line about what is no error.
        skips_lost: whether records that are gone are passed over.
    """

    def __init__(
        self,
        name: str,
        runner: str,
        ledger: Ledger,
        store: Store,
        observe: Callable[[Sequence[Partition], Collection[Partition]], Mapping[Partition, Log]],
        warn: Callable[[str], None],
        *,
        skips_lost: bool = False,
    ) -> None:
        self._name = name
        self.runner = runner
        self._ledger = ledger
        self._store = store
        self._observe = observe
        self._warn = warn
        self._skips_lost = skips_lost
        self._positions: dict[Partition, Position] = {}
        self._is_over = False

    @property
    def positions(self) -> Mapping[Partition, Position]:
        """The committed positions."""
        return self._positions

    def take(self, partitions: Sequence[Partition]) -> None:
        """Take the capture over, and finish what older runners left.

        Args:
            partitions: all that are captured.

        Raises:
            RefusedError: records would be missing, or come twice.
            ConsumerError: the offsets cannot be committed.
        """
        left = self._store.list_work()  # before an epoch begins: a newer runner's files are not among them
        self._begin(partitions)
        for position in self._positions.values():
            self._finish(position)
        kept = {position.work for position in self._positions.values()}
        for path in left:
            partition = partition_of_work(path)
            if path not in kept and (partition is None or partition in self._positions):
                self._store.remove(path)

    def add(self, partitions: Sequence[Partition]) -> None:
        """Begin with partitions that are new.

        Raises:
            OvertakenError: another runner has taken the capture over.
            As :meth:`take`.
        """
        self._begin(partitions)
        for partition in partitions:
            self._finish(self._positions[partition])

    def commit(self, partition: Partition, end: int, work: str, path: str) -> None:
        """Commit a file that is whole and durable, and give it its name.

        Args:
            partition: its partition.
            end: the offset behind its last.
            work: its path.
            path: its path from now on.

        Raises:
            OvertakenError: another runner has taken the capture over.
            ConsumerError: the offset cannot be committed, or a program has changed it.
        """
        before = self._positions[partition]
        wanted = before._replace(offset=end, file=path, work=work, runner=self.runner)
        self._change({partition: wanted})
        self._finish(wanted)

    def renew(self) -> None:
        """Commit again what is committed, so that it does not expire.

        Raises:
            As :meth:`commit`.
        """
        self._change(dict(self._positions))

    def _begin(self, partitions: Sequence[Partition]) -> None:
        def attempt(deadline: Deadline) -> dict[Partition, Position]:
            found = self._ledger.look([*self._positions, *partitions], deadline)
            decide_doubt(self._positions, self._positions, found)
            # behind the look: a runner that was just fenced may have read further
            logs = self._observe(partitions, [partition for partition in partitions if partition in found])
            owner = self._store.read_owner()
            if not self._positions:
                everywhere = self._ledger.look(None, deadline)
                has_files = False
                if owner is None:
                    has_files = self._store.has_files()
                    owner = self._store.read_owner()  # again: another runner may have begun the capture between
                check_directory(self._name, owner, has_offsets=bool(everywhere), has_files=has_files)
                check_topics(self._name, *({each.topic for each in some} for some in (partitions, everywhere)))
            captured = {partition.topic for partition in found}
            captured |= {partition.topic for partition, log in logs.items() if log.last_file_end is not None}
            positions = {
                partition: plan_start(
                    self._name,
                    partition,
                    found.get(partition),
                    log,
                    self.runner,
                    skips_lost=self._skips_lost,
                    has_topic=partition.topic in captured,
                )
                for partition, log in logs.items()
            }
            if owner is None:
                self._store.write_owner(self._name)
            self._ledger.commit({partition: each.to_committed() for partition, each in positions.items()}, deadline)
            return positions

        self._positions |= self._in_attempts(attempt, f"capture {self._name} was not taken over")

    def _change(self, wanted: Mapping[Partition, Position]) -> None:
        tries = count()
        after = {**self._positions, **wanted}

        def attempt(deadline: Deadline) -> None:
            if next(tries):
                found = self._ledger.look([*after], deadline)
                if decide_doubt(self._positions, after, found) is Doubt.COMMITTED:
                    return
            self._ledger.commit({partition: each.to_committed() for partition, each in wanted.items()}, deadline)

        self._in_attempts(attempt, f"offsets of capture {self._name} were not committed")
        self._positions = after

    def _in_attempts(self, attempt: Callable[[Deadline], _Found], failure: str) -> _Found:
        if self._is_over:
            raise OvertakenError("this runner ends: an earlier commit of it failed")
        # an attempt that fails may leave a fresh epoch, in which other partitions must not be committed: no look stands before that
        self._is_over = True
        found = self._ledger.in_attempts(attempt, failure)
        self._is_over = False
        return found

    def _finish(self, position: Position) -> None:
        """Give the last file that was committed its name, if it has none."""
        if not position.file:
            return
        store = self._store
        # Before the file: another runner may give it its name between the two questions.
        has_work = store.has(position.work)
        left = plan_publication(has_file=store.has(position.file), has_work=has_work)
        if left is Publication.NAME:
            # a newer runner may have done it meanwhile
            left = Publication.NONE if store.publish(position.work, position.file) else Publication.GONE
            if left is Publication.GONE and store.has(position.file):
                left = Publication.NONE
        elif left is Publication.REMOVE_WORK:
            store.remove(position.work)
        if left is Publication.GONE:
            self._warn(f"{position.file} is not there: it was removed from the directory")
