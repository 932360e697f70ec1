"""The topics of the applied metadata, and the settings of groups, as consumer groups see them."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.groups.expressions import Expressions
from esp.controller.image import EMPTY_IMAGE, ClusterImage, TopicImage
from esp.groups.consumer.assignors import AssignedTopic
from esp.groups.consumer.topics import KnownTopic
from esp.model.ids import NodeId, TopicId, TopicPartition
from esp.settings.topic_overrides import read_hold_groups

_DIGEST_BYTES: Final = 16
_INTERVALS: Final = ("consumer.assignment.interval.ms", "share.assignment.interval.ms")
"""The settings among these that a broker takes while it runs."""

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class MetadataTopics:
    """See :class:`esp.groups.consumer.topics.TopicCatalog`. A topic is worked out when a group asks for it, and again when it changes.

    Args:
        metadata: as this node has applied it.
        expressions: looks for the topics of expressions; None for what has none.
    """

    def __init__(self, metadata: MetadataCache, expressions: Expressions | None = None) -> None:
        self._metadata = metadata
        self._expressions = expressions
        self._image = EMPTY_IMAGE
        self._racks: Mapping[NodeId, str | None] = {}
        self._known: dict[str, tuple[TopicImage, KnownTopic]] = {}
        self._version = 0
        self._intervals: Mapping[str, str] = _NONE
        self._intervals_of: Mapping[str, Mapping[str, str]] | None = None
        """The settings of brokers in which :attr:`_intervals` were found."""

    @property
    def version(self) -> int:
        """Rises with every change of topics that concerns their assignment."""
        self._look()
        return self._version

    @property
    def offset(self) -> int:
        """The offset of the metadata that they are from."""
        return self._metadata.image.offset

    def find(self, name: str) -> KnownTopic | None:
        """The topic of this name."""
        self._look()
        found = self._known.get(name)
        if found is not None:
            return found[1]
        topic = self._image.topics_by_name.get(name)
        if topic is None:
            return None
        known = _work_out(topic, self._racks)
        self._known[name] = topic, known
        return known

    def matching(self, regex: str) -> Sequence[str] | None:
        """See the protocol."""
        assert self._expressions is not None, "share groups have no expressions"
        return self._expressions.find(regex)

    def find_gone(self, topic_ids: Iterable[TopicId]) -> list[TopicId]:
        """The topics among these that are neither there nor in the trash."""
        image = self._metadata.image
        return [one for one in topic_ids if one not in image.topics_by_id and one not in image.trashed_topics]

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The leader epoch of a partition according to this metadata; -1 if there is no such partition."""
        if not self._metadata.has_partition(partition.topic, partition.partition):
            return -1
        return self._metadata.image.topics_by_name[partition.topic].partitions[partition.partition].leader_epoch

    def hold_groups(self, name: str) -> tuple[str, ...]:
        """See the protocol; as the topic's own setting says, which stands in for nothing of the node's."""
        topic = self._metadata.image.topics_by_name.get(name)
        return () if topic is None else read_hold_groups(topic.configs)

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        """The settings of a group, as they were given to it, or to the node while it runs."""
        image = self._metadata.image
        own = image.group_configs.get(group_id, _NONE)
        if image.broker_configs is not self._intervals_of:  # each heartbeat asks
            self._intervals_of = image.broker_configs
            self._intervals = {
                name: text
                for name in _INTERVALS
                if (text := self._metadata.dynamic_setting(f"group.{name}")) is not None
            }
        return {**self._intervals, **own} if self._intervals else own

    def _look(self) -> None:
        """Bring what is known up to date with the applied image."""
        before, image = self._image, self._metadata.image
        if image is before:
            return
        self._image = image
        has_changed = False
        if image.brokers is not before.brokers:
            racks = {node: broker.rack for node, broker in image.brokers.items()}
            if racks != self._racks:
                self._racks = racks
                self._known.clear()
                has_changed = True
        if image.topics_by_name is not before.topics_by_name:
            has_changed |= image.topics_by_name.keys() != before.topics_by_name.keys()
            has_changed |= self._look_at_known(image)
        self._version += has_changed

    def _look_at_known(self, image: ClusterImage) -> bool:
        """Forget topics that are gone and work those out again that have changed; says whether one differs."""
        has_changed = False
        for name, (topic, known) in tuple(self._known.items()):
            now = image.topics_by_name.get(name)
            if now is topic:
                continue
            if now is None:
                del self._known[name]
                has_changed = True
                continue
            worked_out = _work_out(now, self._racks)
            self._known[name] = now, worked_out
            has_changed |= worked_out.digest != known.digest
        return has_changed


def _work_out(topic: TopicImage, racks: Mapping[NodeId, str | None]) -> KnownTopic:
    # partitions of the same replicas have the same racks
    sets: dict[Sequence[NodeId], tuple[frozenset[str], bytes]] = {}
    of_partitions = []
    parts = [topic.topic_id.bytes]
    for number, partition in enumerate(topic.partitions):
        known = sets.get(partition.replicas)
        if known is None:
            found = frozenset(rack for node in partition.replicas if (rack := racks.get(node)))
            known = sets[partition.replicas] = found, b"".join(b"\x00" + rack.encode() for rack in sorted(found))
        of_partitions.append(known[0])
        parts.append(b"%d%b" % (number, known[1]))
    digest = hashlib.blake2b(b"".join(parts), digest_size=_DIGEST_BYTES)
    return KnownTopic(AssignedTopic(topic.topic_id, tuple(of_partitions)), digest.digest())
