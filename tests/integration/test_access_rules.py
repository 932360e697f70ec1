"""Rules of access, made by Kafka's own tool and felt by real clients.

All clients are User:ANONYMOUS on a listener without authentication, so resources without a rule are left open here, and rules take away.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError as AioTopicAuthorizationFailedError
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

from esp.cli.app import run_tools
from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import HOST, NodeProcess, free_port
from esp.testing.real_kafka import RealKafka
from tests.integration.java_tools import JavaTools

pytestmark = pytest.mark.kafka

SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}


@pytest.fixture(scope="module")
def node_settings() -> Mapping[str, str]:
    """An authorizer."""
    return SETTINGS


@pytest.fixture(scope="module")
def tools(kafka_tools: KafkaTools, node: NodeProcess) -> JavaTools:
    """Kafka's tools for the node."""
    return JavaTools(kafka_tools, node.bootstrap)


def test_the_tool_adds_lists_and_removes_rules(tools: JavaTools) -> None:
    where = ("--topic", "orders-", "--resource-pattern-type", "prefixed")
    added = tools(
        "acls", "--add", "--allow-principal", "User:alice", "--operation", "Read", "--operation", "Write", *where
    )
    assert "Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders-, patternType=PREFIXED)`" in added
    listed = tools("acls", "--list")
    for operation in ("READ", "WRITE"):
        assert f"(principal=User:alice, host=*, operation={operation}, permissionType=ALLOW)" in listed
    assert "orders-" in tools("acls", "--list", "--topic", "orders-7", "--resource-pattern-type", "match")
    assert "orders-" not in tools("acls", "--list", "--topic", "orders-7")
    tools("acls", "--remove", "--force", "--allow-principal", "User:alice", "--operation", "Write", *where)
    assert "operation=WRITE" not in tools("acls", "--list")
    tools("acls", "--remove", "--force", *where)
    assert "orders-" not in tools("acls", "--list")


def test_our_command_makes_and_lists_the_rules_that_kafka_s_makes(
    tools: JavaTools, node: NodeProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    def acls(*arguments: str) -> str:
        assert run_tools(("acls", "--bootstrap-server", node.bootstrap, *arguments)) == 0
        return capsys.readouterr().out

    roles = (
        ("--producer", "--topic", "both", "--transactional-id", "x"),
        ("--consumer", "--topic", "both", "--group", "g", "--resource-pattern-type", "prefixed"),
        ("--operation", "Alter", "--operation", "Delete", "--topic", "*", "--allow-host", "10.0.0.1"),
    )
    for role in roles:
        tools("acls", "--add", "--allow-principal", "User:java", *role)
        acls("--add", "--allow-principal", "User:ours", *role)
    of_java = acls("--list", "--principal", "User:java")
    of_ours = acls("--list", "--principal", "User:ours")
    assert of_ours.replace("User:ours", "User:java") == of_java
    assert of_java.count("User:java") == 10
    for role in roles:
        acls("--remove", "--force", "--allow-principal", "User:java", *role)
        tools("acls", "--remove", "--force", "--allow-principal", "User:ours", *role)
    for principal in ("User:java", "User:ours"):
        assert acls("--list", "--principal", principal) == "no rules\n"


def test_clients_say_what_they_are_denied(tools: JavaTools, node: NodeProcess) -> None:
    for name in ("open", "closed"):
        tools("topics", "--create", "--topic", name)
    tools("acls", "--add", "--deny-principal", "User:ANONYMOUS", "--operation", "All", "--topic", "closed")
    tools("acls", "--add", "--deny-principal", "User:ANONYMOUS", "--operation", "Read", "--group", "closed-group")
    producer = KafkaProducer(bootstrap_servers=node.bootstrap)
    try:
        producer.send("open", b"x").get(30)
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("closed", b"x").get(30)
    finally:
        producer.close()
    consumer = KafkaConsumer("open", bootstrap_servers=node.bootstrap, group_id="closed-group")
    try:
        with pytest.raises(GroupAuthorizationFailedError):
            consumer.poll(30_000)
    finally:
        consumer.close(autocommit=False)
    refused = tools.refused("topics", "--describe", "--topic", "closed")
    assert "closed" in refused
    assert "closed" not in tools("topics", "--list").split()
    assert "open" in tools("topics", "--list").split()
    said: list[str] = []
    confluent = ConfluentProducer({"bootstrap.servers": node.bootstrap, "message.timeout.ms": 20_000})
    confluent.produce("closed", b"x", on_delivery=lambda error, _message: said.append(str(error)))
    confluent.flush(30)
    assert "Topic authorization failed" in said[0]

    async def produce() -> None:
        aio = AIOKafkaProducer(bootstrap_servers=node.bootstrap)
        await aio.start()
        try:
            await aio.send_and_wait("open", b"x")
            await aio.send_and_wait("closed", b"x")
        finally:
            await aio.stop()

    with pytest.raises(AioTopicAuthorizationFailedError):
        asyncio.run(asyncio.wait_for(produce(), 60))


def test_the_last_rule_about_the_cluster_can_still_lock_its_maker_out(
    tools: JavaTools, node: NodeProcess, kafka_tools: KafkaTools
) -> None:
    tools("acls", "--add", "--deny-principal", "User:ANONYMOUS", "--operation", "Alter", "--cluster")
    refused = tools.refused("acls", "--add", "--allow-principal", "User:bob", "--operation", "Read", "--topic", "x")
    assert "Cluster authorization failed" in refused
    # A super user can mend it.
    node.stop()
    node.settings["super.users"] = "User:ANONYMOUS"
    node.start()
    mended = JavaTools(kafka_tools, node.bootstrap)
    mended("acls", "--remove", "--force", "--cluster")
    assert "Current ACLs" not in mended("acls", "--list", "--cluster")


def binding(
    name: str, pattern: ResourcePatternType, operation: AclOperation, permission: AclPermissionType
) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, pattern, "User:alice", "192.0.2.1", operation, permission)


def rules(node: NodeProcess) -> set[AclBinding]:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    return set(admin.describe_acls(everything).result(30))


def change(node: NodeProcess, added: AclBinding, removed: AclBinding | None) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    admin.create_acls([added])[added].result(30)
    if removed is not None:
        selected = AclBindingFilter(
            removed.restype,
            removed.name,
            removed.resource_pattern_type,
            removed.principal,
            removed.host,
            removed.operation,
            removed.permission_type,
        )
        assert admin.delete_acls([selected])[selected].result(30) == [removed]


def test_rules_stand_in_the_metadata_log_as_kafka_writes_and_reads_them(
    kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    controller = f"{HOST}:{free_port()}"
    settings = {
        **SETTINGS,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": controller,
    }
    ours = Node(data_dir, settings)
    ours.settings["listeners"] = f"PLAINTEXT://{ours.bootstrap},CONTROLLER://{controller}"
    kafka = RealKafka(data_dir, ours.settings, ours.port, tools=kafka_tools)
    first = binding("t", ResourcePatternType.LITERAL, AclOperation.READ, AclPermissionType.ALLOW)
    second = binding("orders-", ResourcePatternType.PREFIXED, AclOperation.ALL, AclPermissionType.DENY)
    third = binding("*", ResourcePatternType.LITERAL, AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    with ours:
        change(ours, first, None)
    with kafka:
        assert rules(kafka) == {first}
        change(kafka, second, None)
        change(kafka, third, first)
    with ours:
        assert rules(ours) == {second, third}
        change(ours, first, third)
    with kafka:
        assert rules(kafka) == {first, second}
