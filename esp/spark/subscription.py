"""The topics and partitions that a read is to read, as they are there now."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from esp.consumer.cluster import Cluster
from esp.consumer.errors import describe
from esp.consumer.messages import Partition, TopicInfo
from esp.options.errors import OptionError
from esp.spark.options import ReadOptions


class Subscription(NamedTuple):
    """Partitions to read, and the ids of their topics: a topic that is deleted and created again has another one."""

    partitions: Sequence[Partition]
    ids: Mapping[str, bytes]


def find_subscription(options: ReadOptions, cluster: Cluster) -> Subscription:
    """Return what is there of the topics that options name.

    Raises:
        OptionError: a topic or partition that is named does not exist, or may not be read.
        ConsumerError: the cluster does not answer.
    """
    if options.pattern is not None:
        topics = cluster.describe(None)
        matches = re.compile(options.pattern).search
        found = [topic for name, topic in sorted(topics.items()) if matches(name) and not topic.is_internal]
        for topic in found:
            _check_topic("subscribePattern", options.pattern, topic)
        return _all_of(found)
    if options.topics is not None:
        topics = cluster.describe(options.topics)
        for name in options.topics:
            _check_topic("subscribe", name, topics[name])
        return _all_of([topics[name] for name in options.topics])
    assert options.partitions is not None, "one of the three says what is read"
    topics = cluster.describe(sorted({partition.topic for partition in options.partitions}))
    for partition in options.partitions:
        topic = topics[partition.topic]
        _check_topic("assign", partition.topic, topic)
        if partition.number not in topic.leaders:
            raise OptionError(
                "assign",
                partition.number,
                f"topic {topic.name} has no such partition, it has {len(topic.leaders)}, counted from 0: correct it",
            )
    return Subscription(options.partitions, {name: topic.topic_id for name, topic in topics.items()})


def is_named(options: ReadOptions, partition: Partition) -> bool:
    """True if the options name a partition, whether it exists or not."""
    if options.pattern is not None:
        return re.search(options.pattern, partition.topic) is not None
    if options.topics is not None:
        return partition.topic in options.topics
    return partition in (options.partitions or ())


def _all_of(topics: Sequence[TopicInfo]) -> Subscription:
    partitions = [Partition(topic.name, number) for topic in topics for number in sorted(topic.leaders)]
    return Subscription(partitions, {topic.name: topic.topic_id for topic in topics})


def _check_topic(option: str, value: str, topic: TopicInfo) -> None:
    if topic.error:
        raise OptionError(
            option, value, f"topic {topic.name}: {describe(topic.error)}: correct the option, or create the topic"
        )
