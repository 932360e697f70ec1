"""Looks at settings of topics, brokers and groups, and changes them while the cluster runs (KIP-226, KIP-339)."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Any

from esp.cli.kafka.answers import ConfigEntry, config_entry
from esp.cli.kafka.client import AdminConnection, check_code
from esp.cli.kafka.library import (
    DescribeConfigsRequest,
    IncompatibleBrokerVersion,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    ListGroupsRequest,
)
from esp.model.errors import ErrorCode


class ResourceType(IntEnum):
    """The kinds of resources that can have settings; the protocol's numbers."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class _Operation(IntEnum):
    SET = 0
    DELETE = 1


class ConfigsAdmin(AdminConnection):
    """The settings of a cluster; see :class:`~esp.cli.kafka.client.AdminConnection`."""

    def names(self, resource: ResourceType) -> list[str]:
        """Return the names of what is there and can have settings, sorted; for brokers their ids."""
        if resource is ResourceType.BROKER:
            return [str(broker) for broker in self.broker_ids()]
        if resource is ResourceType.TOPIC:
            told = self._ask(lambda client: client.describe_topics())
            return sorted(topic["name"] for topic in told if topic["error_code"] == 0)
        return sorted({*self._groups_with_members(), *self._groups_with_settings()})

    def settings(self, resource: ResourceType, names: Sequence[str]) -> dict[str, list[ConfigEntry]]:
        """Return the settings of each, sorted by name. The name ``""`` means the default of all brokers.

        Raises:
            RefusedError: one is not there.
        """
        found: dict[str, list[ConfigEntry]] = {}
        for node_id, some in _by_node(resource, names).items():
            request = DescribeConfigsRequest(
                resources=[(resource.value, name, None) for name in some],
                include_synonyms=True,
                include_documentation=False,
                min_version=1,
            )
            told = self._ask(partial(_send, request, node_id)).to_dict()
            for result in told["results"]:
                check_code(result["error_code"], result["error_message"])
                found[result["resource_name"]] = sorted(map(config_entry, result["configs"]))
        return found

    def alter(self, resource: ResourceType, name: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
        """Set some settings and bring others back to their defaults, all or none.

        Raises:
            RefusedError: the broker refused.
        """
        changes: list[tuple[str, int, str | None]] = [(key, _Operation.SET, value) for key, value in added.items()]
        changes += [(key, _Operation.DELETE, None) for key in deleted]
        request = IncrementalAlterConfigsRequest(resources=[(resource.value, name, changes)], validate_only=False)
        [node_id] = _by_node(resource, [name])
        told = self._change(partial(_send, request, node_id)).to_dict()
        for result in told["responses"]:
            check_code(result["error_code"], result["error_message"])

    def _groups_with_members(self) -> list[str]:
        def ask(client: Any) -> list[str]:
            groups: list[str] = []
            for broker in client.describe_cluster()["brokers"]:
                told = client.send(ListGroupsRequest(), broker["broker_id"]).to_dict()
                check_code(told["error_code"])
                groups += [group["group_id"] for group in told["groups"]]
            return groups

        return list(self._ask(ask))

    def _groups_with_settings(self) -> list[str]:
        def ask(client: Any) -> list[str]:
            request = ListConfigResourcesRequest(resource_types=[ResourceType.GROUP.value], min_version=1)
            try:
                told = client.send(request, None).to_dict()
            except IncompatibleBrokerVersion:  # a broker before Kafka 4.1, which cannot be asked
                return []
            if told["error_code"] == ErrorCode.unsupported_version:
                return []
            check_code(told["error_code"])
            return [each["resource_name"] for each in told["config_resources"]]

        return list(self._ask(ask))


def _send(request: Any, node_id: int | None, client: Any) -> Any:
    return client.send(request, node_id)


def _by_node(resource: ResourceType, names: Sequence[str]) -> dict[int | None, list[str]]:
    """Divide the names by the broker to ask: a broker about itself, any broker (None) about all other resources."""
    divided: dict[int | None, list[str]] = {}
    for name in names:
        divided.setdefault(int(name) if resource is ResourceType.BROKER and name else None, []).append(name)
    return divided
