"""The cluster as the metadata log describes it up to one offset, immutable, and the changes between two such images."""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from esp.model.acl import AclBinding
from esp.model.client_quotas import QuotaEntity
from esp.model.delegation_token import DelegationToken
from esp.model.ids import INTERNAL_TOPICS, BrokerEpoch, DirectoryId, LeaderEpoch, NodeId, ProducerId, TopicId
from esp.model.offset_floor import CONTINUE, RESET, NameFloors
from esp.model.partition import PartitionState
from esp.model.scram import ScramCredential, ScramMechanism
from esp.ports.network import Address
from esp.settings.setting import INT_MAX, LONG_MAX, find_integer

CLUSTER_DEFAULT = ""
"""The name under which the settings of all brokers stand among the settings of single brokers."""

MIN_INSYNC_REPLICAS = "min.insync.replicas"

UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"

RECREATE_OFFSETS = "topic.recreate.offsets"

TRASH_RETENTION = "topic.trash.retention.ms"

ScramCredentials = Mapping[tuple[str, ScramMechanism], ScramCredential]
"""Credentials by the user's name and the mechanism."""

_NO_EPOCH = LeaderEpoch(0)
_FIRST_PRODUCER_ID = ProducerId(0)


class FeatureRange(NamedTuple):
    """The levels of a feature that a node can work with, both included."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker.

    ``epoch`` is new with every registration; ``registration_offset`` is the offset of its record, which may be larger (BRK-1). A fenced
    broker serves no client and leads nothing (BRK-8).
    """

    node_id: NodeId
    incarnation_id: uuid.UUID
    epoch: BrokerEpoch
    registration_offset: int
    endpoints: Mapping[str, Address]
    """By the name of the listener."""
    security_protocols: Mapping[str, int]
    """Kafka's number of each listener's security protocol, by the name of the listener."""
    features: Mapping[str, FeatureRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[DirectoryId, ...]
    cordoned_log_dirs: tuple[DirectoryId, ...] | None = None
    """Directories that get no new replicas; None while the broker has not said (KIP-1066)."""

    @property
    def is_active(self) -> bool:
        """True if it may lead and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True)
class ControllerImage:
    """A controller, as it registered when it started."""

    node_id: NodeId
    incarnation_id: uuid.UUID
    endpoints: Mapping[str, Address]
    security_protocols: Mapping[str, int]
    features: Mapping[str, FeatureRange]


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic: its partitions by number, and the settings that were given to it."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrashedTopic:
    """A deleted topic that can be restored (TRASH-1), as it was."""

    topic: TopicImage
    trashed_ms: int
    """The wall time at which it was deleted."""
    until_ms: int
    """The wall time at which it is to be purged."""


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """Everything that the metadata log says up to ``offset`` (included; -1 for nothing), whose record has ``epoch``.

    What begins with ``own_`` is no part of the log, but a setting of the node that keeps the image.

    Images share unchanged parts. The mappings are never changed; their order follows from the log, alike on all nodes.
    """

    offset: int = -1
    epoch: LeaderEpoch = _NO_EPOCH
    topics_by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[TopicId, TopicImage] = field(default_factory=dict)
    brokers: Mapping[NodeId, BrokerImage] = field(default_factory=dict)
    controllers: Mapping[NodeId, ControllerImage] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Settings of brokers by their id in decimal; the defaults of all brokers under ``CLUSTER_DEFAULT``."""
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Settings of groups, which need not be there, by their id."""
    client_metrics_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Settings of subscriptions to the metrics of clients, by their name."""
    features: Mapping[str, int] = field(default_factory=dict)
    """The levels of features that the cluster works at; level 0 has no entry."""
    next_producer_id: ProducerId = _FIRST_PRODUCER_ID
    acls: Mapping[uuid.UUID, AclBinding] = field(default_factory=dict)
    """The rules of access in force, by their ids."""
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    """The quotas of clients by the entities that have them; an entity without a quota has no entry."""
    scram_credentials: ScramCredentials = field(default_factory=dict)
    """The SCRAM credentials of users."""
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    """The delegation tokens that there are, by their ids; expired ones among them until they are removed."""
    offset_floors: Mapping[str, NameFloors] = field(default_factory=dict)
    """Where the offsets of topics go on that are created again, by their name; the name that lost its topic last is the last one."""
    trashed_topics: Mapping[TopicId, TrashedTopic] = field(default_factory=dict)
    """The topics in the trash, the one that was deleted first at the beginning. Several may have had one name."""
    own_unclean_leader_election: bool = False
    """``unclean.leader.election.enable`` of the node that keeps the image, which stands in no record."""
    own_recreate_offsets: str = RESET
    """``topic.recreate.offsets`` of the node that keeps the image, which stands in no record."""
    own_trash_retention_ms: int = 0
    """``topic.trash.retention.ms`` of the node that keeps the image, which stands in no record."""

    def partitions(self) -> Iterator[tuple[TopicImage, PartitionState]]:
        """All partitions with their topic."""
        for topic in self.topics_by_id.values():
            for partition in topic.partitions:
                yield topic, partition

    def is_trashed(self, name: str) -> bool:
        """True if a topic of that name is in the trash, and none is there."""
        return (
            bool(self.trashed_topics)
            and name not in self.topics_by_name
            and any(trashed.topic.name == name for trashed in self.trashed_topics.values())
        )

    def min_insync_replicas(self, topic: TopicImage, replica_count: int = INT_MAX) -> int:
        """The number of in-sync replicas that a partition needs for its high watermark to move (HW-1, ELR-3).

        Args:
            topic: its own setting counts first, then that of all brokers.
            replica_count: the partition's number of replicas; it never needs more.
        """
        default = _count(self.broker_configs.get(CLUSTER_DEFAULT, {}).get(MIN_INSYNC_REPLICAS, ""), 1)
        return min(_count(topic.configs.get(MIN_INSYNC_REPLICAS, ""), default), replica_count)

    def unclean_leader_election(self, topic: TopicImage) -> bool:
        """True if a leader may be elected that may lack committed records, without being asked (ELECT-1.5).

        Args:
            topic: its own setting counts first, then that of all brokers, then that of the node that keeps the image.
        """
        text = topic.configs.get(UNCLEAN_LEADER_ELECTION)
        if text is None:
            text = self.broker_configs.get(CLUSTER_DEFAULT, {}).get(UNCLEAN_LEADER_ELECTION)
        return self.own_unclean_leader_election if text is None else text.strip().lower() == "true"

    def continues_offsets(self, name: str, configs: Mapping[str, str]) -> bool:
        """True if the offsets of a topic go on when it is deleted and created again (FLOOR-1); those of internal topics never do.

        Args:
            name: the topic's.
            configs: its own setting counts first, then that of all brokers, then that of the node that keeps the image.
        """
        text = configs.get(RECREATE_OFFSETS)
        if text is None:
            text = self.broker_configs.get(CLUSTER_DEFAULT, {}).get(RECREATE_OFFSETS, self.own_recreate_offsets)
        return text.strip() == CONTINUE and name not in INTERNAL_TOPICS

    def trash_retention_ms(self, topic: TopicImage) -> int:
        """The time for which a topic can be restored after its deletion; 0 if it cannot, as internal topics never can (TRASH-1).

        Args:
            topic: its own setting counts first, then that of all brokers, then that of the node that keeps the image.
        """
        text = topic.configs.get(TRASH_RETENTION)
        if text is None:
            text = self.broker_configs.get(CLUSTER_DEFAULT, {}).get(TRASH_RETENTION)
        number = self.own_trash_retention_ms if text is None else find_integer(text.strip(), LONG_MAX + 1)
        return 0 if number is None or topic.name in INTERNAL_TOPICS else max(number, 0)


def _count(text: str, default: int) -> int:
    """The number from 1 on that a stored setting holds, else ``default``: a metadata log of another origin must not end the node."""
    number = find_integer(text.strip())
    return default if number is None or number < 1 else number


EMPTY_IMAGE = ClusterImage()


@dataclass(frozen=True, slots=True)
class ClusterDelta:
    """The differences between an image and the one before it."""

    changed_partitions: Mapping[TopicId, frozenset[int]] = field(default_factory=dict)
    """New and changed partitions of topics that are there."""
    deleted_topics: Mapping[TopicId, TopicImage] = field(default_factory=dict)
    """Topics that are gone, as they were; those that are in the trash now among them."""
    purged_topics: Mapping[TopicId, TopicImage] = field(default_factory=dict)
    """Topics that were in the trash and are gone for good."""
    changed_topic_configs: frozenset[TopicId] = frozenset()
    """Topics that are there and have other settings than before."""
    changed_broker_configs: frozenset[str] = frozenset()
    """Keys of :attr:`ClusterImage.broker_configs` with other settings than before."""
    changed_brokers: frozenset[NodeId] = frozenset()
    """Brokers that are new, changed or gone."""
    removed_acls: tuple[AclBinding, ...] = ()
    """Rules of access that were in force and are no longer."""
    added_acls: tuple[AclBinding, ...] = ()
    """Rules of access that are in force and were not."""
    has_other_quotas: bool = False
    """True if the quotas of clients have changed."""
    changed_scram_credentials: frozenset[tuple[str, ScramMechanism]] = frozenset()
    """Keys of :attr:`ClusterImage.scram_credentials` that are new, changed or gone."""
    changed_delegation_tokens: frozenset[str] = frozenset()
    """Ids of delegation tokens that are new, changed or gone."""
