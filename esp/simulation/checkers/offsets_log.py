"""The committed offsets of groups as the records of ``__consumer_offsets`` tell them, and the rule for each offset that expires (KIP-211).

A tombstone is held against the records before it: the offset that it removes, with the time of its commit, and the group's last generation,
with its members, their subscriptions and the time at which the group became empty. These times and the tombstone's own are those of the
coordinators' wall clocks, as the rule has them. Every batch is read when it is first seen to be committed. A group of KIP-848 has its
members and their subscriptions in records of their own, which are replayed; its time runs from the commit alone.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from esp.groups.consumer.group import ConsumerGroup
from esp.groups.group import PROTOCOL_TYPE, read_subscribed_topics
from esp.model.ids import OFFSETS_TOPIC, TopicPartition
from esp.records.batch import iterate_records
from esp.schemas.consumer_group_record_codec import decode_consumer_group_record
from esp.schemas.consumer_group_records import ConsumerGroupRecord
from esp.schemas.group_record_codec import decode_group_record
from esp.schemas.group_records import NO_TIMESTAMP, GroupMetadataValue, OffsetCommitRecord, OffsetCommitValue
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.checkers.violation import ViolationError

NO_GENERATION: Final = 0
"""The generation of a group of which no record tells."""

_NONE: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(slots=True)
class _LoggedOffset:
    """The records of one group's offset of one partition."""

    value: OffsetCommitValue | None = None
    since_tombstone: dict[str, None] = field(default_factory=dict)
    """The texts beside the commits that follow the last tombstone."""
    expired: dict[str, float] = field(default_factory=dict)
    """The time at which the tombstone behind a commit was seen, in seconds, by the text beside the commit."""


class OffsetsLog:
    """Follows the committed records of all groups, and checks each tombstone of an offset.

    Args:
        clock: virtual seconds.
        retention_ms: ``offsets.retention.minutes`` of all nodes; None: offsets do not expire in this run, and nothing is followed.
        is_excused: whether more of a group's partition was lost than is promised (ELECT-5).
        is_watched: whether a group's offsets are removed by nothing but time: groups of clients that delete offsets are not.
        is_exempt: whether offsets of a group stay for ever (``offsets.retention.exempt.groups``).
        generation_at: the generation of a group at the coordinator of a partition of ``__consumer_offsets`` in a leader epoch; None if
            there is no such coordinator any more.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        retention_ms: int | None,
        is_excused: Callable[[str], bool],
        is_watched: Callable[[str], bool],
        is_exempt: Callable[[str], bool],
        generation_at: Callable[[int, int, str], int | None],
    ) -> None:
        self.expiries = 0
        """Offsets that expired."""
        self.unwitnessed = 0
        """Offsets that expired too early by the log, of groups whose coordinators could not write a newer generation, or have ended."""
        self._clock = clock
        self._retention_ms = retention_ms
        self._is_excused = is_excused
        self._is_watched = is_watched
        self._is_exempt = is_exempt
        self._generation_at = generation_at
        self._offsets: dict[tuple[str, TopicPartition], _LoggedOffset] = {}
        self._groups: dict[str, GroupMetadataValue] = {}
        self._consumers: dict[str, ConsumerGroup] = {}
        """The groups of KIP-848."""

    def expired(self, group_id: str, partition: TopicPartition) -> Mapping[str, float]:
        """The times at which the tombstones of a partition's commits were seen, in seconds, by the texts beside the commits."""
        logged = self._offsets.get((group_id, partition))
        return _NONE if logged is None else logged.expired

    def find_left(self, group_id: str) -> list[str]:
        """The traces of a group in the log, as sentences: offsets that have not expired, and the group itself."""
        left = [f"{group_id} has an offset of {place}" for place in self._places(group_id)]
        return [*left, f"{group_id} is there"] if group_id in self._consumers else left

    def _places(self, group_id: str) -> list[TopicPartition]:
        return [place for (group, place), logged in self._offsets.items() if group == group_id and logged.value]

    def on_committed(self, partition: TopicPartition, batches: Iterable[BatchView]) -> None:
        """Batches were seen to be committed for the first time.

        Raises:
            ViolationError: INV-GROUP-EXPIRY.
        """
        if self._retention_ms is None or partition.topic != OFFSETS_TOPIC:
            return
        for batch in batches:
            if batch.is_control:
                continue
            for record in iterate_records(bytes(batch.content.written(batch.position, batch.position + batch.size))):
                assert record.key is not None, "a compacted topic has keys"
                of_consumers = decode_consumer_group_record(record.key, record.value)
                if of_consumers is not None:
                    self._on_consumers(of_consumers)
                    continue
                decoded = decode_group_record(record.key, record.value)
                if decoded is None or not self._is_watched(decoded.key.group):
                    continue
                if not isinstance(decoded, OffsetCommitRecord):
                    self._on_generation(decoded.key.group, decoded.value)
                    continue
                place = TopicPartition(decoded.key.topic, decoded.key.partition)
                logged = self._offsets.setdefault((decoded.key.group, place), _LoggedOffset())
                if decoded.value is None:
                    self._on_tombstone(decoded.key.group, place, logged, record.timestamp, (partition, batch))
                else:
                    logged.value = decoded.value
                    logged.since_tombstone[decoded.value.metadata] = None

    def _on_generation(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is not None:
            self._groups[group_id] = value
            return
        former = self._groups.pop(group_id, None)
        left = self._places(group_id)
        if (left or (former is not None and former.members)) and not self._is_excused(group_id):
            raise ViolationError(
                "INV-GROUP-EXPIRY", group_id, f"is removed with the offsets of {left}; its last generation is {former}"
            )

    def _on_consumers(self, record: ConsumerGroupRecord) -> None:
        """A record of a group of KIP-848; without its last one the group is removed."""
        group_id = record.key.group_id
        if not self._is_watched(group_id):
            return
        group = self._consumers.setdefault(group_id, ConsumerGroup(group_id))
        group.apply(record)
        if not group.is_forgotten:
            return
        del self._consumers[group_id]
        left = self._places(group_id)
        if left and not self._is_excused(group_id):
            raise ViolationError("INV-GROUP-EXPIRY", group_id, f"is removed with the offsets of {left}")

    def _on_tombstone(
        self,
        group_id: str,
        place: TopicPartition,
        logged: _LoggedOffset,
        wall_ms: int,
        at: tuple[TopicPartition, BatchView],
    ) -> None:
        value, now_s = logged.value, self._clock()
        logged.value = None
        for metadata in logged.since_tombstone:
            logged.expired[metadata] = now_s
        logged.since_tombstone.clear()
        if value is None or self._is_excused(group_id):
            return
        if self._is_exempt(group_id):
            raise ViolationError(
                "INV-GROUP-EXPIRY", f"{group_id}, {place}", f"{value} expired, and the group is exempt"
            )
        self.expiries += 1
        consumers = self._consumers.get(group_id)
        if consumers is not None and consumers.is_subscribed_to(place.topic):
            raise ViolationError(
                "INV-GROUP-EXPIRY", f"{group_id}, {place}", f"{value} expired, and members read the topic"
            )
        wrong = self._find_reason_to_stay(self._groups.get(group_id), place, value, wall_ms)
        if wrong is None:
            return
        partition, batch = at
        known = self._groups[group_id].generation if group_id in self._groups else NO_GENERATION
        present = self._generation_at(partition.partition, batch.leader_epoch, group_id)
        if consumers is None and (present is None or present > known):  # it became empty, and could not write that
            self.unwitnessed += 1
            return
        raise ViolationError("INV-GROUP-EXPIRY", f"{group_id}, {place}", f"{value} expired at {wall_ms}: {wrong}")

    def _find_reason_to_stay(
        self, group: GroupMetadataValue | None, place: TopicPartition, value: OffsetCommitValue, wall_ms: int
    ) -> str | None:
        assert self._retention_ms is not None
        since_ms = value.commit_timestamp_ms
        if group is not None and group.members:
            topics = [read_subscribed_topics(member.subscription) for member in group.members]
            if group.protocol_type != PROTOCOL_TYPE or any(read is None or place.topic in read for read in topics):
                return f"members of generation {group.generation} read the topic"
        elif group is not None and group.protocol_type and group.current_state_timestamp_ms != NO_TIMESTAMP:
            since_ms = group.current_state_timestamp_ms
        if value.expire_timestamp_ms != NO_TIMESTAMP:
            return None if wall_ms >= value.expire_timestamp_ms else "its client asked for more time"
        return None if wall_ms - since_ms >= self._retention_ms else f"it was in use until {since_ms}"
