"""Each API of a broker, asked by a user without rights, by one with exactly the rights that it needs, and by one that lacks one of them.

The codes are those that Kafka 4.3.1 answers.
"""

from dataclasses import fields, is_dataclass
from typing import NamedTuple
from uuid import UUID

import pytest

from esp.broker.authorization.checks import CHECKS
from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ErrorCode
from esp.protocol.registry import SERVED, SERVED_ON, ApiKey, ListenerKind
from tests.unit.broker.conversation import create_topic, produce_request
from tests.unit.broker.guarded_node import ROOT, allow, ask, client_of, guarded, until_coordinated
from tests.unit.broker.simulated_node import records

TOPIC, GROUP, CLUSTER, TXN = (
    (ResourceType.TOPIC, "t"),
    (ResourceType.GROUP, "g"),
    (ResourceType.CLUSTER, "kafka-cluster"),
    (ResourceType.TRANSACTIONAL_ID, "x"),
)
TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, TXN_DENIED = 29, 30, 31, 53
DENIALS = {TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, TXN_DENIED}

ONE_PARTITION = [{"name": "t", "partitions": [{"partition_index": 0}]}]
ALTER, DESCRIBE, READ, WRITE, DELETE = (
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DELETE,
)
ACL_FILTER = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
TXN_PRODUCER = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0}


class Case(NamedTuple):
    key: ApiKey
    content: dict
    needs: list
    """Operation, resource and the code of its absence, in the order in which they are missed."""
    min_version: int = 0
    max_version: int = 99


CASES = [
    Case(ApiKey.LIST_OFFSETS, {"topics": ONE_PARTITION}, [(DESCRIBE, TOPIC, TOPIC_DENIED)]),
    Case(ApiKey.METADATA, {"topics": [{"name": "t"}]}, [(DESCRIBE, TOPIC, TOPIC_DENIED)], 1),
    Case(
        ApiKey.OFFSET_COMMIT,
        {"group_id": "g", "topics": ONE_PARTITION},
        [(READ, GROUP, GROUP_DENIED), (READ, TOPIC, TOPIC_DENIED)],
        max_version=9,
    ),
    Case(
        ApiKey.OFFSET_FETCH,
        {
            "group_id": "g",
            "groups": [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}],
            "topics": [{"name": "t", "partition_indexes": [0]}],
        },
        [(DESCRIBE, GROUP, GROUP_DENIED), (DESCRIBE, TOPIC, TOPIC_DENIED)],
        max_version=9,
    ),
    Case(ApiKey.FIND_COORDINATOR, {"key": "g", "coordinator_keys": ["g"]}, [(DESCRIBE, GROUP, GROUP_DENIED)]),
    Case(ApiKey.JOIN_GROUP, {"group_id": "g", "session_timeout": 6000}, [(READ, GROUP, GROUP_DENIED)]),
    Case(ApiKey.HEARTBEAT, {"group_id": "g"}, [(READ, GROUP, GROUP_DENIED)]),
    Case(ApiKey.LEAVE_GROUP, {"group_id": "g", "members": [{"member_id": "m"}]}, [(READ, GROUP, GROUP_DENIED)]),
    Case(ApiKey.SYNC_GROUP, {"group_id": "g"}, [(READ, GROUP, GROUP_DENIED)]),
    Case(ApiKey.DESCRIBE_GROUPS, {"groups": ["g"]}, [(DESCRIBE, GROUP, GROUP_DENIED)]),
    Case(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        {
            "group_id": "g",
            "member_id": "m",
            "member_epoch": 0,
            "rebalance_timeout": 1000,
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
        },
        [(READ, GROUP, GROUP_DENIED), (DESCRIBE, TOPIC, TOPIC_DENIED)],
    ),
    Case(ApiKey.CONSUMER_GROUP_DESCRIBE, {"group_ids": ["g"]}, [(DESCRIBE, GROUP, GROUP_DENIED)]),
    Case(
        ApiKey.CREATE_TOPICS,
        {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}], "timeout": 1000},
        [(AclOperation.CREATE, CLUSTER, TOPIC_DENIED)],
    ),
    Case(
        ApiKey.DELETE_TOPICS,
        {"topic_names": ["t"], "topics": [{"name": "t"}], "timeout": 1000},
        [(DELETE, TOPIC, TOPIC_DENIED)],
    ),
    Case(
        ApiKey.DELETE_RECORDS,
        {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout": 1000},
        [(DELETE, TOPIC, TOPIC_DENIED)],
    ),
    Case(
        ApiKey.INIT_PRODUCER_ID,
        {"transactional_id": None, "producer_id": -1, "producer_epoch": -1},
        [(AclOperation.IDEMPOTENT_WRITE, CLUSTER, CLUSTER_DENIED)],
    ),
    Case(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        {"replica_id": -2, "topics": [{"topic": "t", "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
        [(DESCRIBE, TOPIC, TOPIC_DENIED)],
    ),
    Case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        {
            "v3_and_below_transactional_id": "x",
            "v3_and_below_producer_id": 1,
            "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
        },
        [(WRITE, TXN, TXN_DENIED), (WRITE, TOPIC, TOPIC_DENIED)],
        max_version=3,
    ),
    Case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        {"transactions": []},
        [(AclOperation.CLUSTER_ACTION, CLUSTER, CLUSTER_DENIED)],
        4,
    ),
    Case(
        ApiKey.ADD_OFFSETS_TO_TXN,
        {**TXN_PRODUCER, "group_id": "g"},
        [(WRITE, TXN, TXN_DENIED), (READ, GROUP, GROUP_DENIED)],
    ),
    Case(ApiKey.END_TXN, {**TXN_PRODUCER, "committed": True}, [(WRITE, TXN, TXN_DENIED)]),
    Case(
        ApiKey.WRITE_TXN_MARKERS,
        {"markers": [{"producer_id": 1, "topics": [{"name": "t", "partition_indexes": [0]}]}]},
        [(AclOperation.CLUSTER_ACTION, CLUSTER, CLUSTER_DENIED)],
    ),
    Case(
        ApiKey.TXN_OFFSET_COMMIT,
        {**TXN_PRODUCER, "group_id": "g", "topics": ONE_PARTITION},
        [(WRITE, TXN, TXN_DENIED), (READ, GROUP, GROUP_DENIED), (READ, TOPIC, TOPIC_DENIED)],
    ),
    Case(ApiKey.DESCRIBE_ACLS, ACL_FILTER, [(DESCRIBE, CLUSTER, CLUSTER_DENIED)]),
    Case(ApiKey.CREATE_ACLS, {"creations": [{"resource_type": 2}]}, [(ALTER, CLUSTER, CLUSTER_DENIED)]),
    Case(
        ApiKey.DELETE_ACLS,
        {"filters": [{**ACL_FILTER, "principal_filter": "User:nobody"}]},
        [(ALTER, CLUSTER, CLUSTER_DENIED)],
    ),
    Case(
        ApiKey.DESCRIBE_CONFIGS,
        {"resources": [{"resource_type": 2, "resource_name": "t"}, {"resource_type": 4, "resource_name": "1"}]},
        [
            (AclOperation.DESCRIBE_CONFIGS, TOPIC, TOPIC_DENIED),
            (AclOperation.DESCRIBE_CONFIGS, CLUSTER, CLUSTER_DENIED),
        ],
    ),
    Case(
        ApiKey.ALTER_CONFIGS,
        {"resources": [{"resource_type": 2, "resource_name": "t", "configs": []}], "validate_only": True},
        [(AclOperation.ALTER_CONFIGS, TOPIC, TOPIC_DENIED)],
    ),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        {
            "resources": [
                {"resource_type": 2, "resource_name": "t", "configs": []},
                {"resource_type": 32, "resource_name": "g", "configs": []},
            ],
            "validate_only": True,
        },
        [
            (AclOperation.ALTER_CONFIGS, TOPIC, TOPIC_DENIED),
            (AclOperation.ALTER_CONFIGS, GROUP, GROUP_DENIED),
        ],
    ),
    Case(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        {"dirs": [{"path": "/data", "topics": [{"name": "t", "partitions": [0]}]}]},
        [(ALTER, CLUSTER, CLUSTER_DENIED)],
    ),
    Case(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, [(DESCRIBE, CLUSTER, CLUSTER_DENIED)], 3),
    Case(
        ApiKey.CREATE_PARTITIONS,
        {"topics": [{"name": "t", "count": 2, "assignments": None}], "timeout": 1000, "validate_only": True},
        [(ALTER, TOPIC, TOPIC_DENIED)],
    ),
    Case(ApiKey.DELETE_GROUPS, {"groups_names": ["g"]}, [(DELETE, GROUP, GROUP_DENIED)]),
    Case(
        ApiKey.ELECT_LEADERS,
        {"topic_partitions": [{"topic": "t", "partitions": [0]}], "timeout": 1000},
        [(ALTER, CLUSTER, CLUSTER_DENIED)],
    ),
    Case(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": None}]}], "timeout": 1000},
        [(ALTER, CLUSTER, CLUSTER_DENIED)],
    ),
    Case(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        {"topics": None, "timeout": 1000},
        [(DESCRIBE, CLUSTER, CLUSTER_DENIED)],
    ),
    Case(
        ApiKey.OFFSET_DELETE,
        {"group_id": "g", "topics": ONE_PARTITION},
        [(DELETE, GROUP, GROUP_DENIED), (READ, TOPIC, TOPIC_DENIED)],
    ),
    Case(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        {"components": []},
        [(AclOperation.DESCRIBE_CONFIGS, CLUSTER, CLUSTER_DENIED)],
    ),
    Case(
        ApiKey.ALTER_CLIENT_QUOTAS,
        {"entries": [{"entity": [{"entity_type": "user", "entity_name": None}], "ops": []}]},
        [(AclOperation.ALTER_CONFIGS, CLUSTER, CLUSTER_DENIED)],
    ),
    Case(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None}, [(DESCRIBE, CLUSTER, CLUSTER_DENIED)]),
    Case(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        {"deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": []},
        [(ALTER, CLUSTER, CLUSTER_DENIED)],
    ),
    Case(
        ApiKey.DESCRIBE_QUORUM,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
        [(DESCRIBE, CLUSTER, CLUSTER_DENIED)],
    ),
    Case(
        ApiKey.UPDATE_FEATURES,
        {"feature_updates": [{"feature": "none.such", "max_version_level": 1}], "timeout": 1000},
        [(ALTER, CLUSTER, CLUSTER_DENIED)],
    ),
    Case(
        ApiKey.DESCRIBE_PRODUCERS,
        {"topics": [{"name": "t", "partition_indexes": [0]}]},
        [(READ, TOPIC, TOPIC_DENIED)],
    ),
    Case(ApiKey.UNREGISTER_BROKER, {"broker_id": 99}, [(ALTER, CLUSTER, CLUSTER_DENIED)]),
    Case(ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": ["x"]}, [(DESCRIBE, TXN, TXN_DENIED)]),
    Case(
        ApiKey.LIST_CONFIG_RESOURCES,
        {"resource_types": []},
        [(AclOperation.DESCRIBE_CONFIGS, CLUSTER, CLUSTER_DENIED)],
    ),
    Case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, {"topics": [{"name": "t"}]}, [(DESCRIBE, TOPIC, TOPIC_DENIED)]),
    Case(ApiKey.ADD_RAFT_VOTER, {"voter_id": 9, "timeout": 1000}, [(ALTER, CLUSTER, CLUSTER_DENIED)]),
    Case(ApiKey.REMOVE_RAFT_VOTER, {"voter_id": 9}, [(ALTER, CLUSTER, CLUSTER_DENIED)]),
    Case(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        {"group_id": "g", "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ["t"]},
        [(READ, GROUP, GROUP_DENIED), (DESCRIBE, TOPIC, TOPIC_DENIED)],
    ),
    Case(ApiKey.SHARE_GROUP_DESCRIBE, {"group_ids": ["g"]}, [(DESCRIBE, GROUP, GROUP_DENIED)]),
    # The handler looks at topics once it has a session: tests/unit/broker/share/test_handlers.py.
    Case(ApiKey.SHARE_FETCH, {"group_id": "g", "member_id": "m"}, [(READ, GROUP, GROUP_DENIED)]),
    Case(ApiKey.SHARE_ACKNOWLEDGE, {"group_id": "g", "member_id": "m"}, [(READ, GROUP, GROUP_DENIED)]),
    Case(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        {"groups": [{"group_id": "g", "topics": [{"topic_name": "t", "partitions": [0]}]}]},
        [(DESCRIBE, GROUP, GROUP_DENIED), (DESCRIBE, TOPIC, TOPIC_DENIED)],
    ),
    Case(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        {"group_id": "g", "topics": [{"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": 0}]}]},
        [(READ, GROUP, GROUP_DENIED), (READ, TOPIC, TOPIC_DENIED)],
    ),
    Case(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        {"group_id": "g", "topics": [{"topic_name": "t"}]},
        [(DELETE, GROUP, GROUP_DENIED), (READ, TOPIC, TOPIC_DENIED)],
    ),
    Case(
        ApiKey.FIND_COORDINATOR,
        {"key_type": 2, "coordinator_keys": ["g:6UnuUoZiS92k7yCspX7KfA:0"]},
        [(AclOperation.CLUSTER_ACTION, CLUSTER, CLUSTER_DENIED)],
        6,
    ),
    *(
        Case(
            key,
            {"group_id": "g", "topics": [{"topic_id": UUID(int=7), "partitions": [{"partition": 0}]}]},
            [(AclOperation.CLUSTER_ACTION, CLUSTER, CLUSTER_DENIED)],
        )
        for key in (
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE,
            ApiKey.WRITE_SHARE_GROUP_STATE,
            ApiKey.DELETE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        )
    ),
]

ELSEWHERE = {
    ApiKey.PRODUCE: "test_produced_batches",
    ApiKey.FETCH: "test_fetches",
    ApiKey.API_VERSIONS: "needs nothing",
    ApiKey.SASL_HANDSHAKE: "needs nothing",
    ApiKey.SASL_AUTHENTICATE: "needs nothing",
    ApiKey.CREATE_DELEGATION_TOKEN: "tests.unit.broker.apis.test_delegation_tokens",
    ApiKey.RENEW_DELEGATION_TOKEN: "needs nothing",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "needs nothing",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "tests.unit.broker.apis.test_delegation_tokens",
    ApiKey.LIST_GROUPS: "test_lists",
    ApiKey.LIST_TRANSACTIONS: "test_lists",
    ApiKey.DESCRIBE_CLUSTER: "test_lists",
}


def codes(value):
    """All error codes in an answer."""
    if isinstance(value, ErrorCode):
        return {int(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return set().union(*(codes(getattr(value, name)) for name in value._fields))
    if isinstance(value, list | tuple):
        return set().union(*map(codes, value)) if value else set()
    if is_dataclass(value):
        return set().union(*(codes(getattr(value, field.name)) for field in fields(value)))
    return set()


def test_every_api_of_a_broker_has_a_case():
    assert {case.key for case in CASES} | set(ELSEWHERE) == set(SERVED_ON[ListenerKind.BROKER])


def test_every_api_names_its_checks():
    assert set(CHECKS) == set(SERVED)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.key.name}-{case.min_version}")
@guarded()
async def test_each_permission_that_is_missing_is_missed(node, case):
    root = await client_of(node, ROOT)
    await create_topic(root)
    await until_coordinated(root)
    api = SERVED[case.key]
    versions = range(max(api.min_version, case.min_version), min(api.max_version, case.max_version) + 1)
    for number, (_, _, code) in enumerate(case.needs):
        user = f"User:{number}"
        for operation, resource, _ in case.needs[:number] + case.needs[number + 1 :]:
            await allow(root, user, operation, *resource)
        client = await client_of(node, user)
        for version in versions:
            found = codes(await ask(client, case.key, version, **case.content)) & DENIALS
            assert found == {code}, (version, found)
    for operation, resource, _ in case.needs:
        await allow(root, "User:entitled", operation, *resource)
    client = await client_of(node, "User:entitled")
    for version in versions:
        answer = await ask(client, case.key, version, **case.content)
        assert not codes(answer) & DENIALS, (version, answer)


@guarded()
async def test_produced_batches_need_the_topic_and_the_transactional_id(node):
    root = await client_of(node, ROOT)
    topic_id = await create_topic(root)
    client = await client_of(node, "User:alice")
    for version, name in ((12, "t"), (13, topic_id), (12, "missing")):
        answer = await client.call(
            ApiKey.PRODUCE, version, produce_request([(name, 0, records(b"a"))], version=version)
        )
        assert codes(answer) == {TOPIC_DENIED}
    await until_coordinated(root)  # before that the code is the same for everyone
    request = produce_request([("t", 0, records(b"a"))], transactional_id="x")
    await allow(root, "User:alice", WRITE)
    assert codes(await client.call(ApiKey.PRODUCE, 12, request)) == {TXN_DENIED}
    entitled = await client_of(node, "User:entitled")
    for resource in (TOPIC, TXN):
        await allow(root, "User:entitled", WRITE, *resource)
    assert not codes(await entitled.call(ApiKey.PRODUCE, 12, request)) & DENIALS
    answer = await client.call(ApiKey.PRODUCE, 13, produce_request([(topic_id, 0, records(b"a"))], version=13))
    assert codes(answer) == {0}


@guarded()
async def test_fetches_need_to_read_the_topic(node):
    root = await client_of(node, ROOT)
    topic_id = await create_topic(root)
    client = await client_of(node, "User:alice")

    async def fetch(version, name, **more):
        where = {"topic": name} if version < 13 else {"topic_id": name}
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1}
        content = {"max_bytes": 1000, "session_id": 0, "session_epoch": -1, **more}
        return codes(await ask(client, ApiKey.FETCH, version, topics=[{**where, "partitions": [partition]}], **content))

    for version, name in ((12, "t"), (18, topic_id), (12, "missing")):
        assert TOPIC_DENIED in await fetch(version, name, replica_id=-1)
    await allow(root, "User:alice", READ)
    assert await fetch(12, "t", replica_id=-1) == {0}
    # A consumer does not become a follower by saying so.
    assert TOPIC_DENIED in await fetch(12, "t", replica_id=1)


@guarded()
async def test_lists_show_what_may_be_described(node):
    root = await client_of(node, ROOT)
    await create_topic(root, "t")
    await create_topic(root, "secret")
    await allow(root, "User:alice", DESCRIBE)
    client = await client_of(node, "User:alice")
    metadata = await ask(client, ApiKey.METADATA, 12, topics=None)
    assert [topic.name for topic in metadata.topics] == ["t"]
    described = await ask(client, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=100)
    assert [topic.name for topic in described.topics] == ["t"]
    assert described.topics[0].topic_authorized_operations == 1 << DESCRIBE
    cluster = await ask(client, ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True, endpoint_type=1)
    assert (codes(cluster), len(cluster.brokers), cluster.cluster_authorized_operations) == ({0}, 1, 0)
    assert not codes(await ask(client, ApiKey.LIST_GROUPS, 5)) - {0}
    assert not codes(await ask(client, ApiKey.LIST_TRANSACTIONS, 1)) - {0}


@guarded()
async def test_a_topic_of_a_known_id_is_not_named_to_those_who_may_not_know(node):
    root = await client_of(node, ROOT)
    topic_id = await create_topic(root)
    client = await client_of(node, "User:alice")
    (topic,) = (await ask(client, ApiKey.METADATA, 12, topics=[{"topic_id": topic_id, "name": None}])).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (TOPIC_DENIED, None, topic_id)


@guarded()
async def test_an_unknown_topic_is_not_created_for_those_who_may_not(node):
    root = await client_of(node, ROOT)
    await allow(root, "User:alice", DESCRIBE, ResourceType.TOPIC, "*")
    client = await client_of(node, "User:alice")
    asked = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}
    assert codes(await ask(client, ApiKey.METADATA, 12, **asked)) == {TOPIC_DENIED, 0}
    assert "new" not in node.metadata.image.topics_by_name
    await allow(root, "User:alice", AclOperation.CREATE, ResourceType.TOPIC, "new")
    assert codes(await ask(client, ApiKey.METADATA, 12, **asked)) == {0}
