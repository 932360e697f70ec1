"""Adding partitions to topics (KIP-195). Rules, error codes and texts are those of Kafka 4.3's controller.

A new partition gets as many replicas as the first one has, or will have when its reassignment has ended: Kafka counts replicas that come
and replicas that go as well, and so makes partitions with too many.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from esp.controller.assignment import check_assignment, invalid_assignment, new_partition_record, place_partitions
from esp.controller.decision import BATCH_RECORDS_MAX, Decision
from esp.controller.image import ClusterImage
from esp.controller.mutations import Admits, admit_all, require_admitted
from esp.controller.offset_floors import starting_floors
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.placement.striped import PlacementError
from esp.ports.random import Random
from esp.schemas.metadata_records import PartitionRecord


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The number of partitions a topic shall have altogether, and the replicas of each new one, leader first; None has them placed."""

    topic: str
    count: int
    assignments: Sequence[tuple[NodeId, ...]] | None = None


def decide_create_partitions(
    image: ClusterImage,
    wanted: Sequence[NewPartitions],
    random: Random,
    *,
    validate_only: bool,
    admits: Admits = admit_all,
) -> Decision[list[ApiError | None]]:
    """Add partitions to topics; the reply has one entry for each, in that order, None for success.

    One request causes at most ``BATCH_RECORDS_MAX`` records: if it would cause more, nothing is created. Kafka has no such bound here, and
    creates a part of them.

    Args:
        image: the newest state, committed or not.
        wanted: topics, each of them once.
        random: for where placement begins.
        validate_only: decide, and do nothing.
        admits: asked for the new partitions of each topic that nothing else speaks against.
    """
    additional = sum(max(0, _additional(image, one)) for one in wanted)
    if additional > BATCH_RECORDS_MAX:
        error = ApiError(ErrorCode.policy_violation, "Excessively large number of partitions per request.")
        return Decision((), [error] * len(wanted))
    records: list[PartitionRecord] = []
    reply: list[ApiError | None] = []
    for one in wanted:
        try:
            records += _add(image, one, random, admits)
        except ApiError as error:
            reply.append(error)
        else:
            reply.append(None)
    assert len(reply) == len(wanted), "each topic is answered"
    return Decision(() if validate_only else tuple(records), reply)


def _additional(image: ClusterImage, wanted: NewPartitions) -> int:
    topic = image.topics_by_name.get(wanted.topic)
    return 0 if topic is None else wanted.count - len(topic.partitions)


def _add(image: ClusterImage, wanted: NewPartitions, random: Random, admits: Admits) -> list[PartitionRecord]:
    topic = image.topics_by_name.get(wanted.topic)
    if topic is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition)
    present = len(topic.partitions)
    additional = wanted.count - present
    if additional == 0:
        raise ApiError(ErrorCode.invalid_partitions, f"Topic already has {present} partition(s).")
    if additional < 0:
        raise ApiError(
            ErrorCode.invalid_partitions,
            f"The topic {topic.name} currently has {present} partition(s); {wanted.count} would not be an increase.",
        )
    if not topic.partitions:
        raise ApiError(
            ErrorCode.unknown_server_error, f"Invalid state: topic {topic.name} appears to have no partitions."
        )
    factor = len(topic.partitions[0].target_replicas)
    if wanted.assignments is not None:
        if len(wanted.assignments) != additional:
            raise invalid_assignment(
                f"Attempted to add {additional} additional partition(s), but only {len(wanted.assignments)} "
                "assignment(s) were specified."
            )
        for number, replicas in enumerate(wanted.assignments, present):
            check_assignment(image, number, replicas, factor)
        replicas_of_all = list(wanted.assignments)
    else:
        try:
            replicas_of_all = place_partitions(image, additional, factor, random)
        except PlacementError as error:
            raise ApiError(ErrorCode.invalid_replication_factor, str(error)) from error
    floor_of = starting_floors(image, topic.name, topic.configs)
    floors = [floor_of(number) for number in range(present, wanted.count)]
    require_admitted(admits, additional)
    assert len(replicas_of_all) == additional, "partitions are numbered without a gap"
    assert all(len(replicas) == factor for replicas in replicas_of_all), "all have as many replicas as the first"
    return [
        new_partition_record(image, topic.topic_id, number, replicas, floor)
        for number, (replicas, floor) in enumerate(zip(replicas_of_all, floors, strict=True), present)
    ]
