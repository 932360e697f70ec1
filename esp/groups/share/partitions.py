"""Changes of the partitions of which a share group has states, or is about to have (KIP-932). They are functions of the value before."""

from collections.abc import Collection, Iterable, Mapping

from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.schemas.share_group_records import KnownPartitions, SharePartitionsValue

_Known = Mapping[TopicId, KnownPartitions]


def initialise(
    value: SharePartitionsValue,
    partitions: Iterable[TopicIdPartition],
    from_start: Collection[TopicIdPartition],
    names: Mapping[TopicId, str],
) -> SharePartitionsValue:
    """The share coordinator is to make states for these partitions.

    Args:
        value: the value before.
        partitions: have no state that counts.
        from_start: those of them that are to begin at offset 0.
        names: of their topics.
    """
    initialising = dict(value.initialising)
    starts = _by_topic(from_start)
    for topic_id, numbers in _by_topic(partitions).items():
        known = initialising.get(topic_id, KnownPartitions(names[topic_id], frozenset()))
        initialising[topic_id] = KnownPartitions(
            known.topic_name, known.partitions | numbers, known.from_start | (numbers & starts.get(topic_id, set()))
        )
    deleting = {topic_id: name for topic_id, name in value.deleting.items() if topic_id not in initialising}
    return SharePartitionsValue(initialising, value.initialised, deleting)


def settle(value: SharePartitionsValue, partitions: Collection[TopicIdPartition]) -> SharePartitionsValue:
    """States were made for these partitions, which are being initialised."""
    initialised = dict(value.initialised)
    for topic_id, numbers in _by_topic(partitions).items():
        known = initialised.get(topic_id, KnownPartitions(value.initialising[topic_id].topic_name, frozenset()))
        initialised[topic_id] = KnownPartitions(known.topic_name, known.partitions | numbers)
    return SharePartitionsValue(_without(value.initialising, partitions), initialised, value.deleting)


def begin_deletion(value: SharePartitionsValue, topic_ids: Collection[TopicId]) -> SharePartitionsValue:
    """The states of these topics are to be deleted."""
    named = {
        topic_id: known.topic_name
        for topics in (value.initialised, value.initialising)
        for topic_id, known in topics.items()
        if topic_id in topic_ids
    }
    return SharePartitionsValue(
        {topic_id: known for topic_id, known in value.initialising.items() if topic_id not in topic_ids},
        {topic_id: known for topic_id, known in value.initialised.items() if topic_id not in topic_ids},
        {**value.deleting, **named},
    )


def forget(value: SharePartitionsValue, topic_ids: Collection[TopicId]) -> SharePartitionsValue:
    """There are no states of these topics any more."""
    left = begin_deletion(value, topic_ids)
    return left._replace(deleting={key: name for key, name in left.deleting.items() if key not in topic_ids})


def partitions_of(topics: _Known) -> frozenset[TopicIdPartition]:
    """All partitions of these topics."""
    return frozenset(
        TopicIdPartition(topic_id, number) for topic_id, known in topics.items() for number in known.partitions
    )


def _by_topic(partitions: Iterable[TopicIdPartition]) -> dict[TopicId, set[int]]:
    """The numbers of partitions by their topics."""
    numbers: dict[TopicId, set[int]] = {}
    for one in partitions:
        numbers.setdefault(one.topic_id, set()).add(one.partition)
    return numbers


def _without(topics: _Known, partitions: Collection[TopicIdPartition]) -> _Known:
    left: dict[TopicId, KnownPartitions] = {}
    gone_by_topic = _by_topic(partitions)
    for topic_id, known in topics.items():
        gone = gone_by_topic.get(topic_id, set())
        if known.partitions - gone:
            left[topic_id] = KnownPartitions(known.topic_name, known.partitions - gone, known.from_start - gone)
    return left
