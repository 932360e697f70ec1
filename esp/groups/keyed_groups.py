"""Groups that are the values of their keys in the log, and operations on them, for whatever protocol (KIP-848, KIP-932).

A directory holds each group as its newest records leave it, and as the committed ones do. Requests that change something go by the newest
state, requests that only show groups by the committed one. Both come about by the same records, applied once when they are written and
once when they are committed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from esp.model.errors import ErrorCode
from esp.model.now import Now


class GroupKey(Protocol):
    """The part of a group that a value is of."""

    @property
    def group_id(self) -> str:
        """The group's name."""


class KeyedRecord(Protocol):
    """A part of a group is this from now on."""

    @property
    def key(self) -> GroupKey:
        """The part of the group."""

    @property
    def value(self) -> object:
        """None if it is gone."""


Record = TypeVar("Record", bound=KeyedRecord)


class KeyedGroup(Protocol[Record]):
    """A group that comes about by its records."""

    def apply(self, record: Record, /) -> Record:
        """Let one key have this value, or none; returns the record that undoes it."""

    def value_of(self, key: Any, /) -> object:
        """The value of a key; None if it has none."""

    @property
    def is_forgotten(self) -> bool:
        """True if no key of it has a value: there is no such group."""


Group = TypeVar("Group", bound=KeyedGroup[Any])


class KeyedGroups(Generic[Group, Record]):
    """Groups by their id.

    Args:
        make: makes a group of this name that has no value yet.
    """

    def __init__(self, make: Callable[[str], Group]) -> None:
        self._make: Final = make
        self._newest: dict[str, Group] = {}
        self._committed: dict[str, Group] = {}

    def find(self, group_id: str) -> Group | None:
        """The group with all its records, committed or not."""
        return self._newest.get(group_id)

    def find_or_make(self, group_id: str) -> Group:
        """As :meth:`find`; a group without any value if it is not there, which does not come about by that."""
        found = self._newest.get(group_id)
        return self._make(group_id) if found is None else found

    def find_committed(self, group_id: str) -> Group | None:
        """The group as clients may see it."""
        return self._committed.get(group_id)

    def newest(self) -> list[Group]:
        """All groups, in the order in which they came about."""
        return list(self._newest.values())

    def committed(self) -> Iterator[Group]:
        """All groups that clients may see."""
        return iter(self._committed.values())

    def apply(self, record: Record) -> Record:
        """A record is on its way into the log; returns the record that undoes it."""
        return self._apply(self._newest, record)

    def undo(self, inverses: Sequence[Record]) -> None:
        """Records are not in the log and never will be: apply what :meth:`apply` returned for them, the last one first."""
        for inverse in reversed(inverses):
            self._apply(self._newest, inverse)

    def commit(self, records: Iterable[Record]) -> None:
        """Records are committed."""
        for record in records:
            self._apply(self._committed, record)

    def replay(self, record: Record) -> None:
        """A record of the log is read, which is committed."""
        self.apply(record)
        self.commit((record,))

    def _apply(self, groups: dict[str, Group], record: Record) -> Record:
        group_id = record.key.group_id
        group = groups.get(group_id)
        if group is None:
            group = groups[group_id] = self._make(group_id)
        inverse: Record = group.apply(record)
        if group.is_forgotten:
            del groups[group_id]
        return inverse


class KeyedOperation(Generic[Group, Record]):
    """One operation on a group: its records, which count for the next one at once and go into the log in one batch, or not at all.

    Args:
        groups: the groups of its protocol.
        group_id: the group that it is about; it may not be there yet.
    """

    def __init__(self, groups: KeyedGroups[Group, Record], group_id: str) -> None:
        self._groups = groups
        self._group_id = group_id
        self._records: list[Record] = []
        self._inverses: list[Record] = []

    @property
    def group(self) -> Group:
        """The group with all records so far; one without any if it is not there."""
        return self._groups.find_or_make(self._group_id)

    def undo(self) -> None:
        """It is refused: nothing of it counts."""
        self._groups.undo(self._inverses)
        self._records.clear()
        self._inverses.clear()

    def _write(self, record: Record) -> None:
        """Let a part of the group be this from now on; nothing is written if it is so already."""
        if self.group.value_of(record.key) != record.value:
            self._records.append(record)
            self._inverses.append(self._groups.apply(record))

    def _settle(self, error: ErrorCode | None, undone: Callable[[Now], None], now: Now) -> None:
        """The log has the records, or never will: then nothing of the operation counts any more."""
        if error is None:
            self._groups.commit(self._records)
        else:
            self._groups.undo(self._inverses)
            undone(now)
