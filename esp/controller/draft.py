"""A changing copy of an image. Only the parts that change are copied; the image it began with stays as it is."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from esp.controller.errors import InvalidMetadataError
from esp.controller.image import ClusterDelta, ClusterImage, ScramCredentials, TopicImage, TrashedTopic
from esp.model.acl import AclBinding
from esp.model.client_quotas import QuotaEntity
from esp.model.delegation_token import DelegationToken
from esp.model.ids import LeaderEpoch, NodeId, ProducerId, TopicId
from esp.model.offset_floor import FloorPiece, NameFloors
from esp.model.partition import PartitionState
from esp.model.scram import ScramCredential, ScramMechanism

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(slots=True)
class TopicDraft:
    """A topic that changes. Its partitions are not copied before :meth:`freeze`: there may be very many, and one that changes."""

    name: str
    topic_id: TopicId
    base: tuple[PartitionState, ...]
    """The partitions as they were."""
    configs: dict[str, str]
    changed: dict[int, PartitionState] = field(default_factory=dict)
    """New and changed partitions by number."""
    configs_changed: bool = False

    def find_partition(self, number: int) -> PartitionState | None:
        """A partition as it is now."""
        state = self.changed.get(number)
        return self.base[number] if state is None and 0 <= number < len(self.base) else state

    def partitions(self) -> list[PartitionState]:
        """All partitions as they are now."""
        known = [self.changed.get(number, state) for number, state in enumerate(self.base)]
        return known + [state for number, state in self.changed.items() if not 0 <= number < len(self.base)]

    def freeze(self) -> TopicImage:
        """The topic as it is now.

        Raises:
            InvalidMetadataError: its partitions are not numbered from 0 without a gap.
        """
        partitions = list(self.base)
        for number in sorted(self.changed):
            if number < 0 or number > len(partitions):
                raise InvalidMetadataError(
                    f"topic {self.name} has a partition {number}, and not all partitions before that"
                )
            partitions[number : number + 1] = (self.changed[number],)
        return TopicImage(self.name, self.topic_id, tuple(partitions), dict(self.configs))


class ClusterDraft:
    """The cluster while records are replayed onto ``base``."""

    def __init__(self, base: ClusterImage) -> None:
        self._base = base
        self._topics: dict[TopicId, TopicDraft] = {}
        self._created_names: dict[str, TopicId] = {}
        self._deleted: set[TopicId] = set()
        self.brokers = dict(base.brokers)
        self.controllers = dict(base.controllers)
        self.broker_configs = _copied(base.broker_configs)
        self.group_configs = _copied(base.group_configs)
        self.client_metrics_configs = _copied(base.client_metrics_configs)
        self.features = dict(base.features)
        self.next_producer_id: ProducerId = base.next_producer_id
        self.acls: Mapping[uuid.UUID, AclBinding] = base.acls
        self.client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = base.client_quotas
        self.scram_credentials: ScramCredentials = base.scram_credentials
        self.delegation_tokens: Mapping[str, DelegationToken] = base.delegation_tokens
        self.offset_floors: Mapping[str, NameFloors] = base.offset_floors
        self.trashed_topics: Mapping[TopicId, TrashedTopic] = base.trashed_topics
        self.changed_brokers: set[NodeId] = set()
        self.changed_broker_configs: set[str] = set()

    def create_topic(self, name: str, topic_id: TopicId) -> None:
        """Add a topic without partitions; one whose id is in the trash is restored.

        Raises:
            InvalidMetadataError: its name or id is taken.
        """
        if self._find_topic_id(name) is not None or self._has(topic_id):
            raise InvalidMetadataError(f"topic {name} of id {topic_id} is there already")
        if topic_id in self.trashed_topics:
            del self._change_trash()[topic_id]
        self._topics[topic_id] = TopicDraft(name, topic_id, (), {})
        self._created_names[name] = topic_id

    def topic(self, topic_id: TopicId) -> TopicDraft:
        """A topic, to be changed.

        Raises:
            InvalidMetadataError: there is no such id.
        """
        draft = self._topics.get(topic_id)
        if draft is None:
            if not self._has(topic_id):
                raise InvalidMetadataError(f"no topic has the id {topic_id}")
            image = self._base.topics_by_id[topic_id]
            draft = TopicDraft(image.name, topic_id, image.partitions, dict(image.configs))
            self._topics[topic_id] = draft
        return draft

    def topic_by_name(self, name: str) -> TopicDraft:
        """A topic, to be changed.

        Raises:
            InvalidMetadataError: there is no such name.
        """
        topic_id = self._find_topic_id(name)
        if topic_id is None:
            raise InvalidMetadataError(f"no topic has the name {name}")
        return self.topic(topic_id)

    def all_topics(self) -> list[TopicDraft]:
        """All topics, to be changed."""
        present = [topic_id for topic_id in self._base.topics_by_id if self._has(topic_id)]
        return [self.topic(topic_id) for topic_id in dict.fromkeys((*present, *self._topics))]

    def delete_topic(self, topic_id: TopicId) -> None:
        """Remove a topic with its partitions and settings.

        Raises:
            InvalidMetadataError: there is no such id.
        """
        name = self.topic(topic_id).name
        del self._topics[topic_id]
        self._created_names.pop(name, None)
        if topic_id in self._base.topics_by_id:
            self._deleted.add(topic_id)

    def trash_topic(self, topic_id: TopicId, trashed_ms: int, until_ms: int) -> None:
        """Put a topic in the trash: it is gone, and kept as it is.

        Raises:
            InvalidMetadataError: there is no such id, or the topic is half made.
        """
        topic = self.topic(topic_id).freeze()
        self.delete_topic(topic_id)
        self._change_trash()[topic_id] = TrashedTopic(topic, trashed_ms, until_ms)

    def purge_topic(self, topic_id: TopicId) -> None:
        """Take a topic out of the trash for good; nothing happens if it is not there."""
        if topic_id in self.trashed_topics:
            del self._change_trash()[topic_id]

    def _change_trash(self) -> dict[TopicId, TrashedTopic]:
        if self.trashed_topics is self._base.trashed_topics:
            self.trashed_topics = dict(self.trashed_topics)
        assert isinstance(self.trashed_topics, dict), "the draft's own trash may be changed"
        return self.trashed_topics

    def change_acls(self) -> dict[uuid.UUID, AclBinding]:
        """The rules of access by their ids, to be changed: they are copied at the first change, as there may be very many."""
        if self.acls is self._base.acls:
            self.acls = dict(self.acls)
        assert isinstance(self.acls, dict), "the draft's own rules may be changed"
        return self.acls

    def change_client_quota(self, entity: QuotaEntity, key: str, value: float | None) -> None:
        """Give an entity a quota, or take it away; an entity that has none left is forgotten."""
        if self.client_quotas is self._base.client_quotas:
            self.client_quotas = dict(self.client_quotas)
        assert isinstance(self.client_quotas, dict), "the draft's own quotas may be changed"
        quotas = dict(self.client_quotas.get(entity, {}))
        if value is None:
            quotas.pop(key, None)
        else:
            quotas[key] = value
        if quotas:
            self.client_quotas[entity] = quotas
        else:
            self.client_quotas.pop(entity, None)

    def change_scram_credentials(self) -> dict[tuple[str, ScramMechanism], ScramCredential]:
        """The SCRAM credentials of users, to be changed: they are copied at the first change, as there may be very many."""
        if self.scram_credentials is self._base.scram_credentials:
            self.scram_credentials = dict(self.scram_credentials)
        assert isinstance(self.scram_credentials, dict), "the draft's own credentials may be changed"
        return self.scram_credentials

    def change_delegation_tokens(self) -> dict[str, DelegationToken]:
        """The delegation tokens by their ids, to be changed: they are copied at the first change, as there may be very many."""
        if self.delegation_tokens is self._base.delegation_tokens:
            self.delegation_tokens = dict(self.delegation_tokens)
        assert isinstance(self.delegation_tokens, dict), "the draft's own tokens may be changed"
        return self.delegation_tokens

    def change_offset_floors(self, name: str, number: int, piece: FloorPiece | None) -> None:
        """Give a piece of a name's floors another content, or none; the name that was changed last is the last one."""
        if self.offset_floors is self._base.offset_floors:
            self.offset_floors = dict(self.offset_floors)
        assert isinstance(self.offset_floors, dict), "the draft's own floors may be changed"
        pieces = dict(self.offset_floors.pop(name, {}))
        if piece is None:
            pieces.pop(number, None)
        else:
            pieces[number] = piece
        if pieces:
            self.offset_floors[name] = pieces

    def freeze(self, offset: int, epoch: LeaderEpoch) -> tuple[ClusterImage, ClusterDelta]:
        """The cluster as it is now, as the image of ``offset``, and the changes since ``base``.

        Raises:
            InvalidMetadataError: the records left a topic half made.
        """
        base = self._base
        by_id, by_name = base.topics_by_id, base.topics_by_name
        if self._topics or self._deleted:
            by_id, by_name = dict(by_id), dict(by_name)
            for topic_id in self._deleted:
                del by_name[by_id.pop(topic_id).name]
            for topic_id, draft in self._topics.items():
                by_id[topic_id] = by_name[draft.name] = draft.freeze()
        assert len(by_id) == len(by_name), "each topic has one name and one id"
        image = ClusterImage(
            offset=offset,
            epoch=epoch,
            topics_by_name=by_name,
            topics_by_id=by_id,
            brokers=self.brokers,
            controllers=self.controllers,
            broker_configs=self.broker_configs,
            group_configs=self.group_configs,
            client_metrics_configs=self.client_metrics_configs,
            features=self.features,
            next_producer_id=self.next_producer_id,
            acls=self.acls,
            client_quotas=self.client_quotas,
            scram_credentials=self.scram_credentials,
            delegation_tokens=self.delegation_tokens,
            offset_floors=self.offset_floors,
            trashed_topics=self.trashed_topics,
            own_unclean_leader_election=base.own_unclean_leader_election,
            own_recreate_offsets=base.own_recreate_offsets,
            own_trash_retention_ms=base.own_trash_retention_ms,
        )
        delta = ClusterDelta(
            changed_partitions={
                topic_id: frozenset(draft.changed) for topic_id, draft in self._topics.items() if draft.changed
            },
            # One that was restored since is there, with other partitions; its replicas are still where they were.
            deleted_topics={
                topic_id: base.topics_by_id[topic_id] for topic_id in self._deleted if topic_id not in self._topics
            },
            purged_topics=purged_topics(base.trashed_topics, image),
            changed_topic_configs=frozenset(
                topic_id for topic_id, draft in self._topics.items() if draft.configs_changed
            ),
            changed_broker_configs=frozenset(self.changed_broker_configs),
            changed_brokers=frozenset(self.changed_brokers),
            removed_acls=missing_acls(base.acls, self.acls),
            added_acls=missing_acls(self.acls, base.acls),
            has_other_quotas=self.client_quotas is not base.client_quotas and self.client_quotas != base.client_quotas,
            changed_scram_credentials=changed_keys(base.scram_credentials, self.scram_credentials),
            changed_delegation_tokens=changed_keys(base.delegation_tokens, self.delegation_tokens),
        )
        return image, delta

    def _has(self, topic_id: TopicId) -> bool:
        return topic_id in self._topics or (topic_id in self._base.topics_by_id and topic_id not in self._deleted)

    def _find_topic_id(self, name: str) -> TopicId | None:
        created = self._created_names.get(name)
        if created is not None:
            return created
        image = self._base.topics_by_name.get(name)
        return image.topic_id if image is not None and image.topic_id not in self._deleted else None


def purged_topics(before: Mapping[TopicId, TrashedTopic], after: ClusterImage) -> dict[TopicId, TopicImage]:
    """The topics of a trash that are neither in it nor restored."""
    if before is after.trashed_topics:
        return {}
    return {
        topic_id: trashed.topic
        for topic_id, trashed in before.items()
        if topic_id not in after.trashed_topics and topic_id not in after.topics_by_id
    }


def missing_acls(acls: Mapping[uuid.UUID, AclBinding], other: Mapping[uuid.UUID, AclBinding]) -> tuple[AclBinding, ...]:
    """The rules of ``acls`` that ``other`` does not have under the same id."""
    if acls is other:
        return ()
    return tuple(binding for acl_id, binding in acls.items() if other.get(acl_id) != binding)


def changed_keys(before: Mapping[Key, Value], after: Mapping[Key, Value]) -> frozenset[Key]:
    """The keys under which one of two mappings has another value than the other, or none."""
    if before is after:
        return frozenset()
    return frozenset(key for key in (*before, *after) if before.get(key) != after.get(key))


def _copied(configs: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {name: dict(own) for name, own in configs.items()}
