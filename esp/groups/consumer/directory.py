"""The consumer groups of a coordinator: each as its newest records leave it, and as the committed ones do.

Requests that change something go by the newest state, requests that only show groups by the committed one. Both come about by the same
records, applied once when they are written and once when they are committed.
"""

from collections.abc import Iterable, Iterator, Sequence

from esp.groups.consumer.group import ConsumerGroup
from esp.schemas.consumer_group_records import ConsumerGroupRecord


class ConsumerGroups:
    """Groups by their id."""

    def __init__(self) -> None:
        self._newest: dict[str, ConsumerGroup] = {}
        self._committed: dict[str, ConsumerGroup] = {}

    def find(self, group_id: str) -> ConsumerGroup | None:
        """The group with all its records, committed or not."""
        return self._newest.get(group_id)

    def find_committed(self, group_id: str) -> ConsumerGroup | None:
        """The group as clients may see it."""
        return self._committed.get(group_id)

    def newest(self) -> list[ConsumerGroup]:
        """All groups, in the order in which they came about."""
        return list(self._newest.values())

    def committed(self) -> Iterator[ConsumerGroup]:
        """All groups that clients may see."""
        return iter(self._committed.values())

    def apply(self, record: ConsumerGroupRecord) -> ConsumerGroupRecord:
        """A record is on its way into the log; returns the record that undoes it."""
        return _apply(self._newest, record)

    def undo(self, inverses: Sequence[ConsumerGroupRecord]) -> None:
        """Records are not in the log and never will be: apply what :meth:`apply` returned for them, the last one first."""
        for inverse in reversed(inverses):
            _apply(self._newest, inverse)

    def commit(self, records: Iterable[ConsumerGroupRecord]) -> None:
        """Records are committed."""
        for record in records:
            _apply(self._committed, record)

    def replay(self, record: ConsumerGroupRecord) -> None:
        """A record of the log is read, which is committed."""
        self.apply(record)
        self.commit((record,))


def _apply(groups: dict[str, ConsumerGroup], record: ConsumerGroupRecord) -> ConsumerGroupRecord:
    group_id = record.key.group_id
    group = groups.get(group_id)
    if group is None:
        group = groups[group_id] = ConsumerGroup(group_id)
    inverse = group.apply(record)
    if group.is_forgotten:
        del groups[group_id]
    return inverse
