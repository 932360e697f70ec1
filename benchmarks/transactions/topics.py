"""Topics with settings of their own, through the admin client of librdkafka."""

from collections.abc import Mapping
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from benchmarks.client import wait_until_served
from esp.testing.node_process import NodeProcess

TIMEOUT_S: Final = 60.0


def create_topic(node: NodeProcess, name: str, partitions: int, settings: Mapping[str, str]) -> None:
    """Create a topic with one replica, and return once all its partitions are served."""
    new = NewTopic(name, partitions, 1, config=dict(settings))
    admin = _admin(node)  # lives until the answer is there
    admin.create_topics([new], operation_timeout=TIMEOUT_S)[name].result(TIMEOUT_S)
    wait_until_served(node.port, {name: partitions})


def alter_topic(node: NodeProcess, name: str, settings: Mapping[str, str]) -> None:
    """Set settings of a topic."""
    entries = [
        ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET) for setting, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    admin = _admin(node)
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


def _admin(node: NodeProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
