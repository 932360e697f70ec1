"""Quotas of clients, looked up and changed (KIP-546), on a connection of its own: numbers and entities come as the node has them."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Final, NamedTuple

from kio.schema.alter_client_quotas.v1 import request as alter
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.static.primitive import f64

from esp.cli.kafka.brokers import broker_address, call
from esp.cli.kafka.client import LOOK_TIMEOUT_S, check_code
from esp.model.client_quotas import QuotaEntity, quota_entity
from esp.model.errors import OperatorError
from esp.protocol.own_fields import DescribeClientQuotasRequest, HeldData

_THREADS: Final = 16


class HeldThere(NamedTuple):
    """Connections of one client from one address that one broker holds because of one quota, or an address that it lets open none."""

    key: str
    entity: QuotaEntity
    """The one whose quota it is."""
    user: str | None
    client_id: str | None
    address: str
    connections: int
    left_ms: int
    """The longest time for which one of them waits still."""


def describe_quotas(servers: str) -> dict[QuotaEntity, dict[str, float]]:
    """Return the quotas of all entities.

    Raises:
        RefusedError: the broker refused.
        OperatorError: no broker answers.
    """
    answer = call(servers, DescribeClientQuotasRequest(components=(), strict=False))
    check_code(answer.error_code.value, answer.error_message)
    return {_entity(entry.entity): {value.key: value.value for value in entry.values} for entry in answer.entries or ()}


def alter_quotas(
    servers: str, entity: QuotaEntity, changes: Mapping[str, float | None], *, validate_only: bool = False
) -> None:
    """Change an entity's quotas; None takes one away. Returns when the broker that answers has applied the change.

    Raises:
        RefusedError: the controller refused.
        OperatorError: no broker answers.
    """
    entry = alter.EntryData(
        entity=tuple(alter.EntityData(entity_type=part.type, entity_name=part.name) for part in entity),
        ops=tuple(
            alter.OpData(key=key, value=f64(0.0 if value is None else value), remove=value is None)
            for key, value in changes.items()
        ),
    )
    answer = call(servers, alter.AlterClientQuotasRequest(entries=(entry,), validate_only=validate_only))
    for result in answer.entries:
        check_code(result.error_code.value, result.error_message)


def find_held(servers: str) -> dict[int, list[HeldThere] | OperatorError]:
    """Return the clients that each broker holds at the moment, fenced ones too, or the reason why the broker does not tell.

    Raises:
        RefusedError: a broker refused.
        OperatorError: no broker of ``servers`` answers.
    """
    cluster = call(
        servers,
        DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True),
        LOOK_TIMEOUT_S,
    )
    check_code(cluster.error_code.value, cluster.error_message)
    addresses = {each.broker_id: broker_address(each.host, each.port) for each in cluster.brokers}
    with ThreadPoolExecutor(_THREADS) as threads:  # the settings of the command are those of its context
        asked = {
            broker: threads.submit(copy_context().run, _find_held_at, address) for broker, address in addresses.items()
        }
        return {broker: found.result() for broker, found in sorted(asked.items())}


def is_of_esp(servers: str) -> bool:
    """True if a broker tells the clients that it holds, which Kafka's do not; false if it does not say."""
    try:
        answer = call(servers, DescribeClientQuotasRequest(components=(), strict=True, with_held=True), LOOK_TIMEOUT_S)
    except OperatorError:
        return False
    return answer.held is not None


def _find_held_at(address: str) -> list[HeldThere] | OperatorError:
    request = DescribeClientQuotasRequest(components=(), strict=True, with_held=True)
    try:
        answer = call(address, request, LOOK_TIMEOUT_S)
    except OperatorError as error:
        return error
    check_code(answer.error_code.value, answer.error_message)
    if answer.held is None:
        return OperatorError(
            f"the broker at {address} does not tell",
            "Kafka's brokers and older releases do not; they have metrics of throttle times.",
        )
    return [_held(each) for each in answer.held]


def _held(told: HeldData) -> HeldThere:
    return HeldThere(
        key=told.key,
        entity=_entity(told.entity),
        user=told.user,
        client_id=told.client_id,
        address=told.address,
        connections=told.connections,
        left_ms=round(told.left.total_seconds() * 1000),
    )


def _entity(parts: Any) -> QuotaEntity:
    return quota_entity((part.entity_type, part.entity_name) for part in parts)
