"""Topics described as ``kafka-topics --describe`` does: what is shown of which, and how."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from rich.text import Text

from esp.cli.kafka.answers import PartitionInfo, TopicInfo
from esp.cli.kafka.client import NoControllerError
from esp.cli.kafka.configs import ResourceType
from esp.cli.kafka.topics import TopicsAdmin
from esp.cli.output import console, print_json, print_line, print_table, print_warning
from esp.model.ids import TopicPartition

_OWN: Final = "DYNAMIC_TOPIC_CONFIG"
_MIN_ISR: Final = "min.insync.replicas"


class Selection(StrEnum):
    """The selection of partitions or topics to describe instead of all; the names of Kafka's flags."""

    UNDER_REPLICATED = "under-replicated-partitions"
    UNAVAILABLE = "unavailable-partitions"
    AT_MIN_ISR = "at-min-isr-partitions"
    UNDER_MIN_ISR = "under-min-isr-partitions"
    WITH_OVERRIDES = "topics-with-overrides"


class TopicDescription(NamedTuple):
    """The description of a topic. ``partitions`` are the selected ones; ``head`` is True if a line about the topic itself is shown."""

    topic: TopicInfo
    configs: dict[str, str | None]
    partitions: tuple[PartitionInfo, ...]
    head: bool


def describe_topics(
    admin: TopicsAdmin, topics: Sequence[TopicInfo], selection: Selection | None
) -> list[TopicDescription]:
    """Return the descriptions of topics; topics of which nothing was selected are left out."""
    if not topics:
        return []
    settings = admin.settings(ResourceType.TOPIC, [topic.name for topic in topics])
    topics = _with_reassignments(topics, admin)
    live = frozenset(admin.broker_ids()) if selection is Selection.UNAVAILABLE else frozenset[int]()
    described: list[TopicDescription] = []
    for topic in topics:
        entries = {entry.name: entry for entry in settings[topic.name]}
        own = {name: entry.value for name, entry in sorted(entries.items()) if entry.source == _OWN}
        if selection is None:
            described.append(TopicDescription(topic, own, topic.partitions, head=True))
        elif selection is Selection.WITH_OVERRIDES:
            if own:
                described.append(TopicDescription(topic, own, (), head=True))
        else:
            min_isr = int(entries[_MIN_ISR].value or 1)
            partitions = tuple(each for each in topic.partitions if is_selected(each, selection, min_isr, live))
            if partitions:
                described.append(TopicDescription(topic, own, partitions, head=False))
    return described


def _with_reassignments(topics: Sequence[TopicInfo], admin: TopicsAdmin) -> Sequence[TopicInfo]:
    """The topics, with what is being added to their partitions and removed from them."""
    try:
        moving = admin.reassignments()
    except NoControllerError as error:
        print_warning(
            f"{error.problem}: leaders and in-sync replicas are the last ones that a broker knew, and reassignments are unknown"
        )
        return topics

    def with_changes(topic: str, each: PartitionInfo) -> PartitionInfo:
        found = moving.get(TopicPartition(topic, each.partition))
        if found is None or (found.adding | found.removing).isdisjoint(each.replicas):  # its end is known here already
            return each
        return each._replace(adding=tuple(sorted(found.adding)), removing=tuple(sorted(found.removing)))

    return [
        topic._replace(partitions=tuple(with_changes(topic.name, each) for each in topic.partitions))
        for topic in topics
    ]


def is_selected(partition: PartitionInfo, selection: Selection, min_isr: int, live: frozenset[int]) -> bool:
    """Return whether a partition is one of those that were asked for.

    Args:
        partition: as the metadata tells it.
        selection: what was asked for.
        min_isr: the topic's ``min.insync.replicas``.
        live: the brokers that are there; looked at for those that are unavailable only.
    """
    if selection is Selection.UNDER_REPLICATED:
        return len(partition.isr) < partition.replication_factor
    if selection is Selection.UNAVAILABLE:
        return partition.leader not in live
    if selection is Selection.AT_MIN_ISR:
        return len(partition.isr) == min_isr
    return len(partition.isr) < min_isr


def print_topics(described: Sequence[TopicDescription], json: bool) -> None:
    """Print descriptions, in the words of Kafka's tool or as JSON."""
    if json:
        print_json(
            [
                each.topic._asdict()
                | {"configs": each.configs, "partitions": [partition._asdict() for partition in each.partitions]}
                for each in described
            ]
        )
        return
    for each in described:
        if each.head:
            _print_head(each)
        if not each.partitions:
            continue
        if console.is_terminal:
            _print_partition_table(each)
            continue
        for partition in each.partitions:
            leader = str(partition.leader) if partition.leader >= 0 else "none"
            line = (
                f"\tTopic: {each.topic.name}\tPartition: {partition.partition}\tLeader: {leader}"
                f"\tReplicas: {_joined(partition.replicas)}\tIsr: {_joined(partition.isr)}"
            )
            if partition.adding or partition.removing:
                line += (
                    f"\tAdding Replicas: {_joined(partition.adding)}\tRemoving Replicas: {_joined(partition.removing)}"
                )
            print_line(line)


def _print_head(described: TopicDescription) -> None:
    topic = described.topic
    configs = ",".join(f"{name}={value}" for name, value in described.configs.items())
    replicas = topic.partitions[0].replication_factor if topic.partitions else 0
    print_line(
        f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {replicas}\tConfigs: {configs}"
    )


def _print_partition_table(described: TopicDescription) -> None:
    is_moving = any(each.adding or each.removing for each in described.partitions)
    rows: list[list[str | Text]] = []
    for partition in described.partitions:
        short = len(partition.isr) < partition.replication_factor
        rows.append(
            [
                str(partition.partition),
                str(partition.leader) if partition.leader >= 0 else Text("none", "red"),
                _joined(partition.replicas),
                Text(_joined(partition.isr), "yellow" if short else ""),
                *((_joined(partition.adding), _joined(partition.removing)) if is_moving else ()),
            ]
        )
    headings = ("Partition", "Leader", "Replicas", "In sync", *(("Adding", "Removing") if is_moving else ()))
    print_table(headings, rows, title=None if described.head else described.topic.name)


def _joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
