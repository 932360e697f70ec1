"""Same request, same answer: what a cluster says to tools, brokers and controllers, as real Kafka does (``ESP_TEST_AGAINST=kafka``)."""

import datetime as dt
import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.alter_partition.v3 import request as alter_partition
from kio.schema.api_versions.v3 import request as api_versions_v3
from kio.schema.api_versions.v4 import request as api_versions_v4
from kio.schema.broker_heartbeat.v1 import request as broker_heartbeat
from kio.schema.broker_registration.v4 import request as broker_registration
from kio.schema.create_topics.v7 import request as create_topics
from kio.schema.describe_cluster.v2 import request as describe_cluster
from kio.schema.describe_quorum.v0 import request as describe_quorum_v0
from kio.schema.describe_quorum.v1 import request as describe_quorum_v1
from kio.schema.describe_quorum.v2 import request as describe_quorum_v2
from kio.schema.elect_leaders.v2 import request as elect_leaders
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import request as metadata
from kio.schema.unregister_broker.v0 import request as unregister_broker

from esp.records.builder import NewRecord, build_batch
from esp.testing.cluster import Cluster
from esp.testing.kafka_tools import KafkaTools
from tests.integration.cluster.observer import Observer
from tests.integration.cluster.quorum import METADATA_TOPIC, active_controller
from tests.integration.conftest import eventually
from tests.integration.messages import produce
from tests.integration.wire import Wire

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

RECORD = build_batch([NewRecord(b"value")], timestamp_ms=1)
OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
FEATURES = {"metadata.version": (7, 30), "kraft.version": (0, 1), "eligible.leader.replicas.version": (0, 1)} | {
    f"{name}.version": (0, 2) for name in ("transaction", "group", "share", "streams")
}


class Asker:
    """Asks a cluster at its brokers, and at its controllers."""

    def __init__(self, cluster: Cluster, tools: KafkaTools) -> None:
        self.cluster = cluster
        self.observer = Observer(cluster)
        self._tools = tools
        self.active = active_controller(cluster)
        self.inactive = next(number for number in cluster.nodes if number != self.active)

    def broker(self, request: Any, number: int | None = None) -> Any:
        with Wire(self.cluster.nodes[number or self.active], timeout_s=20) as wire:
            return wire.call(request)

    def controller(self, request: Any, number: int | None = None) -> Any:
        number = number or self.active
        port = int(self.cluster.controller_address(number).rpartition(":")[2])
        with Wire(self.cluster.nodes[number], timeout_s=20, port=port) as wire:
            return wire.call(request)

    def tool(self, *command: str, at_controllers: bool = False) -> str:
        """What a tool of Kafka prints, on both streams; the first words of ``command`` are its name and its subcommand, if it has any."""
        where = ("--bootstrap-server", self.cluster.bootstrap)
        if at_controllers:
            where = ("--bootstrap-controller", ",".join(map(self.cluster.controller_address, self.cluster.nodes)))
        subcommands = 2 if command[0] == "cluster" else 1
        done = self._tools.run(*command[:subcommands], *where, *command[subcommands:])
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def asker(cluster: Cluster, kafka_tools: KafkaTools) -> Asker:
    made = Asker(cluster, kafka_tools)
    made.observer.create("plain", 1, 3)
    for least in (1, 2, 3):
        made.observer.create(f"least-{least}", 1, 3, min_insync_replicas=least)
    return made


def elect(kind: int, *partitions: tuple[str, tuple[int, ...]]) -> Any:
    return elect_leaders.ElectLeadersRequest(
        election_type=kind,
        topic_partitions=tuple(
            elect_leaders.TopicPartitions(topic=name, partitions=numbers) for name, numbers in partitions
        )
        or None,
        timeout=dt.timedelta(seconds=10),
    )


@pytest.mark.parametrize(
    ("request_", "codes"),
    [
        (elect(0, ("plain", (0,))), [("plain", 0, ErrorCode.election_not_needed)]),
        (elect(1, ("plain", (0,))), [("plain", 0, ErrorCode.election_not_needed)]),
        (
            elect(0, ("none", (0,)), ("plain", (7,))),
            [("none", 0, ErrorCode.unknown_topic_or_partition), ("plain", 7, ErrorCode.unknown_topic_or_partition)],
        ),
        (elect(5, ("plain", (0,))), [("plain", 0, ErrorCode.invalid_request)]),
        (elect(0), []),
    ],
)
def test_elections(asker: Asker, request_: Any, codes: list[tuple[str, int, ErrorCode]]) -> None:
    answer = asker.broker(request_)
    assert [
        (topic.topic, partition.partition_id, partition.error_code)
        for topic in answer.replica_election_results
        for partition in topic.partition_result
    ] == codes


def test_the_tool_for_elections_says_what_was_done(asker: Asker) -> None:
    preferred = ("leader-election", "--election-type", "preferred")
    one = (*preferred, "--topic", "plain", "--partition", "0")
    assert "Valid replica already elected for partitions plain-0" in asker.tool(*one)
    assert asker.tool(*preferred, "--all-topic-partitions").strip() == "", "nothing needed an election"
    assert "UnknownTopicOrPartitionException: No such topic as none" in asker.tool(
        *preferred, "--topic", "none", "--partition", "0"
    )


@pytest.mark.parametrize("module", [describe_quorum_v0, describe_quorum_v1, describe_quorum_v2])
@pytest.mark.parametrize(
    ("topic", "number", "code"),
    [
        (METADATA_TOPIC, 0, ErrorCode.none),
        (METADATA_TOPIC, 1, ErrorCode.unknown_topic_or_partition),
        ("plain", 0, ErrorCode.unknown_topic_or_partition),
    ],
)
def test_the_quorum_is_described(asker: Asker, module: Any, topic: str, number: int, code: ErrorCode) -> None:
    asked = module.TopicData(topic_name=topic, partitions=(module.PartitionData(partition_index=number),))
    request = module.DescribeQuorumRequest(topics=(asked,))
    [answered] = asker.broker(request).topics
    [partition] = answered.partitions
    assert (answered.topic_name, partition.partition_index, partition.error_code) == (topic, number, code)
    if code is ErrorCode.none:
        assert partition.leader_id == asker.active
        assert {voter.replica_id for voter in partition.current_voters} == {1, 2, 3}
        assert all(voter.log_end_offset > 0 for voter in partition.current_voters)
        [refused] = asker.controller(request, asker.inactive).topics
        assert refused.partitions[0].error_code is ErrorCode.not_leader_or_follower


@pytest.mark.parametrize(("kind", "at_broker", "at_controller"), [(1, 0, 114), (2, 114, 0), (3, 115, 115)])
def test_the_cluster_is_described_at_either_kind_of_listener(
    asker: Asker, kind: int, at_broker: int, at_controller: int
) -> None:
    request = describe_cluster.DescribeClusterRequest(
        endpoint_type=kind, include_cluster_authorized_operations=False, include_fenced_brokers=True
    )
    for answer, code in ((asker.broker(request), at_broker), (asker.controller(request), at_controller)):
        assert answer.error_code.value == code
        if code == 0:
            assert (answer.endpoint_type, answer.cluster_id) == (kind, asker.cluster.cluster_id)
            assert [(node.broker_id, node.is_fenced) for node in answer.brokers] == [(1, False), (2, False), (3, False)]


def test_tools_may_ask_controllers(asker: Asker) -> None:
    assert f"Cluster ID: {asker.cluster.cluster_id}" in asker.tool("cluster", "cluster-id", at_controllers=True)
    listed = asker.tool("cluster", "list-endpoints", at_controllers=True)
    assert re.findall(r"^(\d) .* controller", listed, re.MULTILINE) == ["1", "2", "3"]
    status = asker.tool("metadata-quorum", "describe", "--status", at_controllers=True)
    assert re.search(rf"^LeaderId:\s+{asker.active}$", status, re.MULTILINE)


@pytest.mark.parametrize("ask", [Asker.broker, Asker.controller])
def test_the_features_of_the_cluster_are_told(asker: Asker, ask: Callable[[Asker, Any], Any]) -> None:
    older, newer = (
        ask(asker, module.ApiVersionsRequest(client_software_name="wire", client_software_version="1"))
        for module in (api_versions_v3, api_versions_v4)
    )
    for answer in (older, newer):
        finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        assert finalized["kraft.version"] == 1
        assert finalized["metadata.version"] == 30
        assert finalized["transaction.version"] == 2
    assert {feature.name for feature in older.supported_features} == {"metadata.version"}, "none with level 0"
    supported = {feature.name: (feature.min_version, feature.max_version) for feature in newer.supported_features}
    assert supported["kraft.version"] == (0, 1)


def new_topic(
    name: str, partitions: int = -1, replicas: int = -1, *assignments: tuple[int, tuple[int, ...]], **configs: str
) -> Any:
    topic = create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=tuple(
            create_topics.CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
            for number, brokers in assignments
        ),
        configs=tuple(create_topics.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
    )
    return create_topics.CreateTopicsRequest(topics=(topic,), timeout=dt.timedelta(seconds=10), validate_only=True)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (new_topic("n", -1, -1, (0, (3, 1)), (1, (1, 2))), ErrorCode.none),
        (new_topic("n", -1, -1, (0, (3, 1)), (1, (1,))), ErrorCode.invalid_replica_assignment),
        (new_topic("n", -1, -1, (0, (3, 3))), ErrorCode.invalid_replica_assignment),
        (new_topic("n", -1, -1, (0, (3, 9))), ErrorCode.invalid_replica_assignment),
        (new_topic("n", -1, -1, (0, (-1,))), ErrorCode.invalid_replica_assignment),
        (new_topic("n", -1, -1, (0, ())), ErrorCode.invalid_replica_assignment),
        (new_topic("n", -1, -1, (0, (3,)), (2, (1,))), ErrorCode.invalid_replica_assignment),
        (new_topic("n", -1, -1, (0, (1,)), (0, (2,))), ErrorCode.invalid_replica_assignment),
        (new_topic("n", 2, -1, (0, (3,))), ErrorCode.invalid_request),
        (new_topic("n", -1, 2, (0, (3,))), ErrorCode.invalid_request),
        (new_topic("n", 1, 4), ErrorCode.invalid_replication_factor),
        (new_topic("n", 1, 0), ErrorCode.invalid_replication_factor),
        (new_topic("n", 0, 1), ErrorCode.invalid_partitions),
        (new_topic("plain", 1, 1), ErrorCode.topic_already_exists),
        (new_topic("a/b", 1, 1), ErrorCode.invalid_topic_exception),
    ],
)
def test_new_topics_are_taken_or_refused(asker: Asker, request_: Any, code: ErrorCode) -> None:
    [topic] = asker.broker(request_).topics
    assert topic.error_code is code, topic.error_message


def registration(asker: Asker, number: int, cluster_id: str | None = None) -> Any:
    return broker_registration.BrokerRegistrationRequest(
        broker_id=number,
        cluster_id=cluster_id or asker.cluster.cluster_id,
        incarnation_id=uuid.uuid4(),
        listeners=(broker_registration.Listener(name="PLAINTEXT", host="127.0.0.1", port=1, security_protocol=0),),
        features=tuple(
            broker_registration.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in FEATURES.items()
        ),
        rack=None,
        log_dirs=(uuid.uuid4(),),
        previous_broker_epoch=-1,
    )


def test_brokers_that_do_not_belong_are_not_registered(asker: Asker) -> None:
    stranger, twin = registration(asker, 9, OTHER_CLUSTER), registration(asker, 1)
    assert asker.controller(stranger).error_code is ErrorCode.inconsistent_cluster_id
    assert asker.controller(twin).error_code is ErrorCode.duplicate_broker_registration
    assert asker.controller(twin, asker.inactive).error_code is ErrorCode.not_controller
    unknown = unregister_broker.UnregisterBrokerRequest(broker_id=77)
    assert asker.broker(unknown).error_code is ErrorCode.broker_id_not_registered


def test_heartbeats_of_who_is_not_registered_like_this_are_refused(asker: Asker) -> None:
    for number in (1, 88):
        heartbeat = broker_heartbeat.BrokerHeartbeatRequest(
            broker_id=number, broker_epoch=0, current_metadata_offset=1, want_fence=False, want_shut_down=False
        )
        answer = asker.controller(heartbeat)
        assert (answer.error_code, answer.is_fenced) == (ErrorCode.stale_broker_epoch, True)
        assert asker.controller(heartbeat, asker.inactive).error_code is ErrorCode.not_controller


def test_in_sync_sets_are_changed_by_leaders_alone(asker: Asker, kafka_tools: KafkaTools) -> None:
    asked = metadata.MetadataRequestTopic(topic_id=None, name="plain")
    [topic] = asker.broker(
        metadata.MetadataRequest(
            topics=(asked,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
    ).topics
    leader, leader_epoch = topic.partitions[0].leader_id, topic.partitions[0].leader_epoch
    follower = next(number for number in (1, 2, 3) if number != leader)
    log = asker.cluster.nodes[asker.active].data_dir / f"{METADATA_TOPIC}-0" / f"{0:020}.log"
    records = kafka_tools.run("dump-log", "--cluster-metadata-decoder", "--files", str(log)).stdout
    registered = re.findall(r'"REGISTER_BROKER_RECORD".*?"brokerId":(\d+).*?"brokerEpoch":(\d+)', records)
    epochs = {int(number): int(epoch) for number, epoch in registered}

    def alter(sender: int, isr: tuple[int, ...], *, number: int | None = None, **changes: Any) -> Any:
        fields = {"leader_epoch": leader_epoch, "partition_epoch": 0, **changes}
        members = tuple(alter_partition.BrokerState(broker_id=member, broker_epoch=-1) for member in isr)
        partition = alter_partition.PartitionData(partition_index=0, new_isr_with_epochs=members, **fields)
        data = alter_partition.TopicData(topic_id=topic.topic_id, partitions=(partition,))
        request = alter_partition.AlterPartitionRequest(broker_id=sender, broker_epoch=epochs[sender], topics=(data,))
        answer = asker.controller(request, number)
        return answer.error_code if answer.error_code.value else answer.topics[0].partitions[0].error_code

    assert alter(follower, (1, 2)) is ErrorCode.invalid_request
    assert alter(leader, (follower,)) is ErrorCode.invalid_request, "the leader is missing"
    assert alter(leader, (leader, 9)) is ErrorCode.invalid_request
    assert alter(leader, (1, 2), leader_epoch=leader_epoch - 1) is ErrorCode.fenced_leader_epoch
    assert alter(leader, (1, 2), leader_epoch=leader_epoch + 1) is ErrorCode.not_controller
    assert alter(leader, (1, 2), partition_epoch=50) is ErrorCode.not_controller
    assert alter(leader, (1, 2), number=asker.inactive) is ErrorCode.not_controller
    epochs[leader] -= 1
    assert alter(leader, (1, 2)) is ErrorCode.stale_broker_epoch


def test_a_broker_that_is_gone_is_seen_in_the_topics_and_can_be_unregistered(asker: Asker) -> None:
    gone = next(number for number in (3, 2) if number != asker.active)
    asker.cluster.nodes[gone].stop()
    try:
        topics = {"plain", "least-1", "least-2", "least-3"}
        eventually(
            lambda: all(gone not in part.isr for name in topics for part in asker.observer.partitions(name).values()),
            30,
        )
        for option, expected in (
            ("--under-replicated-partitions", topics),
            ("--at-min-isr-partitions", {"plain", "least-2"}),
            ("--under-min-isr-partitions", {"least-3"}),
            ("--unavailable-partitions", set()),
        ):
            assert set(re.findall(r"Topic: (\S+)", asker.tool("topics", "--describe", option))) == expected, option
        leader = asker.observer.leader("least-3")
        [answered] = asker.broker(produce("least-3", RECORD), leader).responses
        assert answered.partition_responses[0].error_code is ErrorCode.not_enough_replicas
        done = asker.tool("cluster", "unregister", "--id", str(gone))
        assert f"Broker {gone} is no longer registered." in done
        again = asker.tool("cluster", "unregister", "--id", str(gone))
        assert f"Broker ID {gone} is not currently registered" in again
    finally:
        asker.cluster.nodes[gone].start()
    for name in ("plain", "least-1", "least-2", "least-3"):
        asker.observer.wait_until_whole(name)
