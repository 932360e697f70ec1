"""Stores of TLS that are read again because an administrator sets their location to what it is already (KIP-226).

Kafka's administrators say so that the file has another content. The answer waits until the content has been tried and is in force; nothing
comes into the metadata log, since locations are settings of the node's file. An operation that sets another location is none of these.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from esp.controller.configs import ConfigChange, ConfigOperation, Operation
from esp.model.errors import ApiError, ErrorCode, OperatorError
from esp.model.ids import NodeId
from esp.model.tls import TlsPolicy
from esp.ports.network import Network
from esp.schemas.metadata_records import BROKER_RESOURCE
from esp.settings.tls import PREFIX

_LOCATIONS: Final[Mapping[str, Callable[[TlsPolicy], str]]] = {
    "ssl.keystore.location": lambda policy: policy.key_store.location,
    "ssl.truststore.location": lambda policy: policy.trust_store.location,
}


class StoreReloads:
    """Finds, and makes, what a request asks for of the stores of this node.

    Args:
        node_id: of this node.
        policies: the terms of TLS by the name of the listener.
    """

    def __init__(self, node_id: NodeId, policies: Mapping[str, TlsPolicy]) -> None:
        self._resource_name = str(node_id)
        self._policies = {
            f"{PREFIX}{listener.lower()}.{setting}": (policy, location(policy))
            for listener, policy in policies.items()
            for setting, location in _LOCATIONS.items()
        }

    def without(self, change: ConfigChange) -> ConfigChange:
        """The rest of a change: its other operations."""
        if not self._are_in(change):
            return change
        return replace(change, operations=tuple(each for each in change.operations if not self._is_one(each)))

    async def make(self, change: ConfigChange, network: Network, *, validate_only: bool) -> None:
        """Read the stores that a change names again, each listener's once, and use them from now on unless they are only to be tried.

        Raises:
            ApiError: INVALID_REQUEST, the store of a listener cannot be used: what it held before stays in force.
        """
        if not self._are_in(change):
            return
        names = {self._policies[each.name][0]: each.name for each in change.operations if self._is_one(each)}
        for policy, name in names.items():
            try:
                await network.reload_tls(policy, validate_only=validate_only)
            except OperatorError as error:
                raise ApiError(
                    ErrorCode.invalid_request,
                    f"Invalid value for configuration {name}: {error.problem}. {error.remedy}",
                ) from error

    def _are_in(self, change: ConfigChange) -> bool:
        is_ours = change.resource == (BROKER_RESOURCE, self._resource_name) and not change.replaces_all
        return is_ours and any(map(self._is_one, change.operations))

    def _is_one(self, operation: ConfigOperation) -> bool:
        name, kind, value = operation
        _policy, location = self._policies.get(name, (None, ""))
        return kind is Operation.SET and bool(value) and value == location
