"""Quotas of clients, looked up and changed (KIP-546), on a connection of its own: numbers and entities come as the node has them."""

from collections.abc import Mapping

from kio.schema.alter_client_quotas.v1 import request as alter
from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.static.primitive import f64

from esp.cli.kafka.brokers import call
from esp.cli.kafka.client import check_code
from esp.model.client_quotas import QuotaEntity, quota_entity


def describe_quotas(servers: str) -> dict[QuotaEntity, dict[str, float]]:
    """Return the quotas of all entities.

    Raises:
        RefusedError: the broker refused.
        OperatorError: no broker answers.
    """
    answer = call(servers, DescribeClientQuotasRequest(components=(), strict=False))
    check_code(answer.error_code.value, answer.error_message)
    return {
        quota_entity((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries or ()
    }


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
