"""The consumer groups of a coordinator."""

from esp.groups.consumer.group import ConsumerGroup
from esp.groups.keyed_groups import KeyedGroups
from esp.schemas.consumer_group_records import ConsumerGroupRecord


class ConsumerGroups(KeyedGroups[ConsumerGroup, ConsumerGroupRecord]):
    """Groups by their id."""

    def __init__(self) -> None:
        super().__init__(ConsumerGroup)
