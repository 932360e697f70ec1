"""kafka-python's admin client against a running node, beside the tests of topics in ``test_kafka_python``."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, KafkaAdminClient, MemberToRemove, OffsetSpec, OffsetTimestamp
from kafka.errors import (
    ElectionNotNeededError,
    GroupSubscribedToTopicError,
    InvalidPartitionsError,
    NoError,
    OffsetOutOfRangeError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.admin.topics import ElectionType

from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.group_members import QUICK_GROUPS
from tests.integration.kafka_python import subscribe

WITHIN_S = 60

RunGroup = Callable[..., KafkaConsumer]
"""``run_group(group, topic, **settings)``: a group with one member, which has all of the topic and committed offset 4 of partition 0."""


@pytest.fixture(scope="module")
def node_settings() -> Mapping[str, str]:
    """Groups begin without delay."""
    return QUICK_GROUPS


@pytest.fixture
def run_group(node: NodeProcess) -> Iterator[RunGroup]:
    """Make groups of one member."""
    made: list[KafkaConsumer] = []

    def run(group: str, topic: str, **settings: object) -> KafkaConsumer:
        consumer = KafkaConsumer(bootstrap_servers=node.bootstrap, group_id=group, enable_auto_commit=False, **settings)
        made.append(consumer)
        subscribe(consumer, topic)

        def has_joined() -> bool:
            consumer.poll(timeout_ms=50)
            return bool(consumer.assignment())

        eventually(has_joined, WITHIN_S)
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(4, "four", -1)})
        return consumer

    yield run
    for consumer in made:
        consumer.close()


def fill(node: NodeProcess, topic: str, count: int = 10, partition: int = 0) -> None:
    """Write ``count`` records to a partition, one millisecond apart."""
    with closing(KafkaProducer(bootstrap_servers=node.bootstrap)) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=partition, timestamp_ms=1_000 + number)
        producer.flush(30)


def settings_of(admin: KafkaAdminClient, kind: str, name: str) -> dict[str, str]:
    """The settings of a resource that are not defaults."""
    return {
        setting: told["value"]
        for setting, told in admin.describe_configs([ConfigResource(kind, name)])[kind].get(name, {}).items()
    }


def test_partitions_are_added(admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    admin.create_partitions({topic: 3}, validate_only=True)
    assert len(admin.describe_topics([topic])[0]["partitions"]) == 1
    admin.create_partitions({topic: {"count": 2, "assignments": [[1]]}})
    eventually(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 2)
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 2})
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.create_partitions({f"{topic}-unknown": 2})
    listed = admin.describe_topic_partitions([topic], response_partition_limit=1)
    assert [each["partition_index"] for each in listed["topics"][0]["partitions"]] == [0]
    assert (listed["next_cursor"]["topic_name"], listed["next_cursor"]["partition_index"]) == (topic, 1)
    rest = admin.describe_topic_partitions([topic], cursor={"topic_name": topic, "partition_index": 1})
    assert [each["partition_index"] for each in rest["topics"][0]["partitions"]] == [1]
    assert rest["next_cursor"] is None


def test_records_are_deleted_and_offsets_listed(
    node: NodeProcess, admin: KafkaAdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    place = TopicPartition(topic, 0)
    fill(node, topic)

    def offset(spec: object) -> int:
        return admin.list_partition_offsets({place: spec})[place].offset

    assert admin.delete_records({place: 3})[place]["low_watermark"] == 3
    assert (offset(OffsetSpec.EARLIEST), offset(OffsetSpec.LATEST), offset(OffsetSpec.MAX_TIMESTAMP)) == (3, 10, 9)
    assert (offset(OffsetTimestamp(1_005)), offset(OffsetTimestamp(9_000))) == (5, -1)
    assert admin.delete_records({place: -1})[place]["low_watermark"] == 10
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({place: 11})


def test_settings_of_a_topic_are_set_appended_subtracted_and_reset(
    admin: KafkaAdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(retention_ms=1_000)

    def alter(configs: dict[str, object], **options: object) -> str:
        done = admin.alter_configs([ConfigResource("topic", topic, configs)], raise_on_unknown=False, **options)
        return done["topic"][topic]

    assert alter({"retention.bytes": "5"}, validate_only=True) == "OK"
    assert settings_of(admin, "topic", topic) == {"retention.ms": "1000"}
    assert alter({"retention.bytes": "5", "cleanup.policy": "delete"}) == "OK"
    assert settings_of(admin, "topic", topic)["retention.bytes"] == "5"
    throttled = "leader.replication.throttled.replicas"
    assert alter({throttled: ("APPEND", "0:1")}) == "OK"
    assert alter({throttled: ("APPEND", "1:1")}) == "OK"
    assert alter({throttled: ("SUBTRACT", "0:1")}) == "OK"
    assert settings_of(admin, "topic", topic)[throttled] == "1:1"
    assert "INVALID_CONFIG" in alter({"retention.ms": "soon"}) or "InvalidConfig" in alter({"retention.ms": "soon"})
    assert "no.such" in alter({"no.such": "1"})
    assert admin.reset_configs([ConfigResource("topic", topic, ["retention.bytes"])])["topic"][topic] == "OK"
    assert "retention.bytes" not in settings_of(admin, "topic", topic)
    # the old API: what is not named is reset
    assert alter({"retention.ms": "2000"}, incremental=False) == "OK"
    assert settings_of(admin, "topic", topic)["retention.ms"] == "2000"


@pytest.mark.parametrize(
    ("kind", "name", "setting", "value"),
    [("broker", "1", "log.cleaner.threads", "2"), ("group", "g", "consumer.session.timeout.ms", "50000")],
)
def test_settings_of_brokers_and_groups_are_set_and_reset(
    admin: KafkaAdminClient, kind: str, name: str, setting: str, value: str
) -> None:
    altered = ConfigResource(kind, name, {setting: value})
    assert admin.alter_configs([altered], raise_on_unknown=False)[kind][name] == "OK"
    eventually(lambda: settings_of(admin, kind, name).get(setting) == value)
    assert name in admin.list_config_resources([kind])[kind]
    reset = ConfigResource(kind, name, [setting])
    assert admin.reset_configs([reset], raise_on_unknown=False)[kind][name] == "OK"
    eventually(lambda: settings_of(admin, kind, name).get(setting) != value)


def test_config_resources_are_listed(admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    listed = admin.list_config_resources()
    assert topic in listed["topic"]
    assert listed["broker"] == ["1"]


def test_synonyms_tell_where_a_value_is_from(admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=1_000)
    resource = ConfigResource("topic", topic, ["retention.ms", "segment.bytes"])
    told = admin.describe_configs([resource], include_synonyms=True, config_filter="all")["topic"][topic]
    assert {setting: [(each["name"], each["source"]) for each in of["synonyms"]] for setting, of in told.items()} == {
        "retention.ms": [("retention.ms", "DYNAMIC_TOPIC_CONFIG")],
        "segment.bytes": [("log.segment.bytes", "DEFAULT_CONFIG")],
    }


def test_groups_are_listed_and_described(admin: KafkaAdminClient, make_topic: MakeTopic, run_group: RunGroup) -> None:
    topic = make_topic(partitions=2)
    consumer = run_group(topic, topic, client_id="teller")
    assert topic in {group["group_id"] for group in admin.list_groups()}
    assert topic in {group["group_id"] for group in admin.list_groups(states_filter=["Stable"])}
    assert topic in {group["group_id"] for group in admin.list_groups(types_filter=["classic"])}
    assert topic not in {group["group_id"] for group in admin.list_groups(states_filter=["Empty"])}
    assert topic not in {group["group_id"] for group in admin.list_groups(types_filter=["consumer"])}
    described = admin.describe_groups([topic])[topic]
    assert (described["group_state"], described["protocol_type"]) == ("Stable", "consumer")
    (member,) = described["members"]
    assert (member["client_id"], member["client_host"]) == ("teller", "/127.0.0.1")
    assert member["member_id"] == consumer.group_metadata().member_id
    (assigned,) = member["member_assignment"]["assigned_partitions"]
    assert (assigned["topic"], sorted(assigned["partitions"])) == (topic, [0, 1])
    assert "Dead" in str(admin.describe_groups([f"{topic}-none"]))


def test_offsets_of_a_group_are_listed_altered_reset_and_deleted(
    node: NodeProcess, admin: KafkaAdminClient, make_topic: MakeTopic, run_group: RunGroup
) -> None:
    topic = make_topic(partitions=2)
    first, second = (TopicPartition(topic, partition) for partition in (0, 1))
    fill(node, topic)
    consumer = run_group(topic, topic)
    assert admin.list_group_offsets(topic)[topic] == {first: OffsetAndMetadata(4, "four", -1)}
    assert admin.alter_group_offsets(topic, {first: OffsetAndMetadata(1, "", -1)}) == {first: UnknownMemberIdError}
    assert admin.delete_group_offsets(topic, [first]) == {first: GroupSubscribedToTopicError}
    assert admin.delete_groups([topic]) == {topic: "NonEmptyGroupError"}
    consumer.close()
    altered = {first: OffsetAndMetadata(6, "six", -1), second: OffsetAndMetadata(0, "", -1)}
    assert set(admin.alter_group_offsets(topic, altered).values()) == {NoError}
    assert admin.list_group_offsets({topic: [first]})[topic][first].offset == 6
    for spec, offset in ((OffsetSpec.EARLIEST, 0), (OffsetTimestamp(1_007), 7), (8, 8), (OffsetSpec.LATEST, 10)):
        assert admin.reset_group_offsets(topic, {first: spec})[first] == {"error": NoError, "offset": offset}
        assert admin.list_group_offsets(topic)[topic][first].offset == offset
    assert admin.delete_group_offsets(topic, [first]) == {first: NoError}
    assert list(admin.list_group_offsets(topic)[topic]) == [second]
    assert admin.delete_groups([topic]) == {topic: "OK"}
    assert admin.delete_groups([topic]) == {topic: "GroupIdNotFoundError"}


def test_member_is_removed(admin: KafkaAdminClient, make_topic: MakeTopic, run_group: RunGroup) -> None:
    topic = make_topic()
    consumer = run_group(topic, topic, heartbeat_interval_ms=10_000, session_timeout_ms=40_000)
    member = consumer.group_metadata().member_id
    assert list(admin.remove_group_members(topic, [MemberToRemove(member_id=member)]).values()) == [NoError]
    assert admin.describe_groups([topic])[topic]["members"] == []
    assert list(admin.remove_group_members(topic, [MemberToRemove(member_id="x")]).values()) == [UnknownMemberIdError]


def test_directories_producers_elections_and_reassignments_are_told(
    node: NodeProcess, admin: KafkaAdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    place = TopicPartition(topic, 0)
    fill(node, topic)
    ((directory,),) = (broker["log_dirs"] for broker in admin.describe_log_dirs({topic: [0]}))
    assert directory["log_dir"] == str(node.log_dirs[0])
    assert directory["total_bytes"] >= directory["usable_bytes"] > 0
    ((replica,),) = (each["partitions"] for each in directory["topics"])
    assert replica["partition_size"] > 0
    assert (replica["partition_index"], replica["offset_lag"], replica["is_future_key"]) == (0, 0, False)
    (producer,) = admin.describe_producers([place])[place].active_producers
    assert (producer.producer_epoch, producer.last_sequence, producer.current_transaction_start_offset) == (0, 9, -1)
    (elected,) = admin.elect_leaders(ElectionType.PREFERRED, {topic: [0]}).replica_election_results
    assert [each.error_code for each in elected.partition_result] == [ElectionNotNeededError.errno]
    assert admin.list_partition_reassignments() == {}
    assert admin.list_partition_reassignments([place]) == {}
    assert admin.describe_user_scram_credentials() in ([], {})
    assert admin.list_transactions() == {1: []}


def test_quorum_and_features_are_told(admin: KafkaAdminClient) -> None:
    ((quorum,),) = (topic["partitions"] for topic in admin.describe_metadata_quorum()["topics"])
    assert quorum["leader_id"] == 1
    assert [voter["replica_id"] for voter in quorum["current_voters"]] == [1]
    features = admin.describe_features()
    _, level = features["metadata.version"]["finalized"]
    assert features["metadata.version"]["supported"][1] >= level
    assert admin.update_features({"metadata.version": ("UPGRADE", level)}, validate_only=True) == {
        "metadata.version": "OK"
    }
    assert admin.get_broker_version_data(1)
    assert admin.api_versions()
