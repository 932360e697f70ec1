"""The target assignment of a group: its members and topics, as its assignor wants them."""

from collections import Counter
from collections.abc import Sequence

from esp.groups.consumer.assignors import ASSIGNORS, Assignment, Subscriber
from esp.groups.consumer.group import ConsumerGroup
from esp.groups.consumer.topics import TopicCatalog


def preferred_assignor(group: ConsumerGroup, assignors: Sequence[str]) -> str:
    """The name of the assignor that most members ask for; of several the first in the settings, which is also that of no wish.

    Args:
        group: the group.
        assignors: the names in the settings.
    """
    wishes = Counter(member.about.assignor for member in group if member.about.assignor in assignors)
    return max(assignors, key=lambda name: wishes[name])


def assign(group: ConsumerGroup, catalog: TopicCatalog, assignors: Sequence[str]) -> Assignment:
    """Compute the partitions of each member.

    Args:
        group: the group.
        catalog: the topics that there are.
        assignors: the names in the settings.
    """
    by_name = {name: known.topic for name in group.topic_names if (known := catalog.find(name)) is not None}
    topics = {topic.topic_id: topic for topic in by_name.values()}
    subscribers = [
        Subscriber(
            member_id=member.member_id,
            instance_id=member.about.instance_id,
            rack_id=member.about.rack_id,
            topics=frozenset(by_name[name].topic_id for name in group.topics_of(member.about) if name in by_name),
            before=group.target_of(member.member_id),
        )
        for member in group
    ]
    return ASSIGNORS[preferred_assignor(group, assignors)](subscribers, topics)
