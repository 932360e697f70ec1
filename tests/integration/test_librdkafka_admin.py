"""confluent-kafka's admin client against a running node, beside the tests of topics in ``test_librdkafka``."""

from collections.abc import Callable, Iterator, Mapping

import pytest
from confluent_kafka import (
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)

from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.group_members import QUICK_GROUPS

WITHIN_S = 60

RunGroup = Callable[..., Consumer]
"""``run_group(group, topic)``: a group with one member, which has all of the topic and committed the offset 4 of partition 0."""


@pytest.fixture(scope="module")
def node_settings() -> Mapping[str, str]:
    """Groups begin without delay."""
    return QUICK_GROUPS


@pytest.fixture(scope="module")
def rd_admin(node: NodeProcess) -> AdminClient:
    """librdkafka's admin client of the shared node."""
    return AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})


@pytest.fixture
def run_group(node: NodeProcess) -> Iterator[RunGroup]:
    """Make groups of one member."""
    made: list[Consumer] = []

    def run(group: str, topic: str, **settings: object) -> Consumer:
        config = {"bootstrap.servers": node.bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0}
        consumer = Consumer({**config, **{name.replace("_", "."): value for name, value in settings.items()}})
        made.append(consumer)
        consumer.subscribe([topic])

        def has_joined() -> bool:
            consumer.poll(0.05)
            return bool(consumer.assignment())

        eventually(has_joined, WITHIN_S)
        consumer.commit(offsets=[TopicPartition(topic, 0, 4, "four")], asynchronous=False)
        return consumer

    yield run
    for consumer in made:
        consumer.close()


def fill(node: NodeProcess, topic: str, count: int = 10) -> None:
    """Write ``count`` records to partition 0."""
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(30) == 0


def result_of(futures: Mapping) -> object:
    """The result of the only one of the futures."""
    (future,) = futures.values()
    return future.result(30)


def code_of(futures: Mapping) -> int:
    """The error with which the only one of the futures ends."""
    with pytest.raises(KafkaException) as raised:
        result_of(futures)
    return raised.value.args[0].code()


def settings_of(rd_admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    """All settings of a resource."""
    return result_of(rd_admin.describe_configs([ConfigResource(kind, name)]))


def test_partitions_are_added(rd_admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()

    def count() -> int:
        return len(rd_admin.list_topics(topic, 10).topics[topic].partitions)

    result_of(rd_admin.create_partitions([NewPartitions(topic, 3)], validate_only=True))
    assert count() == 1
    result_of(rd_admin.create_partitions([NewPartitions(topic, 2, [[1]])]))
    eventually(lambda: count() == 2)
    assert code_of(rd_admin.create_partitions([NewPartitions(topic, 2)])) == KafkaError.INVALID_PARTITIONS
    wrong = [NewPartitions(topic, 3, [[9]])]
    assert code_of(rd_admin.create_partitions(wrong)) == KafkaError.INVALID_REPLICA_ASSIGNMENT


def test_topics_are_described(rd_admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    wanted = TopicCollection([topic])
    described = rd_admin.describe_topics(wanted, include_authorized_operations=True)[topic].result(30)
    assert (described.name, described.is_internal) == (topic, False)
    assert str(described.topic_id) not in ("", "AAAAAAAAAAAAAAAAAAAAAA")
    told = [(p.id, p.leader.id, [n.id for n in p.replicas], [n.id for n in p.isr]) for p in described.partitions]
    assert told == [(0, 1, [1], [1]), (1, 1, [1], [1])]
    assert len(described.authorized_operations) >= 8
    unknown = rd_admin.describe_topics(TopicCollection([f"{topic}-unknown"]))
    assert code_of(unknown) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_records_are_deleted(node: NodeProcess, rd_admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    fill(node, topic)
    for before, low_watermark in ((3, 3), (2, 3), (OFFSET_END, 10)):
        deleted = result_of(rd_admin.delete_records([TopicPartition(topic, 0, before)]))
        assert deleted.low_watermark == low_watermark
    assert code_of(rd_admin.delete_records([TopicPartition(topic, 0, 11)])) == KafkaError.OFFSET_OUT_OF_RANGE


def test_settings_of_a_topic_are_set_appended_subtracted_and_deleted(
    rd_admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(retention_ms=1_000)

    def alter(name: str, operation: AlterConfigOpType, value: str | None = None, **options: object) -> Mapping:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        return rd_admin.incremental_alter_configs([resource], **options)

    def told(name: str) -> tuple[str | None, ConfigSource]:
        entry = settings_of(rd_admin, ResourceType.TOPIC, topic)[name]
        return entry.value, ConfigSource(entry.source)

    throttled = "leader.replication.throttled.replicas"
    result_of(alter("retention.ms", AlterConfigOpType.SET, "2000", validate_only=True))
    assert told("retention.ms") == ("1000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    result_of(alter("retention.ms", AlterConfigOpType.SET, "2000"))
    assert told("retention.ms") == ("2000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    result_of(alter(throttled, AlterConfigOpType.APPEND, "0:1,1:1"))
    result_of(alter(throttled, AlterConfigOpType.SUBTRACT, "0:1"))
    assert told(throttled) == ("1:1", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    result_of(alter("retention.ms", AlterConfigOpType.DELETE))
    assert told("retention.ms") == ("604800000", ConfigSource.DEFAULT_CONFIG)
    for name in ("retention.ms", "no.such"):
        assert code_of(alter(name, AlterConfigOpType.SET, "soon")) == KafkaError.INVALID_CONFIG
    # the old API: what is not named is reset
    old = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.ms": "5000"})
    with pytest.warns(DeprecationWarning, match="alter_configs"):
        result_of(rd_admin.alter_configs([old]))
    assert told("segment.ms") == ("5000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert told(throttled)[1] is ConfigSource.DEFAULT_CONFIG


def test_settings_of_a_broker_are_set_and_deleted(rd_admin: AdminClient) -> None:
    def alter(operation: AlterConfigOpType, value: str | None = None) -> None:
        entry = ConfigEntry("log.cleaner.threads", value, incremental_operation=operation)
        result_of(
            rd_admin.incremental_alter_configs([ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])])
        )

    def told() -> tuple[str | None, ConfigSource]:
        entry = settings_of(rd_admin, ResourceType.BROKER, "1")["log.cleaner.threads"]
        return entry.value, ConfigSource(entry.source)

    alter(AlterConfigOpType.SET, "2")
    eventually(lambda: told() == ("2", ConfigSource.DYNAMIC_BROKER_CONFIG))
    alter(AlterConfigOpType.DELETE)
    eventually(lambda: told() == ("1", ConfigSource.DEFAULT_CONFIG))


def test_groups_are_listed_and_described(rd_admin: AdminClient, make_topic: MakeTopic, run_group: RunGroup) -> None:
    topic = make_topic(partitions=2)
    consumer = run_group(topic, topic, client_id="teller", group_instance_id="i")

    def listed(**filters: object) -> set[str]:
        found = rd_admin.list_consumer_groups(**filters).result(30)
        assert found.errors == []
        return {group.group_id for group in found.valid}

    assert topic in listed()
    assert topic in listed(states={ConsumerGroupState.STABLE}, types={ConsumerGroupType.CLASSIC})
    assert topic not in listed(states={ConsumerGroupState.EMPTY})
    assert topic not in listed(types={ConsumerGroupType.CONSUMER})
    described = result_of(rd_admin.describe_consumer_groups([topic], include_authorized_operations=True))
    assert (described.state, described.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CLASSIC)
    assert (described.partition_assignor, described.is_simple_consumer_group) == ("range", False)
    assert described.coordinator.id == 1
    (member,) = described.members
    assert (member.member_id, member.client_id) == (consumer.memberid(), "teller")
    assert (member.group_instance_id, member.host) == ("i", "/127.0.0.1")
    assert sorted(each.partition for each in member.assignment.topic_partitions) == [0, 1]
    assert result_of(rd_admin.describe_consumer_groups([f"{topic}-none"])).state is ConsumerGroupState.DEAD


def test_offsets_of_a_group_are_listed_altered_and_the_group_deleted(
    rd_admin: AdminClient, make_topic: MakeTopic, run_group: RunGroup
) -> None:
    topic = make_topic(partitions=2)
    consumer = run_group(topic, topic)

    def listed(partitions: list[TopicPartition] | None = None) -> dict[int, int]:
        asked = ConsumerGroupTopicPartitions(topic, partitions)
        answer = result_of(rd_admin.list_consumer_group_offsets([asked], require_stable=True))
        return {each.partition: each.offset for each in answer.topic_partitions}

    def alter(offset: int) -> list[TopicPartition]:
        wanted = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, offset)])
        return result_of(rd_admin.alter_consumer_group_offsets([wanted])).topic_partitions

    assert listed() == {0: 4}
    assert listed([TopicPartition(topic, 0), TopicPartition(topic, 1)]) == {0: 4, 1: OFFSET_INVALID}
    (altered,) = alter(1)
    assert altered.error.code() == KafkaError.UNKNOWN_MEMBER_ID
    assert code_of(rd_admin.delete_consumer_groups([topic])) == KafkaError.NON_EMPTY_GROUP
    consumer.close()
    (altered,) = alter(6)
    assert altered.error is None
    assert listed() == {0: 6}
    result_of(rd_admin.delete_consumer_groups([topic]))
    assert code_of(rd_admin.delete_consumer_groups([topic])) == KafkaError.GROUP_ID_NOT_FOUND


def test_election_that_is_not_needed_is_told(rd_admin: AdminClient, make_topic: MakeTopic) -> None:
    place = TopicPartition(make_topic(), 0)
    for kind in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        elected = rd_admin.elect_leaders(kind, [place]).result(30)
        assert elected[place].code() == KafkaError.ELECTION_NOT_NEEDED


def test_there_are_no_credentials(rd_admin: AdminClient) -> None:
    assert rd_admin.describe_user_scram_credentials().result(30) == {}


def test_rights_are_refused_because_nothing_enforces_them(rd_admin: AdminClient) -> None:
    rule = (
        ResourceType.TOPIC,
        "t",
        ResourcePatternType.LITERAL,
        "User:u",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    assert rd_admin.describe_acls(AclBindingFilter(*rule)).result(30) == []
    assert code_of(rd_admin.create_acls([AclBinding(*rule)])) == KafkaError.SECURITY_DISABLED
    assert code_of(rd_admin.delete_acls([AclBindingFilter(*rule)])) == KafkaError.SECURITY_DISABLED
