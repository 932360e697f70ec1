"""The questions of a simulated surveyor: what is asked by each API that other clients use seldom or never, in every served version.

A question's content is given by the names of the fields of kio's classes: those that a version lacks are left out, others have their
defaults. What is asked changes nothing that checkers go by, but for the surveyor's own topic and group.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.image import ClusterImage, TopicImage
from esp.model.ids import ZERO_UUID, DirectoryId
from esp.protocol.entity_fields import Entity, EntityField, entity_fields
from esp.protocol.messages import load_class
from esp.protocol.registry import SERVED, ApiKey, ListenerKind
from esp.simulation.nodes_tier.consumer_group_profile import CONSUMER_GROUP
from esp.simulation.nodes_tier.ledger import SURVEYED

Content = dict[str, Any]

OWN_GROUP: Final = "surveyed"
"""The group that commits, deletes offsets and is deleted, and has no members."""

VISITED_GROUP: Final = "visited"
"""The group that is joined and left, in each version, and never commits anything."""

MANY_PARTITIONS: Final = 80
"""More than a request may have that is answered in one go."""

_TIMES: Final = ("timedelta_i32", "timedelta_i64")
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_APPEND, _SUBTRACT = 2, 3
_UPGRADE, _SAFE_DOWNGRADE, _NO_TYPE = 1, 2, 4


@dataclass(slots=True)
class Scene:
    """The objects that a question is asked about."""

    rng: Random
    image: ClusterImage
    topic: TopicImage
    version: int
    directories: tuple[str, ...]
    """Paths of directories, as a broker has told them."""

    @property
    def partition(self) -> int:
        """One of the topic's partitions, or one that is not there."""
        numbers: tuple[int, ...] = (*range(len(self.topic.partitions)), len(self.topic.partitions))
        return self.rng.choice(numbers)

    @property
    def name(self) -> str:
        """The topic's name, seldom one that is not there."""
        return self.topic.name if self.rng.random() < 0.9 else "missing"


class Question(NamedTuple):
    """A request of one API."""

    key: ApiKey
    content: Callable[[Scene], Content]
    first_version: int = 0
    listener: ListenerKind = ListenerKind.BROKER

    @property
    def versions(self) -> range:
        """The served versions that it can be asked in."""
        api = SERVED[self.key]
        return range(max(api.min_version, self.first_version), api.max_version + 1)


@cache
def _model(key: ApiKey, version: int) -> type[Entity]:
    api = SERVED[key]
    return load_class(api, api.request_model(version), "request")


def build(key: ApiKey, version: int, content: Mapping[str, Any]) -> Any:
    """The request of a version with what ``content`` says. Durations are given in milliseconds, structs as mappings."""
    return _build(_model(key, version), content)


def _build(entity: type[Entity], content: Mapping[str, Any]) -> Any:
    return entity(
        **{
            field.name: _value(field, content[field.name]) if field.name in content else field.implied_default()
            for field in entity_fields(entity)
        }
    )


def _value(field: EntityField, value: Any) -> Any:
    if value is None:
        return None
    if field.is_array:
        return tuple(_element(field, element) for element in value)
    return _element(field, value)


def _element(field: EntityField, value: Any) -> Any:
    if field.entity is not None:
        return _build(field.entity, value)
    return dt.timedelta(milliseconds=value) if field.kafka_type in _TIMES else value


# --- records -------------------------------------------------------------------------------------------------------------------------


def _list_offsets(scene: Scene) -> Content:
    at = scene.rng.choice((-1, -2, -3, -4, 0, 1_700_000_000_000, 1 << 62))
    asked = {
        "partition_index": scene.partition,
        "timestamp": at,
        "current_leader_epoch": scene.rng.choice((-1, -1, -1, 0, 99)),
    }
    return {"replica_id": -1, "timeout": 2000, "topics": [{"name": scene.name, "partitions": [asked]}]}


def _epoch_end(scene: Scene) -> Content:
    asked = {
        "partition": scene.partition,
        "leader_epoch": scene.rng.randrange(-1, 9),
        "current_leader_epoch": scene.rng.choice((-1, 0)),
    }
    return {"replica_id": -1, "topics": [{"topic": scene.name, "partitions": [asked]}]}


def _fetch(scene: Scene) -> Content:
    """Outside of a session, as clients ask of old."""
    wanted = {
        "partition": scene.partition,
        "current_leader_epoch": -1,
        "fetch_offset": scene.rng.choice((0, 5, 1_000_000)),
        "partition_max_bytes": 10_000,
    }
    topic = {"topic": scene.name, "topic_id": scene.topic.topic_id, "partitions": [wanted]}
    return {
        "replica_id": -1,
        "max_wait": 100,
        "min_bytes": scene.rng.choice((0, 1)),
        "max_bytes": 100_000,
        "topics": [topic],
    }


def _producers(scene: Scene) -> Content:
    return {"topics": [{"name": scene.name, "partition_indexes": [scene.partition]}]}


def _init_producer(scene: Scene) -> Content:
    transactional_id = scene.rng.choice((None, None, "", "transactional"))
    known, epoch = scene.rng.choice(((-1, -1), (7, 3), (-1, 5)))
    return {
        "transactional_id": transactional_id,
        "transaction_timeout": 1000,
        "producer_id": known,
        "producer_epoch": epoch,
    }


# --- topics and partitions -----------------------------------------------------------------------------------------------------------


def _metadata(scene: Scene) -> Content:
    topics: Any = scene.rng.choice((None, [], [{"name": scene.topic.name, "topic_id": None}]))
    if topics and scene.version >= 12 and scene.rng.random() < 0.5:
        topics = [{"name": None, "topic_id": scene.topic.topic_id}]
    if topics is None and scene.version == 0:
        topics = []
    return {"topics": topics, "allow_auto_topic_creation": False, "include_topic_authorized_operations": True}


def _topic_partitions(scene: Scene) -> Content:
    names = sorted({scene.topic.name, scene.name})
    return {
        "topics": [{"name": name} for name in names],
        "response_partition_limit": scene.rng.choice((1, 2000)),
        "cursor": scene.rng.choice((None, {"topic_name": names[0], "partition_index": 0})),
    }


def _more_partitions(scene: Scene) -> Content:
    present = len(scene.topic.partitions)
    count = scene.rng.choice((present, present + 1, present + 2, present - 1))
    assignments = None
    if scene.rng.random() < 0.5:
        brokers = sorted(scene.image.brokers)
        copies = len(scene.topic.partitions[0].target_replicas)
        assignments = [
            {"broker_ids": scene.rng.sample(brokers, min(copies, len(brokers)))} for _ in range(count - present)
        ]
    return {
        "topics": [{"name": scene.name, "count": count, "assignments": assignments}],
        "timeout": 5000,
        "validate_only": True,
    }


def _assigned_topic(scene: Scene) -> Content:
    brokers = sorted(scene.image.brokers)
    assignments = [
        {"partition_index": number, "broker_ids": scene.rng.sample(brokers, min(2, len(brokers)))}
        for number in scene.rng.choice(((0, 1), (0, 2), (0, 0)))
    ]
    wanted = {
        "name": scene.rng.choice((scene.topic.name, "not-made", "no/name")),
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": assignments,
        "configs": scene.rng.choice(([], [{"name": "retention.ms", "value": "x"}])),
    }
    topics = [wanted] if scene.rng.random() < 0.8 else [{**wanted, "assignments": [], "num_partitions": 20_000}]
    return {"topics": topics, "timeout": 5000, "validate_only": True}


def _no_topic(scene: Scene) -> Content:
    both = {"name": "missing", "topic_id": scene.topic.topic_id}
    neither = {"name": None, "topic_id": None}
    return {"topics": [both, neither, {"name": "missing", "topic_id": None}], "timeout": 5000}


def _reassignments(scene: Scene) -> Content:
    some = [{"name": scene.name, "partition_indexes": [scene.partition]}]
    return {"topics": scene.rng.choice((None, some)), "timeout": 5000}


def _fixed_factor(scene: Scene) -> Content:
    state = scene.topic.partitions[0]
    fewer = state.target_replicas[:1] if len(state.target_replicas) > 1 else (*state.target_replicas, 99)
    partitions = [{"partition_index": 0, "replicas": list(fewer)}]
    return {
        "timeout": 5000,
        "allow_replication_factor_change": False,
        "topics": [{"name": scene.topic.name, "partitions": partitions}],
    }


def _directories(scene: Scene) -> Content:
    some = [{"topic": scene.topic.name, "partitions": [scene.partition]}]
    return {"topics": scene.rng.choice((None, some))}


def _moves(scene: Scene) -> Content:
    path = scene.rng.choice(("/no/such/directory", *scene.directories[:1]))
    return {"dirs": [{"path": path, "topics": [{"name": scene.name, "partitions": [scene.partition]}]}]}


# --- settings and features -----------------------------------------------------------------------------------------------------------


def _describe_configs(scene: Scene) -> Content:
    kind, name = scene.rng.choice(
        (
            (_TOPIC_RESOURCE, scene.name),
            (_BROKER_RESOURCE, ""),
            (_BROKER_RESOURCE, str(next(iter(scene.image.brokers)))),
        )
    )
    keys = scene.rng.choice((None, ["min.insync.replicas", "no.such"]))
    return {
        "resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
        "include_synonyms": True,
        "include_documentation": scene.rng.random() < 0.1,
    }


def _replace_configs(scene: Scene) -> Content:
    configs = [{"name": "retention.ms", "value": scene.rng.choice(("1000", "x"))}]
    resource = {"resource_type": _TOPIC_RESOURCE, "resource_name": scene.name, "configs": configs}
    return {"resources": [resource], "validate_only": True}


def _alter_lists(scene: Scene) -> Content:
    name, value = scene.rng.choice((("cleanup.policy", "delete"), ("retention.ms", "1"), ("no.such", "1")))
    operation = scene.rng.choice((_APPEND, _SUBTRACT))
    configs = [{"name": name, "config_operation": operation, "value": value}]
    resource = {"resource_type": _TOPIC_RESOURCE, "resource_name": scene.name, "configs": configs}
    return {"resources": [resource], "validate_only": True}


def _resources(scene: Scene) -> Content:
    return {"resource_types": scene.rng.choice(([], [2], [4, 8], [16, 32], [99]))}


def _features(scene: Scene) -> Content:
    feature = scene.rng.choice((*SUPPORTED_FEATURES, "no.such"))
    low, high = SUPPORTED_FEATURES.get(feature, (0, 1))
    present = scene.image.features.get(feature, low)
    update = {
        "feature": feature,
        "max_version_level": scene.rng.choice((present, present, high, high + 1, low - 1)),
        "upgrade_type": scene.rng.choice((_UPGRADE, _UPGRADE, _SAFE_DOWNGRADE, _NO_TYPE)),
        "allow_downgrade": False,
    }
    return {"timeout": 5000, "feature_updates": [update], "validate_only": True}


# --- what there is none of -----------------------------------------------------------------------------------------------------------

_ACL: Final = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
_OWN_ACLS: Final = {**_ACL, "principal_filter": "User:a"}
"""The rules that a surveyor makes; others are the rule setter's."""
_NEW_ACL: Final = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


def _quotas(scene: Scene) -> Content:
    component = {
        "entity_type": scene.rng.choice(("user", "nope", "ip")),
        "match_type": scene.rng.choice((0, 1, 2, 7)),
        "match": scene.rng.choice((None, "x")),
    }
    return {"components": scene.rng.choice(([], [component], [component, component])), "strict": True}


def _transactions(scene: Scene) -> Content:
    return {
        "state_filters": scene.rng.choice(([], ["Nope", "Empty"])),
        "producer_id_filters": scene.rng.choice(([], [1])),
        "duration_filter": -1,
        "transactional_id_pattern": scene.rng.choice((None, "a.*", "[")),
    }


# --- groups --------------------------------------------------------------------------------------------------------------------------


def _list_groups(scene: Scene) -> Content:
    return {
        "states_filter": scene.rng.choice(([], ["Empty", "Stable"], ["Nope"])),
        "types_filter": scene.rng.choice(([], ["classic"])),
    }


def _describe_groups(scene: Scene) -> Content:
    names = ["group-0", "group-1", OWN_GROUP, VISITED_GROUP, "missing"]
    return {"groups": scene.rng.sample(names, 2), "include_authorized_operations": True}


def _describe_consumer_groups(scene: Scene) -> Content:
    names = [CONSUMER_GROUP, CONSUMER_GROUP, "group-0", "missing", ""]
    return {"group_ids": scene.rng.sample(names, 2), "include_authorized_operations": True}


def commit(scene: Scene, number: int) -> Content:
    """Commit an offset of the surveyor's own group for a partition of the scene's topic."""
    partition = {
        "partition_index": number,
        "committed_offset": scene.rng.randrange(9),
        "committed_leader_epoch": -1,
        "committed_metadata": "m",
    }
    return {
        "group_id": OWN_GROUP,
        "generation_id_or_member_epoch": -1,
        "generation_id": -1,
        "member_id": "",
        "retention_time": scene.rng.choice((-1, 2000)),
        "topics": [{"name": scene.topic.name, "topic_id": scene.topic.topic_id, "partitions": [partition]}],
    }


def _commit(scene: Scene) -> Content:
    return commit(scene, scene.partition)


def _fetch_offsets(scene: Scene) -> Content:
    some = [
        {
            "name": scene.topic.name,
            "topic_id": scene.topic.topic_id,
            "partition_indexes": [scene.partition],
        }
    ]
    topics = some if scene.version < 2 else scene.rng.choice((None, some))
    groups = [{"group_id": group, "topics": topics} for group in (OWN_GROUP, "missing")]
    return {"group_id": OWN_GROUP, "topics": topics, "groups": groups, "require_stable": True}


def _delete_offsets(scene: Scene) -> Content:
    """A deletion of offsets; of other groups, those in the surveyed topic alone, which they never commit."""
    if scene.rng.random() < 0.2:
        return {"group_id": CONSUMER_GROUP, "topics": [{"name": SURVEYED, "partitions": [{"partition_index": 0}]}]}
    partitions = [{"partition_index": scene.partition}]
    return {
        "group_id": scene.rng.choice((OWN_GROUP, "missing")),
        "topics": [{"name": scene.topic.name, "partitions": partitions}],
    }


def _join(scene: Scene) -> Content:
    return {
        "group_id": VISITED_GROUP,
        "session_timeout": 6000,
        "rebalance_timeout": 1000,
        "member_id": scene.rng.choice(("", "", "nobody")),
        "group_instance_id": scene.rng.choice((None, "visitor")),
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\0"}],
    }


def _as_member(scene: Scene) -> Content:
    """A request of a member that the group does not have, or has no longer."""
    return {
        "group_id": VISITED_GROUP,
        "generation_id": scene.rng.choice((-1, 1)),
        "member_id": scene.rng.choice(("", "nobody")),
        "group_instance_id": scene.rng.choice((None, "visitor")),
        "protocol_type": "consumer",
        "protocol_name": "range",
    }


def _leave(scene: Scene) -> Content:
    instance_id = scene.rng.choice((None, "visitor"))
    member = {"member_id": "" if instance_id else "nobody", "group_instance_id": instance_id}
    return {"group_id": VISITED_GROUP, "member_id": "nobody", "members": [member]}


def _delete_groups(scene: Scene) -> Content:
    return {"groups_names": scene.rng.choice(([OWN_GROUP], ["missing", ""], [OWN_GROUP, "missing"]))}


_CONTROLLER: Final = ListenerKind.CONTROLLER


def _update_voter(scene: Scene) -> Content:
    return {
        "cluster_id": None,
        "current_leader_epoch": scene.rng.choice((0, 1, 99)),
        "voter_id": 77,
        "voter_directory_id": DirectoryId(ZERO_UUID),
        "listeners": [],
    }


# --- share groups --------------------------------------------------------------------------------------------------------------------

SHARE_GROUP: Final = "queue-0"
"""The share group that is asked about."""

OWN_SHARE_GROUP: Final = "surveyed queue"
"""The group of sessions that get no records, as it has no members and no states."""

SHARE_APIS: Final = frozenset(
    (
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    )
)
"""The APIs of which nothing is asked where there are no share groups."""


def _describe_share_groups(scene: Scene) -> Content:
    names = [SHARE_GROUP, SHARE_GROUP, "queue-1", CONSUMER_GROUP, "missing", ""]
    return {"group_ids": scene.rng.sample(names, 2), "include_authorized_operations": True}


def _share_offsets(scene: Scene) -> Content:
    some = [{"topic_name": scene.name, "partitions": [scene.partition]}]
    topics = scene.rng.choice((None, some))
    return {"groups": [{"group_id": name, "topics": topics} for name in (SHARE_GROUP, "missing", CONSUMER_GROUP)]}


def _share_states(scene: Scene) -> Content:
    """A read of states by a reader that leads nothing, and shuts no leader out."""
    partition = {"partition": scene.partition, "leader_epoch": -1}
    group = scene.rng.choice((SHARE_GROUP, SHARE_GROUP, "missing", ""))
    return {"group_id": group, "topics": [{"topic_id": scene.topic.topic_id, "partitions": [partition]}]}


def _share_session(scene: Scene) -> Content:
    """Open a session of many partitions, most of which are not there, or go on with it, or end it."""
    numbers = range(scene.rng.choice((1, len(scene.topic.partitions), MANY_PARTITIONS)))
    epoch = scene.rng.choice((0, 0, 1, 2, -1))
    partitions = [{"partition_index": number, "acknowledgement_batches": []} for number in numbers]
    return {
        "group_id": OWN_SHARE_GROUP,
        "member_id": "surveyor",
        "share_session_epoch": epoch,
        "max_wait": scene.rng.choice((0, 200)),
        "min_bytes": 1,
        "max_bytes": 10_000,
        "max_records": 10,
        "batch_size": 10,
        "topics": [] if epoch < 0 else [{"topic_id": scene.topic.topic_id, "partitions": partitions}],
        "forgotten_topics_data": [{"topic_id": scene.topic.topic_id, "partitions": [0]}] if epoch > 0 else [],
    }


def _share_words(scene: Scene) -> Content:
    """Words on records that no member has."""
    batches = [{"first_offset": 0, "last_offset": 2, "acknowledge_types": scene.rng.choice(((1,), (1, 2, 3)))}]
    partitions = [{"partition_index": number, "acknowledgement_batches": batches} for number in range(MANY_PARTITIONS)]
    return {
        "group_id": OWN_SHARE_GROUP,
        "member_id": "surveyor",
        "share_session_epoch": scene.rng.choice((1, 2, 3, -1)),
        "topics": [{"topic_id": scene.topic.topic_id, "partitions": partitions}],
    }


QUESTIONS: Final = (
    Question(ApiKey.LIST_OFFSETS, _list_offsets),
    Question(ApiKey.LIST_OFFSETS, _list_offsets, 7),
    Question(ApiKey.FETCH, _fetch),
    Question(ApiKey.OFFSET_FOR_LEADER_EPOCH, _epoch_end),
    Question(ApiKey.DESCRIBE_PRODUCERS, _producers),
    Question(ApiKey.INIT_PRODUCER_ID, _init_producer),
    Question(ApiKey.METADATA, _metadata),
    Question(ApiKey.DESCRIBE_TOPIC_PARTITIONS, _topic_partitions),
    Question(ApiKey.CREATE_PARTITIONS, _more_partitions),
    Question(ApiKey.CREATE_TOPICS, _assigned_topic),
    Question(ApiKey.LIST_PARTITION_REASSIGNMENTS, _reassignments),
    Question(ApiKey.ALTER_PARTITION_REASSIGNMENTS, _fixed_factor, 1),
    Question(ApiKey.DESCRIBE_LOG_DIRS, _directories),
    Question(ApiKey.ALTER_REPLICA_LOG_DIRS, _moves),
    Question(ApiKey.DESCRIBE_CONFIGS, _describe_configs),
    Question(ApiKey.ALTER_CONFIGS, _replace_configs),
    Question(ApiKey.INCREMENTAL_ALTER_CONFIGS, _alter_lists),
    Question(ApiKey.LIST_CONFIG_RESOURCES, _resources),
    Question(ApiKey.UPDATE_FEATURES, _features),
    Question(ApiKey.DESCRIBE_ACLS, lambda _scene: _ACL),
    Question(ApiKey.CREATE_ACLS, lambda _scene: {"creations": [_NEW_ACL, _NEW_ACL]}),
    Question(ApiKey.DELETE_ACLS, lambda _scene: {"filters": [_OWN_ACLS]}),
    Question(ApiKey.DESCRIBE_CLIENT_QUOTAS, _quotas),
    Question(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, lambda _scene: {"users": [{"name": "x"}, {"name": "y"}]}),
    Question(ApiKey.CREATE_DELEGATION_TOKEN, lambda _scene: {"renewers": [], "max_lifetime": -1}),
    Question(ApiKey.RENEW_DELEGATION_TOKEN, lambda _scene: {"hmac": b"x", "renew_period": -1}),
    Question(ApiKey.EXPIRE_DELEGATION_TOKEN, lambda _scene: {"hmac": b"x", "expiry_time_period": -1}),
    Question(ApiKey.DESCRIBE_DELEGATION_TOKEN, lambda _scene: {"owners": None}),
    Question(ApiKey.LIST_TRANSACTIONS, _transactions),
    Question(ApiKey.DESCRIBE_TRANSACTIONS, lambda _scene: {"transactional_ids": ["txn-0", "x", ""]}),
    Question(ApiKey.DESCRIBE_CLUSTER, lambda _scene: {"endpoint_type": 1, "include_fenced_brokers": True}),
    Question(ApiKey.API_VERSIONS, lambda _scene: {"client_software_name": "s", "client_software_version": "1"}),
    Question(ApiKey.LIST_GROUPS, _list_groups),
    Question(ApiKey.DESCRIBE_GROUPS, _describe_groups),
    Question(ApiKey.CONSUMER_GROUP_DESCRIBE, _describe_consumer_groups),
    Question(ApiKey.OFFSET_COMMIT, _commit),
    Question(ApiKey.OFFSET_COMMIT, _commit),
    Question(ApiKey.OFFSET_FETCH, _fetch_offsets),
    Question(ApiKey.OFFSET_DELETE, _delete_offsets),
    Question(ApiKey.DELETE_GROUPS, _delete_groups),
    Question(ApiKey.DELETE_GROUPS, _delete_groups),
    Question(ApiKey.JOIN_GROUP, _join),
    Question(ApiKey.SYNC_GROUP, _as_member),
    Question(ApiKey.HEARTBEAT, _as_member),
    Question(ApiKey.LEAVE_GROUP, _leave),
    Question(ApiKey.SHARE_GROUP_DESCRIBE, _describe_share_groups),
    Question(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, _share_offsets),
    Question(ApiKey.READ_SHARE_GROUP_STATE, _share_states),
    Question(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, _share_states),
    Question(ApiKey.SHARE_FETCH, _share_session),
    Question(ApiKey.SHARE_FETCH, _share_session),
    Question(ApiKey.SHARE_ACKNOWLEDGE, _share_words),
    Question(ApiKey.API_VERSIONS, lambda _scene: {"client_software_name": "s"}, listener=_CONTROLLER),
    Question(ApiKey.DESCRIBE_CLUSTER, lambda _scene: {"endpoint_type": 2}, 1, _CONTROLLER),
    Question(ApiKey.DESCRIBE_CONFIGS, _describe_configs, listener=_CONTROLLER),
    Question(ApiKey.ALTER_CONFIGS, _replace_configs, listener=_CONTROLLER),
    Question(ApiKey.CREATE_PARTITIONS, _more_partitions, listener=_CONTROLLER),
    Question(ApiKey.DELETE_TOPICS, _no_topic, 6, _CONTROLLER),
    Question(ApiKey.LIST_PARTITION_REASSIGNMENTS, _reassignments, listener=_CONTROLLER),
    Question(ApiKey.UPDATE_FEATURES, _features, listener=_CONTROLLER),
    Question(ApiKey.UPDATE_RAFT_VOTER, _update_voter, listener=_CONTROLLER),
    Question(ApiKey.DESCRIBE_ACLS, lambda _scene: _ACL, listener=_CONTROLLER),
    Question(ApiKey.CREATE_ACLS, lambda _scene: {"creations": [_NEW_ACL]}, listener=_CONTROLLER),
    Question(ApiKey.DELETE_ACLS, lambda _scene: {"filters": [_OWN_ACLS]}, listener=_CONTROLLER),
    Question(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, lambda _scene: {"users": None}, listener=_CONTROLLER),
)
"""All of them; one that stands twice is asked twice as often."""

OWN_PARTITIONS_MAX: Final = 4
"""To so many the surveyor's own topic grows."""


def grow(name: str, count: int) -> Content:
    """Give a topic so many partitions."""
    return {"topics": [{"name": name, "count": count, "assignments": None}], "timeout": 5000, "validate_only": False}
