"""The APIs and versions that a node serves, on which kind of listener, and the properties of each that the protocol layer needs.

ApiVersions answers, the check of a request's version, the choice of handlers and message classes and the table in ``docs/PROTOCOL.md`` all
derive from :data:`SERVED`. Every advertised version is served, with one exception: Produce 0-2 is advertised and not served, as in Kafka
4 (KIP-896): old librdkafka compresses only when it sees those versions. Nothing is advertised above Kafka 4.3.1's maxima.

A *model version* is the version whose message class handlers are written against. Requests and answers of older versions are read
into, and written from, that class by the names of its fields. Where a field disappeared on the way, an API has several model versions, each
for the versions up to it. The rows of an ApiVersions answer are derived from the registry too.

An API of a *feature* is served in clusters that work at level 1 or more of it. In others it is not advertised, and answered
UNSUPPORTED_VERSION.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from kio.schema.api_versions.v4.response import ApiVersion
from kio.static.primitive import i16

from esp.model.features import SHARE_VERSION


class ListenerKind(Enum):
    """The peers that a listener is for."""

    BROKER = "broker"
    """Clients and other brokers."""

    CONTROLLER = "controller"
    """Members of the metadata quorum, brokers in their dealings with the controller, and tools that ask the controllers."""


_BROKER: Final = frozenset((ListenerKind.BROKER,))
_CONTROLLER: Final = frozenset((ListenerKind.CONTROLLER,))
_BOTH: Final = _BROKER | _CONTROLLER


class ApiKey(IntEnum):
    """Kafka's numbers of the APIs that are served."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class ServedApi(NamedTuple):
    """An API: the versions served, the versions advertised (``advertised_min`` to ``max_version``), and how its messages are made."""

    key: ApiKey
    name: str
    """Kafka's name of the API, which is also the stem of kio's class names."""

    min_version: int
    max_version: int
    advertised_min: int

    flexible_from: int
    """The first version with compact lengths and tagged fields (KIP-482), body and headers."""

    request_models: tuple[int, ...]
    """Model versions of the request, ascending; the last one is ``max_version``."""

    response_models: tuple[int, ...]
    """Model versions of the response, ascending; the last one is ``max_version``."""

    listeners: frozenset[ListenerKind]
    """The kinds of listener on which it is served; the versions are the same on each."""

    feature: str | None
    """The feature that it belongs to; None: it is served in every cluster."""

    def serves(self, version: int) -> bool:
        """True if requests of this version are answered."""
        return self.min_version <= version <= self.max_version

    def is_offered(self, levels: Mapping[str, int]) -> bool:
        """True if it is served in a cluster that works at these levels of features."""
        return self.feature is None or levels.get(self.feature, 0) > 0

    def is_flexible(self, version: int) -> bool:
        """True if this version's messages have compact lengths and tagged fields."""
        return version >= self.flexible_from

    def request_model(self, version: int) -> int:
        """The model version into which requests of a served ``version`` are read."""
        return next(model for model in self.request_models if model >= version)

    def response_model(self, version: int) -> int:
        """The model version from which responses of a served ``version`` are written."""
        return next(model for model in self.response_models if model >= version)


def _served(
    key: ApiKey,
    name: str,
    versions: tuple[int, int],
    flexible_from: int,
    *,
    listeners: frozenset[ListenerKind] = _BROKER,
    advertised_min: int | None = None,
    request_models: tuple[int, ...] = (),
    response_models: tuple[int, ...] = (),
    feature: str | None = None,
) -> ServedApi:
    """Fill in the defaults of most APIs: they advertise what they serve, and the newest version's classes fit all versions."""
    low, high = versions
    return ServedApi(
        key,
        name,
        low,
        high,
        low if advertised_min is None else advertised_min,
        flexible_from,
        (*request_models, high),
        (*response_models, high),
        listeners,
        feature,
    )


_APIS: Final = (
    # Version 13 names topics by id (KIP-516).
    _served(ApiKey.PRODUCE, "Produce", (3, 13), 9, advertised_min=0, request_models=(12,), response_models=(12,)),
    # Version 13 names topics by id; version 15 moves replica_id into the tagged replica_state (KIP-903).
    _served(ApiKey.FETCH, "Fetch", (4, 18), 12, listeners=_BOTH, request_models=(12, 14), response_models=(12,)),
    _served(ApiKey.LIST_OFFSETS, "ListOffsets", (1, 11), 6),
    # Versions 8 to 10 also ask for, and answer, the cluster's authorized operations (KIP-430, KIP-700).
    _served(ApiKey.METADATA, "Metadata", (0, 13), 9, request_models=(10,), response_models=(10,)),
    # Versions 2 to 4 say how long offsets stay; version 10 names topics by id.
    _served(ApiKey.OFFSET_COMMIT, "OffsetCommit", (2, 10), 8, request_models=(4, 9), response_models=(9,)),
    # Version 8 asks for many groups (KIP-709); version 10 names topics by id.
    _served(ApiKey.OFFSET_FETCH, "OffsetFetch", (1, 10), 6, request_models=(7, 9), response_models=(7, 9)),
    # Version 4 takes and answers many keys (KIP-699).
    _served(ApiKey.FIND_COORDINATOR, "FindCoordinator", (0, 6), 3, request_models=(3,), response_models=(3,)),
    _served(ApiKey.JOIN_GROUP, "JoinGroup", (0, 9), 6),
    _served(ApiKey.HEARTBEAT, "Heartbeat", (0, 4), 4),
    # Version 3 lets several members leave (KIP-345).
    _served(ApiKey.LEAVE_GROUP, "LeaveGroup", (0, 5), 4, request_models=(2,)),
    _served(ApiKey.SYNC_GROUP, "SyncGroup", (0, 5), 4),
    _served(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", (0, 6), 5),
    _served(ApiKey.LIST_GROUPS, "ListGroups", (0, 5), 3),
    _served(ApiKey.SASL_HANDSHAKE, "SaslHandshake", (0, 1), 2, listeners=_BOTH),
    _served(ApiKey.API_VERSIONS, "ApiVersions", (0, 4), 3, listeners=_BOTH),
    _served(ApiKey.CREATE_TOPICS, "CreateTopics", (2, 7), 5, listeners=_BOTH),
    # Version 6 takes names or ids (KIP-516).
    _served(ApiKey.DELETE_TOPICS, "DeleteTopics", (1, 6), 4, listeners=_BOTH, request_models=(5,)),
    _served(ApiKey.DELETE_RECORDS, "DeleteRecords", (0, 2), 2),
    _served(ApiKey.INIT_PRODUCER_ID, "InitProducerId", (0, 5), 2),
    _served(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", (2, 4), 4),
    # Version 4 is for brokers, which ask for many transactions (KIP-890); versions 4 and 5 are answered alike.
    _served(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", (0, 5), 3, request_models=(3,), response_models=(3,)),
    _served(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", (0, 4), 3),
    # Version 5 answers with the producer from now on (KIP-890).
    _served(ApiKey.END_TXN, "EndTxn", (0, 5), 3),
    _served(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", (1, 2), 1),
    _served(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", (0, 5), 3),
    _served(ApiKey.DESCRIBE_ACLS, "DescribeAcls", (1, 3), 2, listeners=_BOTH),
    _served(ApiKey.CREATE_ACLS, "CreateAcls", (1, 3), 2, listeners=_BOTH),
    _served(ApiKey.DELETE_ACLS, "DeleteAcls", (1, 3), 2, listeners=_BOTH),
    _served(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", (1, 4), 4, listeners=_BOTH),
    _served(ApiKey.ALTER_CONFIGS, "AlterConfigs", (0, 2), 2, listeners=_BOTH),
    _served(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", (1, 2), 2),
    _served(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", (1, 5), 2),
    _served(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", (0, 2), 2, listeners=_BOTH),
    _served(ApiKey.CREATE_PARTITIONS, "CreatePartitions", (0, 3), 2, listeners=_BOTH),
    _served(ApiKey.CREATE_DELEGATION_TOKEN, "CreateDelegationToken", (1, 3), 2, listeners=_BOTH),
    _served(ApiKey.RENEW_DELEGATION_TOKEN, "RenewDelegationToken", (1, 2), 2, listeners=_BOTH),
    _served(ApiKey.EXPIRE_DELEGATION_TOKEN, "ExpireDelegationToken", (1, 2), 2, listeners=_BOTH),
    _served(ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", (1, 3), 2),
    _served(ApiKey.DELETE_GROUPS, "DeleteGroups", (0, 2), 2),
    _served(ApiKey.ELECT_LEADERS, "ElectLeaders", (0, 2), 2, listeners=_BOTH),
    _served(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", (0, 1), 1, listeners=_BOTH),
    # Version 1 says whether the number of replicas may change (KIP-860).
    _served(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", (0, 1), 0, listeners=_BOTH),
    _served(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", (0, 0), 0, listeners=_BOTH),
    _served(ApiKey.OFFSET_DELETE, "OffsetDelete", (0, 0), 1),
    _served(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", (0, 1), 1),
    _served(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", (0, 1), 1, listeners=_BOTH),
    _served(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", (0, 0), 0, listeners=_BOTH),
    _served(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", (0, 0), 0, listeners=_BOTH),
    _served(ApiKey.VOTE, "Vote", (0, 2), 0, listeners=_CONTROLLER),
    _served(ApiKey.BEGIN_QUORUM_EPOCH, "BeginQuorumEpoch", (0, 1), 1, listeners=_CONTROLLER),
    # Version 1 names preferred successors with their directories (KIP-853).
    _served(ApiKey.END_QUORUM_EPOCH, "EndQuorumEpoch", (0, 1), 1, listeners=_CONTROLLER, request_models=(0,)),
    _served(ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", (0, 2), 0, listeners=_BOTH),
    # Version 3 gives each member of the in-sync set with its broker epoch (KIP-903).
    _served(ApiKey.ALTER_PARTITION, "AlterPartition", (2, 3), 0, listeners=_CONTROLLER, request_models=(2,)),
    # Version 1 says how far a level may go down, version 2 answers for all features at once (KIP-584).
    _served(
        ApiKey.UPDATE_FEATURES, "UpdateFeatures", (0, 2), 0, listeners=_BOTH, request_models=(0,), response_models=(1,)
    ),
    _served(ApiKey.ENVELOPE, "Envelope", (0, 0), 0, listeners=_CONTROLLER),
    _served(ApiKey.FETCH_SNAPSHOT, "FetchSnapshot", (0, 1), 0, listeners=_CONTROLLER),
    _served(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", (1, 2), 0, listeners=_BOTH),
    _served(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", (0, 0), 0),
    _served(ApiKey.BROKER_REGISTRATION, "BrokerRegistration", (0, 4), 0, listeners=_CONTROLLER),
    _served(ApiKey.BROKER_HEARTBEAT, "BrokerHeartbeat", (0, 2), 0, listeners=_CONTROLLER),
    _served(ApiKey.UNREGISTER_BROKER, "UnregisterBroker", (0, 0), 0, listeners=_BOTH),
    _served(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", (0, 0), 0),
    _served(ApiKey.LIST_TRANSACTIONS, "ListTransactions", (0, 2), 0),
    # From version 1 on clients make the ids of members, and subscribe by regular expressions.
    _served(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", (0, 1), 0, request_models=(0,), response_models=(0,)
    ),
    _served(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", (0, 1), 0),
    _served(ApiKey.ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", (0, 0), 0, listeners=_CONTROLLER),
    _served(ApiKey.CONTROLLER_REGISTRATION, "ControllerRegistration", (0, 0), 0, listeners=_CONTROLLER),
    _served(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "AssignReplicasToDirs", (0, 0), 0, listeners=_CONTROLLER),
    # Version 0 was ListClientMetricsResources, and lists client metrics only (KIP-1142).
    _served(ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", (0, 1), 0),
    _served(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", (0, 0), 0),
    _served(ApiKey.ADD_RAFT_VOTER, "AddRaftVoter", (0, 1), 0, listeners=_BOTH),
    _served(ApiKey.REMOVE_RAFT_VOTER, "RemoveRaftVoter", (0, 0), 0, listeners=_BOTH),
    _served(ApiKey.UPDATE_RAFT_VOTER, "UpdateRaftVoter", (0, 0), 0, listeners=_CONTROLLER),
    _served(ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", (1, 1), 0, feature=SHARE_VERSION),
    _served(ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", (1, 1), 0, feature=SHARE_VERSION),
    # From version 2 on records may be renewed, and acquired one by one (KIP-1206, KIP-1222).
    _served(ApiKey.SHARE_FETCH, "ShareFetch", (1, 2), 0, feature=SHARE_VERSION),
    _served(ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", (1, 2), 0, feature=SHARE_VERSION),
    _served(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "InitializeShareGroupState", (0, 0), 0, feature=SHARE_VERSION),
    _served(ApiKey.READ_SHARE_GROUP_STATE, "ReadShareGroupState", (0, 0), 0, feature=SHARE_VERSION),
    # From version 1 on writes and summaries say how many records behind the start are done with.
    _served(ApiKey.WRITE_SHARE_GROUP_STATE, "WriteShareGroupState", (0, 1), 0, feature=SHARE_VERSION),
    _served(ApiKey.DELETE_SHARE_GROUP_STATE, "DeleteShareGroupState", (0, 0), 0, feature=SHARE_VERSION),
    _served(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "ReadShareGroupStateSummary", (0, 1), 0, feature=SHARE_VERSION),
    # From version 1 on it tells lags.
    _served(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "DescribeShareGroupOffsets", (0, 1), 0, feature=SHARE_VERSION),
    _served(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "AlterShareGroupOffsets", (0, 0), 0, feature=SHARE_VERSION),
    _served(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "DeleteShareGroupOffsets", (0, 0), 0, feature=SHARE_VERSION),
)

SERVED: Final[Mapping[int, ServedApi]] = MappingProxyType({int(api.key): api for api in _APIS})
"""The served APIs by key, ascending."""

SERVED_ON: Final[Mapping[ListenerKind, Mapping[int, ServedApi]]] = MappingProxyType(
    {
        kind: MappingProxyType({key: api for key, api in SERVED.items() if kind in api.listeners})
        for kind in ListenerKind
    }
)
"""The APIs that each kind of listener serves, by key, ascending."""


def api_version_row(api: ServedApi) -> ApiVersion:
    """Return an API's row of ApiVersions: its key, and the versions that are advertised to clients."""
    return ApiVersion(api_key=i16(api.key), min_version=i16(api.advertised_min), max_version=i16(api.max_version))


def api_version_rows(kind: ListenerKind, levels: Mapping[str, int]) -> tuple[ApiVersion, ...]:
    """The rows of all APIs that a kind of listener serves in a cluster with these levels of features, by ascending key."""
    return _rows_at(kind, frozenset(levels.items()))


@lru_cache(maxsize=16)
def _rows_at(kind: ListenerKind, levels: frozenset[tuple[str, int]]) -> tuple[ApiVersion, ...]:
    """Make the rows. The result is kept: each new connection asks for them, and levels seldom change."""
    return tuple(api_version_row(api) for api in SERVED_ON[kind].values() if api.is_offered(dict(levels)))
