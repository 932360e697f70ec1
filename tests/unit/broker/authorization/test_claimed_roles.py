"""Fields of requests by which a client says that it is a broker, a controller or another producer: saying so gives it nothing.

The client may do all that clients may do, and lacks ClusterAction on the cluster.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from esp.broker.authorization.checks import CHECKS
from esp.model.errors import ErrorCode
from esp.protocol.entity_fields import entity_fields
from esp.protocol.messages import load_class
from esp.protocol.registry import SERVED, SERVED_ON, ApiKey, ListenerKind
from tests.unit.broker.authorization.test_denials import CLUSTER, CLUSTER_DENIED, GROUP, TOPIC, TOPIC_DENIED, TXN, codes
from tests.unit.broker.conversation import create_topic, list_offset, produce
from tests.unit.broker.guarded_node import (
    ROOT,
    AclOperation,
    allow,
    ask,
    client_of,
    client_of_controller,
    guarded,
    until_coordinated,
)
from tests.unit.broker.simulated_node import records

ANOTHERS = {"producer_id": 4711, "producer_epoch": 0}
"""A producer that is not the one of the transactional id."""

WRONG_PRODUCER = int(ErrorCode.invalid_producer_id_mapping)


class Claim(NamedTuple):
    key: ApiKey
    fields: frozenset[str]
    """Those that claim the role, as paths of names."""
    content: dict
    code: int
    min_version: int = 0
    max_version: int = 99

    @property
    def versions(self) -> range:
        api = SERVED[self.key]
        return range(max(api.min_version, self.min_version), min(api.max_version, self.max_version) + 1)


def fetched(**more) -> dict:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1}
    return {
        "max_bytes": 1000,
        "session_epoch": -1,
        "topics": [{"topic": "t", "topic_id": None, "partitions": [partition]}],
        **more,
    }


CLAIMS = [
    Claim(ApiKey.FETCH, frozenset({"replica_id"}), fetched(replica_id=1), TOPIC_DENIED, max_version=12),
    Claim(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        frozenset({"v3_and_below_producer_id"}),
        {
            "v3_and_below_transactional_id": "x",
            "v3_and_below_producer_id": 4711,
            "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
        },
        WRONG_PRODUCER,
        max_version=3,
    ),
    Claim(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        frozenset({"transactions.producer_id"}),
        {"transactions": [{"transactional_id": "x", **ANOTHERS, "topics": [{"name": "t", "partitions": [0]}]}]},
        CLUSTER_DENIED,
        min_version=4,
    ),
    Claim(
        ApiKey.ADD_OFFSETS_TO_TXN,
        frozenset({"producer_id"}),
        {"transactional_id": "x", "group_id": "g", **ANOTHERS},
        WRONG_PRODUCER,
    ),
    Claim(
        ApiKey.END_TXN,
        frozenset({"producer_id"}),
        {"transactional_id": "x", "committed": True, **ANOTHERS},
        WRONG_PRODUCER,
    ),
    Claim(
        ApiKey.TXN_OFFSET_COMMIT,
        frozenset({"producer_id"}),
        {
            "transactional_id": "x",
            "group_id": "g",
            "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
            **ANOTHERS,
        },
        WRONG_PRODUCER,
        min_version=5,
    ),
    Claim(
        ApiKey.WRITE_TXN_MARKERS,
        frozenset({"markers.producer_id"}),
        {"markers": [{**ANOTHERS, "transaction_result": True, "topics": [{"name": "t", "partition_indexes": [0]}]}]},
        CLUSTER_DENIED,
    ),
]
"""What brokers are asked, by fields that a client could name."""

ELSEWHERE = {
    (ApiKey.FETCH, "replica_state.replica_id"): "test_a_client_that_says_it_is_a_replica_gets_no_records",
    (ApiKey.LIST_OFFSETS, "replica_id"): "test_a_client_that_says_it_is_a_replica_is_told_what_consumers_are",
    (
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        "replica_id",
    ): "test_a_client_that_says_it_is_a_replica_is_told_what_consumers_are",
    (ApiKey.INIT_PRODUCER_ID, "producer_id"): "test_a_producer_gets_no_epoch_of_another_one",
    (ApiKey.UNREGISTER_BROKER, "broker_id"): "an administrator names it, who needs Alter",
    (ApiKey.ADD_RAFT_VOTER, "voter_id"): "an administrator names it, who needs Alter",
    (ApiKey.REMOVE_RAFT_VOTER, "voter_id"): "an administrator names it, who needs Alter",
}
"""Fields of brokers' requests that the table does not have, and why."""

ROLE = re.compile(r"(^|_)(replica|broker|candidate|leader|voter|controller|producer)_id$|^request_principal$")


def role_fields(key: ApiKey) -> set[str]:
    api = SERVED[key]
    return {
        path
        for version in range(api.min_version, api.max_version + 1)
        for path in _paths(load_class(api, api.request_model(version), "request"))
        if ROLE.search(path.rpartition(".")[2])
    }


def _paths(entity, before: str = "") -> Iterator[str]:
    for field in entity_fields(entity):
        if field.entity is None:
            yield before + field.name
        else:
            yield from _paths(field.entity, f"{before}{field.name}.")


def needs_cluster_action(key: ApiKey) -> bool:
    return CHECKS[key] == CHECKS[ApiKey.VOTE]


def test_every_field_that_claims_a_role_is_known() -> None:
    found = {(key, field) for key in map(ApiKey, SERVED) if not needs_cluster_action(key) for field in role_fields(key)}
    in_table = {(claim.key, field) for claim in CLAIMS for field in claim.fields}
    assert found == in_table | set(ELSEWHERE)


async def ordinary_client(node, root):
    """A client that may write, read and produce, and is no broker."""
    for operation, resource in (
        (AclOperation.ALL, TOPIC),
        (AclOperation.ALL, GROUP),
        (AclOperation.ALL, TXN),
        (AclOperation.DESCRIBE, CLUSTER),
    ):
        await allow(root, "User:alice", operation, *resource)
    return await client_of(node, "User:alice")


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.key.name}-{claim.min_version}")
@guarded()
async def test_a_role_is_not_had_by_saying_so(node, claim):
    root = await client_of(node, ROOT)
    await create_topic(root)
    await until_coordinated(root)
    client = await ordinary_client(node, root)
    begun = await ask(client, ApiKey.INIT_PRODUCER_ID, 5, transactional_id="x", transaction_timeout=1000)
    assert begun.error_code is ErrorCode.none
    for version in claim.versions:
        answer = await ask(client, claim.key, version, **claim.content)
        assert codes(answer) - {0} == {claim.code}, (version, answer)


@guarded()
async def test_a_client_that_says_it_is_a_replica_gets_no_records(node):
    root = await client_of(node, ROOT)
    topic_id = await create_topic(root)
    client = await ordinary_client(node, root)
    asked = fetched(replica_state={"replica_id": 1, "replica_epoch": 0})
    asked["topics"][0]["topic_id"] = topic_id
    for version in range(15, SERVED[ApiKey.FETCH].max_version + 1):
        assert codes(await ask(client, ApiKey.FETCH, version, **asked)) - {0} == {TOPIC_DENIED}


@guarded()
async def test_a_client_that_says_it_is_a_replica_is_told_what_consumers_are(node):
    """The high watermark, and not the end of the log: what is beyond may be lost yet."""
    root = await client_of(node, ROOT)
    await create_topic(root)
    await produce(root, "t", records(b"a", b"b", b"c"))
    node.log("t").high_watermark = 1
    client = await ordinary_client(node, root)
    for version in range(1, SERVED[ApiKey.LIST_OFFSETS].max_version + 1):
        for replica_id in (-2, -1, 0, 1, 99):
            assert (await list_offset(client, "t", -1, version=version, replica_id=replica_id)).offset == 1
    epochs = {"topics": [{"topic": "t", "partitions": [{"partition": 0, "leader_epoch": 0}]}]}
    consumer_s, replica_s = [
        await ask(client, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, replica_id=replica_id, **epochs) for replica_id in (-1, 1)
    ]
    assert consumer_s == replica_s
    await allow(root, "User:alice", AclOperation.CLUSTER_ACTION, *CLUSTER)
    assert (await list_offset(client, "t", -1, replica_id=1)).offset == 3


@guarded()
async def test_a_producer_gets_no_epoch_of_another_one(node):
    root = await client_of(node, ROOT)
    await until_coordinated(root)
    client = await ordinary_client(node, root)
    producer = {"transactional_id": "x", "transaction_timeout": 1000}
    begun = await ask(client, ApiKey.INIT_PRODUCER_ID, 5, **producer)
    answer = await ask(client, ApiKey.INIT_PRODUCER_ID, 5, **producer, **ANOTHERS)
    assert codes(answer) - {0}, answer
    again = await ask(client, ApiKey.INIT_PRODUCER_ID, 5, **producer, producer_id=begun.producer_id, producer_epoch=0)
    assert (again.error_code, again.producer_id) == (ErrorCode.none, begun.producer_id)


@pytest.mark.parametrize(
    "key",
    [
        key
        for key in map(ApiKey, SERVED_ON[ListenerKind.CONTROLLER])
        if needs_cluster_action(key) or key is ApiKey.FETCH
    ],
    ids=lambda key: key.name,
)
@guarded()
async def test_a_client_is_neither_broker_nor_voter_at_a_controller(node, key):
    client = await client_of_controller(node, "User:alice")
    api = SERVED[key]
    for version in range(api.min_version, api.max_version + 1):
        answer = await ask(client, key, version)
        has_code = (
            key is not ApiKey.FETCH or version >= 7
        )  # an older answer to Fetch has no code for the whole, and is empty
        assert codes(answer) == {CLUSTER_DENIED if has_code else 0}, (version, answer)
