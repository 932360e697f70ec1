"""All groups of a coordinator: the newest state, and which of them are committed.

Requests that change something find a group as soon as it is made; requests that only read find it once its record is committed.
"""

from collections import Counter
from collections.abc import Iterator

from esp.groups.group import Group


class GroupDirectory:
    """Groups by their id."""

    def __init__(self) -> None:
        self._newest: dict[str, Group] = {}
        self._committed: dict[str, Group] = {}
        self._removals: Counter[str] = Counter()

    def find(self, group_id: str) -> Group | None:
        """The group, committed or not."""
        return self._newest.get(group_id)

    def find_committed(self, group_id: str) -> Group | None:
        """The group, if clients may see it."""
        return self._committed.get(group_id)

    def newest(self) -> list[Group]:
        """All groups, in the order in which they were made."""
        return list(self._newest.values())

    def committed(self) -> Iterator[Group]:
        """All groups that clients may see."""
        return iter(self._committed.values())

    def add(self, group: Group) -> None:
        """A group is made, in place of a former one."""
        self._newest[group.group_id] = group

    def commit(self, group: Group) -> None:
        """A record of the group is committed."""
        self._committed[group.group_id] = group

    def remove(self, group: Group) -> None:
        """A group is removed, without a record of that."""
        if self._newest.get(group.group_id) is group:
            del self._newest[group.group_id]

    def is_being_removed(self, group_id: str) -> bool:
        """True if the tombstone of a group of this name is not committed yet."""
        return group_id in self._removals

    def begin_removal(self, group: Group) -> None:
        """A group's tombstone is on its way into the log."""
        self.remove(group)
        self._removals[group.group_id] += 1

    def end_removal(self, group: Group, *, is_committed: bool) -> None:
        """The tombstone is committed, or will never be: then the group is there again, unless there is another of its name."""
        self._removals[group.group_id] -= 1
        if not self._removals[group.group_id]:
            del self._removals[group.group_id]
        if is_committed:
            self.forget(group)
        else:
            self._newest.setdefault(group.group_id, group)

    def forget(self, group: Group) -> None:
        """The removal of a group is committed."""
        self.remove(group)
        if self._committed.get(group.group_id) is group:
            del self._committed[group.group_id]
