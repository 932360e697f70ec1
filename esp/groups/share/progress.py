"""The steps of a share group from what its members ask for to what they have (KIP-932).

The group epoch rises if the topics of members, the topics themselves, or partitions that were initialised ask for another assignment, which
:mod:`esp.groups.share.assigning` computes; and the member at hand is told what it is to have. No member has to give anything back first:
partitions are shared.
"""

from esp.groups.consumer.topics import hash_topics
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.share.group import ShareGroup
from esp.groups.share.operation import ShareOperation
from esp.groups.share.partitions import partitions_of
from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import GroupEpochValue, TopicIdPartition
from esp.schemas.share_group_records import ShareCurrentValue, ShareGroupRecordType, SharePartitionsValue

_Type = ShareGroupRecordType


class ShareProgress:
    """Takes these steps in operations.

    Args:
        state: the coordinator's state.
    """

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state
        self._catalog = state.topics
        self._seen: dict[str, tuple[int, SharePartitionsValue, int]] = {}
        """For each group the version of the catalog, the initialised partitions and the assignment epoch that were last looked at."""

    def refresh(self, operation: ShareOperation, *, has_changed: bool) -> None:
        """Raise the group epoch if another assignment is needed.

        Args:
            operation: what it is part of.
            has_changed: whether it is known already that the epoch has to rise.
        """
        group = operation.group
        now_seen = self._catalog.version, group.partitions, group.assignment_epoch
        before = self._seen.get(group.group_id)
        if not has_changed and before is not None and _is_same(before, now_seen):
            return
        self._seen[group.group_id] = now_seen
        metadata_hash = hash_topics(self._catalog, group.topic_names)
        if has_changed or metadata_hash != group.metadata_hash or self._has_unassigned(group):
            operation.put(_Type.GROUP_EPOCH, GroupEpochValue(group.epoch + 1, metadata_hash))

    def is_up_to_date(self, group: ShareGroup) -> bool:
        """True if the assignment is that of the topics and partitions as they are, for all that is known."""
        before = self._seen.get(group.group_id)
        now_seen = self._catalog.version, group.partitions, group.assignment_epoch
        return group.is_at_target and before is not None and _is_same(before, now_seen)

    def advance(
        self, operation: ShareOperation, member_id: str, current: ShareCurrentValue, *, has_changed: bool
    ) -> ShareCurrentValue:
        """Let a member have its target; returns its place.

        Args:
            operation: what it is part of.
            member_id: the member.
            current: its place so far.
            has_changed: whether the topics to which it is subscribed have just changed.
        """
        group = operation.group
        if current.epoch == group.assignment_epoch and not has_changed:
            return current
        member = group.find(member_id)
        assert member is not None
        by_name = self._topic_ids(group)
        topic_ids = {by_name[name] for name in member.about.topic_names if name in by_name}
        wanted = frozenset(one for one in group.target_of(member_id) if one.topic_id in topic_ids)
        if current.epoch == group.assignment_epoch:
            return current._replace(assigned=wanted)
        return ShareCurrentValue(group.assignment_epoch, current.epoch, wanted)

    def forget(self, group_id: str) -> None:
        """The group has no members, or an operation on it is undone: no record says what was looked at."""
        self._seen.pop(group_id, None)

    def _topic_ids(self, group: ShareGroup) -> dict[str, TopicId]:
        return {
            name: known.topic.topic_id for name in group.topic_names if (known := self._catalog.find(name)) is not None
        }

    def _assignable(self, group: ShareGroup) -> frozenset[TopicIdPartition]:
        """The initialised partitions of topics to which a member is subscribed (SHARE-23)."""
        topic_ids = frozenset(self._topic_ids(group).values())
        initialised = group.partitions.initialised
        return partitions_of({key: known for key, known in initialised.items() if key in topic_ids})

    def _has_unassigned(self, group: ShareGroup) -> bool:
        """True if partitions were initialised since the target assignment was computed, and no other one is to come."""
        if group.epoch != group.assignment_epoch:
            return False
        return not self._assignable(group) <= frozenset().union(*group.targets.values())


def _is_same(before: tuple[int, SharePartitionsValue, int], now: tuple[int, SharePartitionsValue, int]) -> bool:
    """Values are replaced, never changed: their identity says enough."""
    return before[0] == now[0] and before[1] is now[1] and before[2] == now[2]
