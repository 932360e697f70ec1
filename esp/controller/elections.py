"""Elections of leaders, on request (ElectLeaders), or at the regular look at all partitions (ELECT-3, ELECT-1.5)."""

from collections.abc import Sequence
from typing import Final

from esp.controller.decision import Decision
from esp.controller.image import ClusterImage, TopicImage
from esp.controller.leadership import acceptable_leaders, is_active_broker
from esp.controller.partition_change import Election, apply_partition_change, plan_partition_change
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NO_NODE, TopicId
from esp.model.partition import PartitionState
from esp.schemas.metadata_records import MetadataRecord, PartitionChangeRecord

ELECTIONS_MAX: Final = 1000
"""The most elections of one look at all partitions; the next look follows at once, as in Kafka."""

Outcome = tuple[str, list[tuple[int, ApiError | None]]]
"""A topic's name, and the result for each of its partitions; None is success."""


def decide_elect_leaders(
    image: ClusterImage, election: Election, wanted: Sequence[tuple[str, Sequence[int]]] | None
) -> Decision[list[Outcome]]:
    """Elect the preferred leaders, or any at all, of the wanted partitions; the reply is in the order of the request.

    Args:
        image: the newest state, committed or not.
        election: PREFERRED or UNCLEAN; the latter also of topics whose setting does not allow it.
        wanted: partitions by the name of their topic. None means all; then the reply leaves out partitions that need no election.
    """
    records: list[MetadataRecord] = []
    reply: list[Outcome] = []
    changed: dict[tuple[TopicId, int], PartitionState] = {}
    if wanted is None:
        wanted = [
            (name, [state.partition for state in topic.partitions if _needs_election(state, election)])
            for name, topic in image.topics_by_name.items()
        ]
    for name, partitions in wanted:
        outcomes: list[tuple[int, ApiError | None]] = []
        for number in partitions:
            error: ApiError | None = None
            try:
                topic, state = _find(image, name, number)
                state = changed.get((topic.topic_id, number), state)
                record = _elect(image, topic, state, election)
                records.append(record)
                changed[topic.topic_id, number] = apply_partition_change(state, record)
            except ApiError as refusal:
                error = refusal
            outcomes.append((number, error))
        reply.append((name, outcomes))
    assert len(reply) == len(wanted), "each topic is answered"
    return Decision(tuple(records), reply)


def decide_preferred_leaders(image: ClusterImage) -> Decision[bool]:
    """Give partitions back to their preferred leaders, where these are in sync; the reply says whether more may be left to do."""
    records: list[MetadataRecord] = []
    for topic in image.topics_by_id.values():
        for state in topic.partitions:
            if state.leader != state.replicas[0]:
                record = _plan(image, topic, state, Election.PREFERRED)
                if record is not None:
                    records.append(record)
                    if len(records) == ELECTIONS_MAX:
                        return Decision(tuple(records), True)
    return Decision(tuple(records), False)


def decide_unclean_leaders(image: ClusterImage) -> Decision[bool]:
    """Elect any active replica where there is no leader and the topic's settings allow it; the reply as :func:`decide_preferred_leaders`.

    Needed where the setting came after the leader had gone.
    """
    records: list[MetadataRecord] = []
    for topic in image.topics_by_id.values():
        for state in topic.partitions:
            if state.leader == NO_NODE and image.unclean_leader_election(topic):
                record = _plan(image, topic, state, Election.UNCLEAN)
                if record is not None:
                    records.append(record)
                    if len(records) == ELECTIONS_MAX:
                        return Decision(tuple(records), True)
    return Decision(tuple(records), False)


def _find(image: ClusterImage, name: str, number: int) -> tuple[TopicImage, PartitionState]:
    topic = image.topics_by_name.get(name)
    if topic is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"No such topic as {name}")
    if not 0 <= number < len(topic.partitions):
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"No such partition as {name}-{number}")
    return topic, topic.partitions[number]


def _needs_election(state: PartitionState, election: Election) -> bool:
    return state.leader != state.replicas[0] if election is Election.PREFERRED else state.leader == NO_NODE


def _elect(image: ClusterImage, topic: TopicImage, state: PartitionState, election: Election) -> PartitionChangeRecord:
    if not _needs_election(state, election):
        raise ApiError(ErrorCode.election_not_needed, "Leader election not needed for topic partition.")
    record = _plan(image, topic, state, election)
    if record is not None:
        return record
    if election is Election.PREFERRED:
        raise ApiError(ErrorCode.preferred_leader_not_available, "The preferred leader was not available.")
    raise ApiError(ErrorCode.eligible_leaders_not_available, "Eligible topic partition leaders are not available.")


def _plan(
    image: ClusterImage, topic: TopicImage, state: PartitionState, election: Election
) -> PartitionChangeRecord | None:
    return plan_partition_change(
        state,
        is_acceptable=acceptable_leaders(image, state),
        min_insync_replicas=image.min_insync_replicas(topic),
        election=election,
        is_there=lambda node: is_active_broker(image, node),
    )
