"""What is being reassigned: how much of it goes on, what waits for a broker that is gone, and what self-repair may redirect (REPAIR-5)."""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from esp.controller.image import ClusterImage
from esp.model.ids import NodeId, TopicId, TopicPartition
from esp.model.throttled_replicas import REPAIRED_REPLICAS, ThrottledReplicas, read_repaired_replicas


class InFlight(NamedTuple):
    """Partitions in reassignment."""

    going_on: int = 0
    """How many go on, whoever began them: all but those that wait for a broker that is gone."""
    own: frozenset[TopicPartition] = frozenset()
    """Those that self-repair began, and nobody has changed since."""
    stalled: frozenset[TopicPartition] = frozenset()
    """Of its own: the ones that wait for a broker that is gone."""
    strays: frozenset[TopicPartition] = frozenset()
    """Of its own: the ones whose target is gone or draining. They get another target."""


NOTHING_IN_FLIGHT: Final = InFlight()


def find_in_flight(
    image: ClusterImage,
    reassigning: Iterable[tuple[TopicId, int]],
    gone: Collection[NodeId],
    draining: Collection[NodeId],
) -> InFlight:
    """Look at each partition in reassignment.

    One is self-repair's own if what it adds is marked (REPAIR-4).

    Args:
        image: the newest state.
        reassigning: the partitions, by topic and number.
        gone: brokers that were given up (REPAIR-1).
        draining: brokers that shall be emptied.
    """
    going_on = 0
    own, stalled, strays = set(), set(), set()
    marks: dict[TopicId, ThrottledReplicas] = {}
    for topic_id, number in reassigning:
        topic = image.topics_by_id[topic_id]
        state = topic.partitions[number]
        name = TopicPartition(topic.name, number)
        if topic_id not in marks:
            marks[topic_id] = read_repaired_replicas(topic.configs.get(REPAIRED_REPLICAS, ""))
        is_own = any(marks[topic_id].covers(number, node) for node in state.adding_replicas)
        waits = any(node in gone for node in state.target_replicas)
        going_on += not waits
        if is_own:
            own.add(name)
            if waits:
                stalled.add(name)
            if waits or any(node in draining for node in state.target_replicas):
                strays.add(name)
    assert stalled <= strays <= own, "nothing of others' is redirected (REPAIR-5)"
    return InFlight(going_on, frozenset(own), frozenset(stalled), frozenset(strays))
