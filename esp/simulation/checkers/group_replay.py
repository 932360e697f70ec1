"""A group as its committed records tell it: all of them in the order of the log, and those that a compaction leaves.

Compaction takes records from the part of the log below some offset: all but the last one of each key, and tombstones after some time. The
other records stay in their order. A coordinator may find the log at any such stage when it loads it, and must come to the same group.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from random import Random
from typing import Final, Generic, TypeVar

from esp.groups.keyed_groups import Group, KeyedRecord
from esp.simulation.checkers.violation import ViolationError

CLEANED_SHARE: Final = 0.2
"""The share of the looks at a group before which compaction takes records of it."""

TOMBSTONE_SHARE: Final = 0.5
"""The share of the tombstones in the compacted part that stay, as their time is not over."""

Record = TypeVar("Record", bound=KeyedRecord)


class GroupReplay(Generic[Group, Record]):
    """See the module.

    Args:
        group_id: the name of the group.
        make: makes a group of a name that has no value yet.
        rng: decides what compaction takes, and when.
    """

    def __init__(self, group_id: str, make: Callable[[str], Group], rng: Random) -> None:
        self.group: Final = make(group_id)
        """The group by all records."""
        self._group_id = group_id
        self._make = make
        self._rng = rng
        self._kept: list[Record] = []
        """The records that compaction has left."""
        self._later: list[Record] = []
        """The records behind them."""

    def apply(self, record: Record) -> None:
        """A record of the group is committed."""
        self.group.apply(record)
        self._later.append(record)

    def compacted(self) -> Group:
        """The group by the records that compaction leaves."""
        if self._rng.random() < CLEANED_SHARE:
            self._compact()
        found = self._make(self._group_id)
        for record in chain(self._kept, self._later):
            found.apply(record)
        return found

    def check(self, where: str, shown: object, values: Callable[[Group], Mapping[str, object]]) -> None:
        """A coordinator shows the group, when the log has ended and nothing of it is on its way.

        Args:
            where: the coordinator's name.
            shown: all that its group shows.
            values: all that a group shows.

        Raises:
            ViolationError: INV-GROUP-REPLAY.
        """
        for whose, group in (("its log", self.group), ("its log, compacted,", self.compacted())):
            mine = {} if group.is_forgotten else values(group)
            if mine != shown:
                raise ViolationError("INV-GROUP-REPLAY", f"{where}, {self._group_id}", f"has {shown}, {whose} {mine}")

    def _compact(self) -> None:
        """Compact the records up to one of them."""
        end = self._rng.randint(0, len(self._later))
        last: dict[object, Record] = {}
        for record in chain(self._kept, self._later[:end]):
            last.pop(record.key, None)
            last[record.key] = record
        self._kept = list(self._without_some_tombstones(last.values()))
        del self._later[:end]

    def _without_some_tombstones(self, records: Iterable[Record]) -> Iterator[Record]:
        return (one for one in records if one.value is not None or self._rng.random() < TOMBSTONE_SHARE)
