"""The steps of a group from what its members ask for to what they have, whatever protocol they speak (KIP-848).

Expressions are resolved; the group epoch rises if the topics of members, or the topics themselves, ask for another assignment; that is
computed if it is due (:mod:`esp.groups.consumer.assigning`); and the member at hand goes a step towards its target.
"""

from collections.abc import Callable, Collection

from esp.groups.consumer.group import ConsumerGroup
from esp.groups.consumer.operation import Operation
from esp.groups.consumer.reconciliation import Goal, reconcile
from esp.groups.consumer.topics import hash_topics, resolve
from esp.groups.coordinator_state import CoordinatorState
from esp.model.errors import ApiError
from esp.model.now import Now
from esp.schemas.consumer_group_records import (
    ConsumerGroupRecordType,
    CurrentValue,
    GroupEpochValue,
    MemberState,
    MemberValue,
    RegexValue,
    TopicIdPartition,
)

_Type = ConsumerGroupRecordType


class Progress:
    """Takes these steps in operations.

    Args:
        state: the coordinator's state.
    """

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state
        self._catalog = state.topics
        self._seen: dict[str, int] = {}
        """The version of the catalog with which a group's topics were last looked at."""
        self._resolved: dict[tuple[str, str], int] = {}
        """The version of the catalog with which a group's regular expression was last resolved."""

    def resolve(
        self,
        operation: Operation,
        regex_before: str | None,
        about: MemberValue,
        may_describe: Callable[[str], bool],
        now: Now,
    ) -> None:
        """Look up the topics that the member's expression matches, if it is new or there are other topics. Raises ApiError."""
        group = operation.group
        if regex_before is not None and regex_before != about.topic_regex:
            self.forget_unused(operation, regex_before)
        regex = about.topic_regex
        if regex is None:
            return
        known = group.regexes.get(regex)
        key = group.group_id, regex
        if known is not None and self._resolved.get(key) == self._catalog.version:
            return
        try:
            topics = resolve(regex, self._catalog, may_describe)
        except ApiError:
            if known is None:
                raise
            return  # it takes too long by now: the group goes on with the topics that it has
        if topics is None:
            return  # the next heartbeat asks again
        self._resolved[key] = self._catalog.version
        if known is None or known.topics != topics:
            operation.put(_Type.REGEX, RegexValue(topics, self._catalog.offset, now.wall_ms), regex)

    def forget_unused(self, operation: Operation, regex: str) -> None:
        """Forget an expression that no member uses any more."""
        if not operation.group.regex_count(regex):
            operation.put(_Type.REGEX, None, regex)
            self._resolved.pop((operation.group.group_id, regex), None)

    def refresh(self, operation: Operation, *, has_changed: bool) -> None:
        """Raise the group epoch if a member's topics have changed, or the topics themselves."""
        group = operation.group
        version = self._catalog.version
        if not has_changed and self._seen.get(group.group_id) == version:
            return
        self._seen[group.group_id] = version
        metadata_hash = hash_topics(self._catalog, group.topic_names)
        if has_changed or metadata_hash != group.metadata_hash:
            operation.put(_Type.GROUP_EPOCH, GroupEpochValue(group.epoch + 1, metadata_hash))

    def is_up_to_date(self, group: ConsumerGroup, regex: str | None) -> bool:
        """True if the assignment is that of the topics as they are, for all that is known, and of those that an expression matches."""
        version = self._catalog.version
        return (
            group.is_at_target
            and self._seen.get(group.group_id) == version
            and (regex is None or (regex in group.regexes and self._resolved.get((group.group_id, regex)) == version))
        )

    def advance(
        self,
        operation: Operation,
        member_id: str,
        current: CurrentValue,
        owned: Collection[TopicIdPartition] | None,
        *,
        has_changed: bool,
    ) -> CurrentValue:
        """Let a member go a step towards its target; returns its place.

        Args:
            operation: what it is part of.
            member_id: the member.
            current: its place so far.
            owned: the partitions that it says it has; None if it does not say.
            has_changed: whether the topics to which it is subscribed have just changed.
        """
        group = operation.group
        if current.state is MemberState.STABLE and current.epoch == group.assignment_epoch and not has_changed:
            return current
        member = group.find(member_id)
        assert member is not None
        topic_ids = {
            known.topic.topic_id
            for name in group.topics_of(member.about)
            if (known := self._catalog.find(name)) is not None
        }
        target = group.target_of(member_id)
        if not topic_ids.issuperset([one.topic_id for one in target]):
            target = frozenset(one for one in target if one.topic_id in topic_ids)
        goal = Goal(
            group.assignment_epoch,
            target,
            has_changed,
            lambda partition: partition.topic_id in topic_ids,
        )
        return reconcile(current, goal, owned, lambda partition: group.owner_of(partition) in (None, member_id))

    def forget(self, group_id: str) -> None:
        """The group has no members, or an operation on it is undone: no record says what was seen of the topics."""
        self._seen.pop(group_id, None)
        for key in [key for key in self._resolved if key[0] == group_id]:
            del self._resolved[key]
