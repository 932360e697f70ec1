"""The trash: deleted topics that can be restored for a while, under their id, with their settings and records (TRASH-1 to TRASH-5).

A restored partition has no leader and no in-sync replicas at first. The replicas that had all its committed records at deletion are
eligible (ELR-2), and each counts as one that has lost its directory, until its broker has found the log in its trash and said so: the first
one leads. A broker that has not got the log any more reports that instead, as it does at a start (BRK-11), and is eligible no more.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from esp.controller.decision import Decision
from esp.controller.image import ClusterImage, TopicImage, TrashedTopic
from esp.controller.snapshot_records import partition_record
from esp.controller.trash_records import purge_record, trash_record
from esp.model.calendar import LATEST_MS
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import LOST_DIRECTORY, NO_NODE, UNASSIGNED_DIRECTORY, LeaderEpoch, NodeId, TopicId, uuid_to_base64
from esp.model.partition import PartitionState
from esp.schemas.metadata_records import (
    TOPIC_RESOURCE,
    ConfigRecord,
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
)

PARTITIONS_MAX: Final = 100_000
"""Partitions of the topics in the trash; beyond that, topics that were deleted first are purged."""

GRACE_MS: Final = 600_000
"""So much time is left at least to a topic that a new controller finds in the trash, whatever its wall clock says."""


@dataclass(frozen=True, slots=True)
class RestoredTopic:
    """A topic that is there again."""

    name: str
    topic_id: TopicId
    offline: tuple[int, ...]
    """Partitions of which no replica with all records is left: they have no leader until an unclean election."""


def removal_record(image: ClusterImage, topic: TopicImage, now_ms: int) -> RemoveTopicRecord:
    """The record that deletes a topic: into the trash, if it has a time there, until :data:`LATEST_MS` at most."""
    retention_ms = image.trash_retention_ms(topic)
    if retention_ms == 0:
        return RemoveTopicRecord(topic_id=topic.topic_id)
    return trash_record(TrashedTopic(topic, now_ms, min(now_ms + retention_ms, LATEST_MS)))


def plan_overflow(image: ClusterImage, deleted: Iterable[TopicImage]) -> Iterator[ConfigRecord]:
    """The records that keep the trash within bounds when these topics are put in it."""
    surplus = sum(len(topic.partitions) for topic in deleted) - PARTITIONS_MAX
    surplus += sum(len(trashed.topic.partitions) for trashed in image.trashed_topics.values())
    for trashed in image.trashed_topics.values():
        if surplus <= 0:
            break
        surplus -= len(trashed.topic.partitions)
        yield purge_record(trashed)


def decide_restore(image: ClusterImage, topic_id: TopicId, *, is_forced: bool = False) -> Decision[RestoredTopic]:
    """Take a topic out of the trash, as it was (TRASH-3).

    Args:
        image: the newest state, committed or not.
        topic_id: the topic's.
        is_forced: whether it is restored though partitions of it have no replica left that has all their records.

    Raises:
        ApiError: UNKNOWN_TOPIC_ID, TOPIC_ALREADY_EXISTS, INVALID_REQUEST, ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """
    trashed = find_trashed(image, topic_id)
    topic = trashed.topic
    if topic.name in image.topics_by_name:
        raise ApiError(
            ErrorCode.topic_already_exists,
            f"There is another topic named '{topic.name}'. Delete it first: it goes into the trash too, if it has a time there.",
        )
    if any(piece.topic_id != topic_id for piece in image.offset_floors.get(topic.name, {}).values()):
        raise ApiError(
            ErrorCode.invalid_request,
            f"Another topic named '{topic.name}' has used the offsets behind this one's (topic.recreate.offsets=continue); "
            "only the last topic of a name can be restored then.",
        )
    states = [_restored(state) for state in topic.partitions]
    offline = tuple(
        state.partition
        for state in states
        if not any(node in image.brokers for node in (*state.elr, *state.last_known_elr))
    )
    if offline and not is_forced:
        raise ApiError(
            ErrorCode.eligible_leaders_not_available,
            f"No broker is registered that was in sync with partition {offline[0]} of '{topic.name}'"
            f"{f' and {len(offline) - 1} more' if len(offline) > 1 else ''} at deletion. "
            "Restored by force, they have no leader until such a broker comes back, or an unclean election is asked for.",
        )
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += (
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
        for name, value in topic.configs.items()
    )
    records += map(partition_record, states)
    return Decision(tuple(records), RestoredTopic(topic.name, topic_id, offline))


def decide_purge(image: ClusterImage, topic_ids: Sequence[TopicId]) -> Decision[list[TrashedTopic | ApiError]]:
    """Take topics out of the trash for good (TRASH-5); the reply has one entry for each, in that order."""
    records: list[MetadataRecord] = []
    reply: list[TrashedTopic | ApiError] = []
    for topic_id in dict.fromkeys(topic_ids):
        try:
            trashed = find_trashed(image, topic_id)
        except ApiError as error:
            reply.append(error)
        else:
            records.append(purge_record(trashed))
            reply.append(trashed)
    return Decision(tuple(records), reply)


def find_trashed(image: ClusterImage, topic_id: TopicId) -> TrashedTopic:
    """A topic in the trash.

    Raises:
        ApiError: UNKNOWN_TOPIC_ID.
    """
    trashed = image.trashed_topics.get(topic_id)
    if trashed is None:
        has_it = topic_id in image.topics_by_id
        raise ApiError(
            ErrorCode.unknown_topic_id,
            f"The topic of id {uuid_to_base64(topic_id)} is not in the trash"
            f"{': it is there' if has_it else '; it may have been purged'}.",
        )
    return trashed


class TrashClock:
    """The times at which topics in the trash are due, as one controller counts them (TRASH-5).

    Wall clocks step, and a controller's may be wrong. So time runs by the monotonic clock. What passed before this controller saw the
    topic is taken from the wall clock, once, and never for more than leaves a moment of grace.
    """

    def __init__(self) -> None:
        self._due_us: dict[tuple[TopicId, int], int] = {}

    def find_due(self, image: ClusterImage, now_us: int, wall_ms: int) -> list[TopicId]:
        """The topics that are to be purged now.

        Args:
            image: the newest state.
            now_us: by the monotonic clock.
            wall_ms: by the wall clock.
        """
        due_us: dict[tuple[TopicId, int], int] = {}
        for topic_id, trashed in image.trashed_topics.items():
            key = topic_id, trashed.trashed_ms
            known = self._due_us.get(key)
            due_us[key] = now_us + 1_000 * _left_ms(trashed, wall_ms) if known is None else known
        self._due_us = due_us
        return [topic_id for (topic_id, _), at_us in due_us.items() if at_us <= now_us]


def _left_ms(trashed: TrashedTopic, wall_ms: int) -> int:
    retention_ms = trashed.until_ms - trashed.trashed_ms
    return min(max(trashed.until_ms - wall_ms, GRACE_MS), retention_ms)


def _restored(state: PartitionState) -> PartitionState:
    """A partition when its topic has just been restored."""
    complete = {*state.isr, *state.elr}
    elr = tuple(node for node in state.replicas if node in complete)
    last_known = state.last_known_elr if state.leader == NO_NODE else (state.leader,)
    # Without a leader since the last time every log is as it was then, also that of a broker that has heard of nothing since.
    is_unled = state.restored_epoch == state.leader_epoch
    epoch = state.leader_epoch if is_unled else LeaderEpoch(state.leader_epoch + 1)
    candidates: frozenset[NodeId] = frozenset((*elr, *last_known))
    return replace(
        state,
        isr=(),
        leader=NO_NODE,
        leader_epoch=epoch,
        partition_epoch=state.partition_epoch + 1,
        # One that is no candidate may have records all the same, so that an empty log does not lead in its place (BRK-11).
        directories=tuple(LOST_DIRECTORY if node in candidates else UNASSIGNED_DIRECTORY for node in state.replicas),
        elr=elr,
        last_known_elr=last_known,
        restored_epoch=epoch,
    )
