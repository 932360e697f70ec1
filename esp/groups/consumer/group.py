"""A consumer group (KIP-848): the values of its keys, and what follows from them. It makes no decisions.

Invariants, after each whole operation: a partition has one owner at most, the member to which it is assigned or which must give it back; an
instance's id belongs to one member; no member is beyond the assignment epoch, which is not beyond the group epoch.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.groups.assigned_group import AssignedGroup
from esp.groups.group import PROTOCOL_TYPE
from esp.groups.requests import Protocol
from esp.schemas.consumer_group_records import (
    ConsumerGroupKey,
    ConsumerGroupRecord,
    ConsumerGroupRecordType,
    CurrentValue,
    MemberState,
    MemberValue,
    RegexValue,
    TopicIdPartition,
    Value,
)

NOTHING: Final = CurrentValue(0, 0, MemberState.STABLE, MappingProxyType({}), MappingProxyType({}))
"""The place of a member that has just joined."""

_Type = ConsumerGroupRecordType


class ConsumerGroupState(Enum):
    """The state of a group, which follows from its epochs and members; the values are the names that clients see."""

    EMPTY = "Empty"
    """It has no members; its offsets stay until they expire."""
    ASSIGNING = "Assigning"
    """The assignment of the group epoch is not computed yet."""
    RECONCILING = "Reconciling"
    """Members are on their way to their targets."""
    STABLE = "Stable"
    """Each member has its target."""


class ConsumerMember(NamedTuple):
    """A member of a consumer group."""

    member_id: str
    about: MemberValue
    current: CurrentValue


class ConsumerGroup(AssignedGroup[ConsumerGroupKey, Value]):
    """A group, which comes about by :meth:`apply`.

    Args:
        group_id: its name.
    """

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self._about: Final[dict[str, MemberValue]] = {}
        self._current: Final[dict[str, CurrentValue]] = {}
        self._regexes: Final[dict[str, RegexValue]] = {}
        self._owners: Final[dict[TopicIdPartition, str]] = {}
        self._rivals: Final[dict[TopicIdPartition, list[str]]] = {}
        """By partition the further members that have it: none, but by a log from which compaction has taken a member's last step."""
        self._static: Final[dict[str, str]] = {}
        self._classic_count = 0
        self._classic_protocols: Final[Counter[str]] = Counter()
        self._regex_counts: Final[Counter[str]] = Counter()
        self._basis_version = 0

    def apply(self, record: ConsumerGroupRecord) -> ConsumerGroupRecord:
        """Let one key have this value, or none; returns the record that undoes it."""
        key, value = record
        before = self._remember(key, value)
        match key.type:
            case _Type.GROUP_EPOCH:
                self._set_epoch(value)
            case _Type.TARGET_EPOCH:
                self._set_target_epoch(value)
            case _Type.MEMBER:
                self._basis_version += 1
                self._set_about(key.name, value if isinstance(value, MemberValue) else None)
            case _Type.CURRENT:
                self._set_current(key.name, value if isinstance(value, CurrentValue) else None)
            case _Type.TARGET:
                self._basis_version += 1
                self._set_target(key.name, value)
            case _Type.REGEX:
                self._basis_version += 1
                self._set_regex(key.name, value if isinstance(value, RegexValue) else None)
            case _Type.PARTITION_METADATA:
                pass
        return ConsumerGroupRecord(key, before)

    # The group.

    @property
    def state(self) -> ConsumerGroupState:
        """The state of the group."""
        if not self._about:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        is_stable = all(
            member.current.state is MemberState.STABLE and member.current.epoch == self.assignment_epoch
            for member in self
        )
        return ConsumerGroupState.STABLE if is_stable else ConsumerGroupState.RECONCILING

    @property
    def basis_version(self) -> int:
        """Rises with each change of something that an assignment rests on: members, their targets, the topics of expressions."""
        return self._basis_version

    # Members.

    def __len__(self) -> int:
        return len(self._about)

    def __iter__(self) -> Iterator[ConsumerMember]:
        for member_id, about in self._about.items():
            yield ConsumerMember(member_id, about, self._current.get(member_id, NOTHING))

    def find(self, member_id: str) -> ConsumerMember | None:
        """The member with this id."""
        about = self._about.get(member_id)
        return None if about is None else ConsumerMember(member_id, about, self._current.get(member_id, NOTHING))

    def find_static(self, instance_id: str) -> ConsumerMember | None:
        """The member that is this instance."""
        member_id = self._static.get(instance_id)
        return None if member_id is None else self.find(member_id)

    def owner_of(self, partition: TopicIdPartition) -> str | None:
        """The id of the member that has a partition, or has not given it back yet."""
        owner = self._owners.get(partition)
        if owner is None or owner in self._about:
            return owner
        return next((rival for rival in self._rivals.get(partition, ()) if rival in self._about), None)

    @property
    def contested(self) -> list[TopicIdPartition]:
        """The partitions that several members have."""
        return sorted(
            partition
            for partition, rivals in self._rivals.items()
            if sum(member_id in self._about for member_id in (self._owners[partition], *rivals)) > 1
        )

    # Members of the classic protocol.

    def consists_of_classic(self, *, without: Collection[str]) -> bool:
        """True if there are members besides these, and all of them speak the classic protocol."""
        if not self._classic_count:
            return False
        others = [about for member_id, about in self._about.items() if member_id not in without]
        return bool(others) and all(about.classic is not None for about in others)

    @property
    def has_consumers(self) -> bool:
        """True if a member speaks the consumer protocol."""
        return self._classic_count < len(self._about)

    def supports(self, protocol_type: str, protocols: Collection[Protocol]) -> bool:
        """True if a client of the classic protocol can take part: it has a way to assign in common with all that speak it."""
        return protocol_type == PROTOCOL_TYPE and any(
            self._classic_protocols[protocol.name] == self._classic_count for protocol in protocols
        )

    # Subscriptions.

    def topics_of(self, about: MemberValue) -> frozenset[str]:
        """The names of the topics to which a member is subscribed, known to the cluster or not."""
        return frozenset(subscribed_names(about, self._regexes))

    @property
    def topic_names(self) -> frozenset[str]:
        """The names of the topics to which any member is subscribed."""
        names = set(self._name_counts)
        for regex in self._regex_counts:
            found = self._regexes.get(regex)
            if found is not None:
                names.update(found.topics)
        return frozenset(names)

    def is_subscribed_to(self, topic: str) -> bool:
        """True if a member reads the topic."""
        return topic in self._name_counts or any(
            regex in self._regex_counts and topic in found.topics for regex, found in self._regexes.items()
        )

    @property
    def regexes(self) -> Mapping[str, RegexValue]:
        """The regular expressions that are resolved."""
        return self._regexes

    def regex_count(self, regex: str) -> int:
        """The number of members that use a regular expression."""
        return self._regex_counts[regex]

    # Values.

    def _set_about(self, member_id: str, about: MemberValue | None) -> None:
        before = self._about.get(member_id)
        if before is not None:
            self._count(before, -1)
            if before.instance_id is not None and self._static.get(before.instance_id) == member_id:
                del self._static[before.instance_id]
        if about is None:
            self._about.pop(member_id, None)
            return
        self._about[member_id] = about
        self._count(about, 1)
        if about.instance_id is not None:
            self._static[about.instance_id] = member_id

    def _count(self, about: MemberValue, step: int) -> None:
        if about.classic is not None:
            self._classic_count += step
            for protocol in about.classic.protocols:
                self._classic_protocols[protocol.name] += step
        self._count_names(about.topic_names, step)
        if about.topic_regex is not None:
            self._regex_counts[about.topic_regex] += step
            if not self._regex_counts[about.topic_regex]:
                del self._regex_counts[about.topic_regex]

    def _set_current(self, member_id: str, current: CurrentValue | None) -> None:
        before = self._current.pop(member_id, None)
        held_before, held = _held(before), _held(current)
        for partition in held_before - held:
            self._disown(partition, member_id)
        if current is not None:
            self._current[member_id] = current
            for partition in held - held_before:
                owner = self._owners.setdefault(partition, member_id)
                if owner != member_id:
                    self._rivals.setdefault(partition, []).append(member_id)

    def _disown(self, partition: TopicIdPartition, member_id: str) -> None:
        rivals = self._rivals.get(partition)
        if rivals is None:
            if self._owners.get(partition) == member_id:
                del self._owners[partition]
            return
        if self._owners.get(partition) == member_id:
            self._owners[partition] = rivals.pop(0)
        elif member_id in rivals:
            rivals.remove(member_id)
        if not rivals:
            del self._rivals[partition]

    def _set_regex(self, regex: str, found: RegexValue | None) -> None:
        if found is None:
            self._regexes.pop(regex, None)
        else:
            self._regexes[regex] = found


def _held(current: CurrentValue | None) -> set[TopicIdPartition]:
    """The partitions that a member has, or must give back."""
    held: set[TopicIdPartition] = set()
    if current is not None:  # no partition is hashed again
        held.update(current.assigned)
        held.update(current.pending_revocation)
    return held


def subscribed_names(about: MemberValue, regexes: Mapping[str, RegexValue]) -> tuple[str, ...]:
    """The names of the topics to which a member is subscribed, some perhaps twice.

    Args:
        about: the member.
        regexes: the topics of regular expressions.
    """
    found = None if about.topic_regex is None else regexes.get(about.topic_regex)
    return about.topic_names if found is None else (*about.topic_names, *found.topics)
