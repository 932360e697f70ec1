"""The permissions that each API needs, and the error of a request without them: Kafka's table (``KafkaApis``, ``ControllerApis``).

An API's checks are made in their order. :class:`Whole` refuses the request. :class:`Each` refuses single elements: topics, groups,
resources; the others are answered as if they had come alone. :class:`InHandler` says that the API's own modules ask, because the
permissions depend on what they find, or shape the answer. :data:`FREE` needs none.

Whether something exists is looked up only where the client may know: a denied name gets the same answer whether or not it is there.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID

from esp.controller.configs import BROKER_LOGGER
from esp.controller.image import ClusterImage
from esp.model.acl import CLUSTER_NAME, AclOperation, Permission, ResourceType
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.protocol.registry import ApiKey, ListenerKind
from esp.schemas.metadata_records import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE

_TOPIC_DENIED: Final = ErrorCode.topic_authorization_failed
_GROUP_DENIED: Final = ErrorCode.group_authorization_failed
_CLUSTER_DENIED: Final = ErrorCode.cluster_authorization_failed
_TRANSACTIONAL_ID_DENIED: Final = ErrorCode.transactional_id_authorization_failed

MESSAGES: Final[Mapping[ErrorCode, str]] = MappingProxyType(
    {
        _TOPIC_DENIED: "Topic authorization failed.",
        _GROUP_DENIED: "Group authorization failed.",
        _CLUSTER_DENIED: "Cluster authorization failed.",
        _TRANSACTIONAL_ID_DENIED: "Transactional Id authorization failed.",
    }
)
"""Kafka's text beside each code, where an answer has room for one."""


_CONFIGURED: Final = (TOPIC_RESOURCE, GROUP_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER, CLIENT_METRICS_RESOURCE)
"""The types of resources that have settings."""


class Whole(NamedTuple):
    """The request is refused unless one of the permissions is there."""

    what: str
    """The permission in words: operation and kind of resource."""
    code: ErrorCode
    needs: Callable[[Any], tuple[Permission, ...]]
    """The permissions of a request message, one of which is enough; none if there is nothing to check."""


class Absence(NamedTuple):
    """The refusal of an element that is not there, for a client that may know so."""

    permission: Permission
    code: ErrorCode
    message: str


class Element(NamedTuple):
    """One element of a request: the permissions one of which is enough, and the error if none is there."""

    code: ErrorCode
    needs: tuple[Permission, ...]
    message: str | None = None
    """The text beside the code, if not that of :data:`MESSAGES`."""
    absence: Absence | None = None
    """Given where the image has no such element. It does not reach the handler, which decides on a newer image."""


class Each(NamedTuple):
    """Elements of a request are refused one by one.

    ``asked`` and ``answered`` name the lists of elements in the request and in the answer. An element without needs, of which ``of``
    returns None, is left to the handler: the topic of an unknown id, say.
    """

    what: str
    """The permission in words: operation and kind of resource."""
    asked: str
    answered: str
    of: Callable[[ClusterImage, Any], Element | None]


class InHandler(NamedTuple):
    """The API's own modules ask."""

    what: str
    """The permission in words: operation and kind of resource."""
    reason: str


class Free(NamedTuple):
    """The API needs no permission."""

    what: str = "nothing"


FREE: Final = Free()

Check = Whole | Each | InHandler | Free


def _in_words(resource_type: ResourceType, *operations: AclOperation) -> str:
    """Operations by their names in Kafka's tools, and the kind of resource: ``Alter cluster``."""
    names = ("".join(word.capitalize() for word in operation.name.split("_")) for operation in operations)
    return f"{' or '.join(names)} {resource_type.name.lower().replace('_', ' ')}"


def _cluster(operation: AclOperation, *more: AclOperation) -> tuple[Check, ...]:
    """The whole request needs one of these operations on the cluster."""
    needs = tuple(Permission(each, ResourceType.CLUSTER, CLUSTER_NAME) for each in (operation, *more))
    return (Whole(_in_words(ResourceType.CLUSTER, operation, *more), _CLUSTER_DENIED, lambda _message: needs),)


def _group(operation: AclOperation) -> Whole:
    return Whole(
        _in_words(ResourceType.GROUP, operation),
        _GROUP_DENIED,
        # null in requests of share groups alone, whose handlers refuse it
        lambda message: (Permission(operation, ResourceType.GROUP, message.group_id or ""),),
    )


def _transactional_id(operation: AclOperation) -> Whole:
    return Whole(
        _in_words(ResourceType.TRANSACTIONAL_ID, operation),
        _TRANSACTIONAL_ID_DENIED,
        lambda message: (Permission(operation, ResourceType.TRANSACTIONAL_ID, message.transactional_id),),
    )


def _topics(
    operation: AclOperation,
    *,
    asked: str = "topics",
    answered: str = "topics",
    name: str = "name",
    or_on_cluster: AclOperation | None = None,
    message: str | None = None,
) -> Each:
    """Each topic needs an operation on it, or one on the cluster."""
    instead = () if or_on_cluster is None else (Permission(or_on_cluster, ResourceType.CLUSTER, CLUSTER_NAME),)

    def of(image: ClusterImage, topic: Any) -> Element | None:
        found = getattr(topic, name, None)
        if found is None:
            topic_image = image.topics_by_id.get(TopicId(topic.topic_id))
            if topic_image is None:
                return None
            found = topic_image.name
        return Element(_TOPIC_DENIED, (*instead, Permission(operation, ResourceType.TOPIC, found)), message)

    what = _in_words(ResourceType.TOPIC, operation)
    if or_on_cluster is not None:
        what += f", or {_in_words(ResourceType.CLUSTER, or_on_cluster)}"
    return Each(what, asked, answered, of)


def _names(operation: AclOperation, resource_type: ResourceType, code: ErrorCode, asked: str, answered: str) -> Each:
    """Each element is the name of a resource."""
    return Each(
        _in_words(resource_type, operation),
        asked,
        answered,
        lambda _image, name: Element(code, (Permission(operation, resource_type, str(name)),)),
    )


def _deleted(image: ClusterImage, name: str | None, topic_id: UUID | None) -> Element | None:
    """Deleting a topic needs Delete; to hear that there is none of that name, Describe is enough."""
    if name is None:
        found = None if topic_id is None else image.topics_by_id.get(TopicId(topic_id))
        if found is None:
            return None
        name = found.name
    element = Element(_TOPIC_DENIED, (Permission(AclOperation.DELETE, ResourceType.TOPIC, name),))
    if name in image.topics_by_name:
        return element
    may_know = Permission(AclOperation.DESCRIBE, ResourceType.TOPIC, name)
    unknown = ErrorCode.unknown_topic_or_partition
    return element._replace(absence=Absence(may_know, unknown, "This server does not host this topic-partition."))


def _configs(operation: AclOperation, answered: str) -> Each:
    """Each resource needs an operation on it; those that are no topics and no groups, on the cluster; an unknown type has no settings."""

    def of(_image: ClusterImage, resource: Any) -> Element | None:
        if resource.resource_type not in _CONFIGURED:
            return None
        if resource.resource_type == TOPIC_RESOURCE:
            return Element(_TOPIC_DENIED, (Permission(operation, ResourceType.TOPIC, resource.resource_name),))
        if resource.resource_type == GROUP_RESOURCE:
            return Element(_GROUP_DENIED, (Permission(operation, ResourceType.GROUP, resource.resource_name),))
        return Element(_CLUSTER_DENIED, (Permission(operation, ResourceType.CLUSTER, CLUSTER_NAME),))

    return Each(f"{_in_words(ResourceType.TOPIC, operation)}, group or cluster", "resources", answered, of)


def _of_broker_about_transactions(message: Any) -> tuple[Permission, ...]:
    """From version 4 on AddPartitionsToTxn is for partition leaders."""
    if not hasattr(message, "transactions"):
        return ()
    return (Permission(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME),)


def _of_client_about_its_transaction(message: Any) -> tuple[Permission, ...]:
    """Versions of AddPartitionsToTxn up to 3 are for clients."""
    if hasattr(message, "transactions"):
        return ()
    transactional_id = message.v3_and_below_transactional_id
    return (Permission(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id),)


_CLUSTER_ACTION: Final = _cluster(AclOperation.CLUSTER_ACTION)
_ALTER_CLUSTER: Final = _cluster(AclOperation.ALTER)
_DESCRIBE_CLUSTER: Final = _cluster(AclOperation.DESCRIBE)
_READ_GROUP: Final = _group(AclOperation.READ)
_WRITE_TRANSACTIONAL_ID: Final = _transactional_id(AclOperation.WRITE)
_CREATED_TOPICS: Final = _topics(
    AclOperation.CREATE, or_on_cluster=AclOperation.CREATE, message="Authorization failed."
)

CHECKS: Final[Mapping[int, tuple[Check, ...]]] = MappingProxyType(
    {
        ApiKey.PRODUCE: (
            InHandler("Write topic, Write transactional id", "esp.broker.data_path.produce_appender, for each batch"),
        ),
        ApiKey.FETCH: (InHandler("Read topic; ClusterAction cluster of a follower", "whenever a partition is read"),),
        ApiKey.LIST_OFFSETS: (_topics(AclOperation.DESCRIBE),),
        ApiKey.METADATA: (
            InHandler(
                "Describe topic; Create topic, or Create cluster, to create it", "it shapes the list of all topics"
            ),
        ),
        ApiKey.OFFSET_COMMIT: (_READ_GROUP, _topics(AclOperation.READ)),
        ApiKey.OFFSET_FETCH: (
            InHandler("Describe group; Describe topic", "many groups, each with topics; all topics may be asked for"),
        ),
        ApiKey.FIND_COORDINATOR: (
            InHandler(
                "Describe group, or Describe transactional id, or ClusterAction cluster",
                "the type of the keys says which",
            ),
        ),
        ApiKey.JOIN_GROUP: (_READ_GROUP,),
        ApiKey.HEARTBEAT: (_READ_GROUP,),
        ApiKey.LEAVE_GROUP: (_READ_GROUP,),
        ApiKey.SYNC_GROUP: (_READ_GROUP,),
        ApiKey.DESCRIBE_GROUPS: (_names(AclOperation.DESCRIBE, ResourceType.GROUP, _GROUP_DENIED, "groups", "groups"),),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: (
            _READ_GROUP,
            InHandler(
                "Describe topic", "the whole request is refused for one name, and an expression matches what is allowed"
            ),
        ),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (
            _names(AclOperation.DESCRIBE, ResourceType.GROUP, _GROUP_DENIED, "group_ids", "groups"),
            InHandler("Describe topic", "a group with a topic that the client may not know of is refused as a whole"),
        ),
        ApiKey.LIST_GROUPS: (InHandler("Describe cluster, or Describe group", "other groups are left out"),),
        ApiKey.SASL_HANDSHAKE: (FREE,),
        ApiKey.API_VERSIONS: (FREE,),
        ApiKey.SASL_AUTHENTICATE: (FREE,),
        ApiKey.CREATE_TOPICS: (_CREATED_TOPICS,),
        ApiKey.DELETE_TOPICS: (
            Each(
                "Delete topic", "topics", "responses", lambda image, topic: _deleted(image, topic.name, topic.topic_id)
            ),
            Each("Delete topic", "topic_names", "responses", lambda image, name: _deleted(image, name, None)),
        ),
        ApiKey.DELETE_RECORDS: (_topics(AclOperation.DELETE),),
        ApiKey.INIT_PRODUCER_ID: (
            InHandler(
                "Write transactional id; IdempotentWrite cluster, or Write on some topic", "two kinds of producers"
            ),
        ),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (
            _topics(AclOperation.DESCRIBE, name="topic", or_on_cluster=AclOperation.CLUSTER_ACTION),
        ),
        ApiKey.ADD_PARTITIONS_TO_TXN: (
            Whole("ClusterAction cluster from version 4 on", _CLUSTER_DENIED, _of_broker_about_transactions),
            Whole("before it Write transactional id", _TRANSACTIONAL_ID_DENIED, _of_client_about_its_transaction),
            InHandler("Write topic", "a transaction takes all partitions of a request, or none"),
        ),
        ApiKey.ADD_OFFSETS_TO_TXN: (_WRITE_TRANSACTIONAL_ID, _READ_GROUP),
        ApiKey.END_TXN: (_WRITE_TRANSACTIONAL_ID,),
        ApiKey.WRITE_TXN_MARKERS: _cluster(AclOperation.CLUSTER_ACTION, AclOperation.ALTER),
        ApiKey.TXN_OFFSET_COMMIT: (_WRITE_TRANSACTIONAL_ID, _READ_GROUP, _topics(AclOperation.READ)),
        ApiKey.DESCRIBE_ACLS: _DESCRIBE_CLUSTER,
        ApiKey.CREATE_ACLS: _ALTER_CLUSTER,
        ApiKey.DELETE_ACLS: _ALTER_CLUSTER,
        ApiKey.DESCRIBE_CONFIGS: (_configs(AclOperation.DESCRIBE_CONFIGS, "results"),),
        ApiKey.ALTER_CONFIGS: (_configs(AclOperation.ALTER_CONFIGS, "responses"),),
        ApiKey.ALTER_REPLICA_LOG_DIRS: _ALTER_CLUSTER,
        ApiKey.DESCRIBE_LOG_DIRS: _DESCRIBE_CLUSTER,
        ApiKey.CREATE_PARTITIONS: (_topics(AclOperation.ALTER, answered="results"),),
        ApiKey.CREATE_DELEGATION_TOKEN: (
            InHandler("nothing; CreateTokens user for a token of another user", "the requester may be the owner"),
        ),
        ApiKey.RENEW_DELEGATION_TOKEN: (InHandler("nothing", "owner and renewers of the token may, and no other"),),
        ApiKey.EXPIRE_DELEGATION_TOKEN: (InHandler("nothing", "owner and renewers of the token may, and no other"),),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: (
            InHandler("nothing; Describe delegation token or DescribeTokens user for others'", "others are left out"),
        ),
        ApiKey.DELETE_GROUPS: (
            _names(AclOperation.DELETE, ResourceType.GROUP, _GROUP_DENIED, "groups_names", "results"),
        ),
        ApiKey.ELECT_LEADERS: _ALTER_CLUSTER,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (_configs(AclOperation.ALTER_CONFIGS, "responses"),),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _ALTER_CLUSTER,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBE_CLUSTER,
        ApiKey.OFFSET_DELETE: (_group(AclOperation.DELETE), _topics(AclOperation.READ)),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: _cluster(AclOperation.DESCRIBE_CONFIGS),
        ApiKey.ALTER_CLIENT_QUOTAS: _cluster(AclOperation.ALTER_CONFIGS),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _DESCRIBE_CLUSTER,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _ALTER_CLUSTER,
        ApiKey.VOTE: _CLUSTER_ACTION,
        ApiKey.BEGIN_QUORUM_EPOCH: _CLUSTER_ACTION,
        ApiKey.END_QUORUM_EPOCH: _CLUSTER_ACTION,
        ApiKey.DESCRIBE_QUORUM: _DESCRIBE_CLUSTER,
        ApiKey.ALTER_PARTITION: _CLUSTER_ACTION,
        ApiKey.UPDATE_FEATURES: _ALTER_CLUSTER,
        ApiKey.ENVELOPE: _CLUSTER_ACTION,
        ApiKey.FETCH_SNAPSHOT: _CLUSTER_ACTION,
        ApiKey.DESCRIBE_CLUSTER: (
            InHandler("nothing; Describe cluster to see permitted operations", "it shapes the answer"),
        ),
        ApiKey.DESCRIBE_PRODUCERS: (_topics(AclOperation.READ),),
        ApiKey.BROKER_REGISTRATION: _CLUSTER_ACTION,
        ApiKey.BROKER_HEARTBEAT: _CLUSTER_ACTION,
        ApiKey.UNREGISTER_BROKER: _ALTER_CLUSTER,
        ApiKey.DESCRIBE_TRANSACTIONS: (
            _names(
                AclOperation.DESCRIBE,
                ResourceType.TRANSACTIONAL_ID,
                _TRANSACTIONAL_ID_DENIED,
                "transactional_ids",
                "transaction_states",
            ),
        ),
        ApiKey.LIST_TRANSACTIONS: (InHandler("Describe transactional id", "others are left out"),),
        ApiKey.ALLOCATE_PRODUCER_IDS: _CLUSTER_ACTION,
        ApiKey.CONTROLLER_REGISTRATION: _CLUSTER_ACTION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: _CLUSTER_ACTION,
        ApiKey.LIST_CONFIG_RESOURCES: _cluster(AclOperation.DESCRIBE_CONFIGS),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: (InHandler("Describe topic", "it shapes the list of all topics"),),
        ApiKey.ADD_RAFT_VOTER: _ALTER_CLUSTER,
        ApiKey.REMOVE_RAFT_VOTER: _ALTER_CLUSTER,
        ApiKey.UPDATE_RAFT_VOTER: _CLUSTER_ACTION,
        ApiKey.SHARE_GROUP_HEARTBEAT: (
            _READ_GROUP,
            InHandler("Describe topic", "the whole request is refused for one name"),
        ),
        ApiKey.SHARE_GROUP_DESCRIBE: (
            _names(AclOperation.DESCRIBE, ResourceType.GROUP, _GROUP_DENIED, "group_ids", "groups"),
            InHandler("Describe topic", "a group with a topic that the client may not know of is refused as a whole"),
        ),
        ApiKey.SHARE_FETCH: (
            _READ_GROUP,
            InHandler("Read topic", "a session, or a request that waits, may be older than a rule"),
        ),
        ApiKey.SHARE_ACKNOWLEDGE: (
            _READ_GROUP,
            InHandler("Read topic", "the session's epoch counts the request first"),
        ),
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (
            Each(
                _in_words(ResourceType.GROUP, AclOperation.DESCRIBE),
                "groups",
                "groups",
                lambda _image, group: Element(
                    _GROUP_DENIED, (Permission(AclOperation.DESCRIBE, ResourceType.GROUP, str(group.group_id)),)
                ),
            ),
            InHandler("Describe topic", "each group has topics; all topics may be asked for"),
        ),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: (
            _READ_GROUP,
            _topics(AclOperation.READ, answered="responses", name="topic_name"),
        ),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: (
            _group(AclOperation.DELETE),
            _topics(AclOperation.READ, answered="responses", name="topic_name"),
        ),
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: _CLUSTER_ACTION,
        ApiKey.READ_SHARE_GROUP_STATE: _CLUSTER_ACTION,
        ApiKey.WRITE_SHARE_GROUP_STATE: _CLUSTER_ACTION,
        ApiKey.DELETE_SHARE_GROUP_STATE: _CLUSTER_ACTION,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _CLUSTER_ACTION,
    }
)
"""The checks of each API on the listeners of brokers, and on those of controllers if :data:`AT_CONTROLLERS` has no others."""

AT_CONTROLLERS: Final[Mapping[int, tuple[Check, ...]]] = MappingProxyType(
    {ApiKey.FETCH: _CLUSTER_ACTION, ApiKey.DESCRIBE_CLUSTER: _ALTER_CLUSTER}
)


def checks_of(api_key: int, kind: ListenerKind) -> tuple[Check, ...]:
    """The checks of an API on a kind of listener."""
    if kind is ListenerKind.CONTROLLER and api_key in AT_CONTROLLERS:
        return AT_CONTROLLERS[api_key]
    return CHECKS[api_key]
