"""Changes of the quotas of clients. Error codes and texts are those of Kafka 4.3's ``ClientQuotaControlManager``.

Unlike Kafka the alterations of an entity are made as a whole or not at all, also if the request names the entity twice, and an address is
not looked up by its name: another node, or a later look, might find another one.
"""

import ipaddress
import math
from collections import Counter
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.controller.decision import BATCH_RECORDS_MAX, Decision
from esp.controller.image import ClusterImage
from esp.controller.snapshot_records import client_quota_record
from esp.model.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    ENTITY_TYPES,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
)
from esp.model.errors import ApiError, ErrorCode
from esp.schemas.metadata_records import ClientQuotaRecord
from esp.settings.setting import INT_MAX, LONG_MAX

_TOO_LARGE: Final = "Unable to perform excessively large batch operation."
_EPSILON: Final = 1e-6


class _Kind(NamedTuple):
    """The type of a quota's value, by Kafka's name, and the largest value."""

    name: str
    maximum: float
    is_whole: bool = True


_LONG: Final = _Kind("LONG", float(LONG_MAX))
_DOUBLE: Final = _Kind("DOUBLE", math.nextafter(math.inf, 0), is_whole=False)
_CLIENT_KINDS: Final = MappingProxyType(
    {
        PRODUCER_BYTE_RATE: _LONG,
        CONSUMER_BYTE_RATE: _LONG,
        REQUEST_PERCENTAGE: _DOUBLE,
        CONTROLLER_MUTATION_RATE: _DOUBLE,
    }
)
_IP_KINDS: Final = MappingProxyType({CONNECTION_CREATION_RATE: _Kind("INT", float(INT_MAX))})


class QuotaChange(NamedTuple):
    """A quota's key, and its value from now on; None takes the quota away."""

    key: str
    value: float | None


class QuotaAlteration(NamedTuple):
    """Changes of one entity's quotas, as a client asks for them."""

    entity: QuotaEntity
    changes: tuple[QuotaChange, ...]


def decide_alter_client_quotas(
    image: ClusterImage, alterations: Sequence[QuotaAlteration], *, validate_only: bool
) -> Decision[list[ApiError | None]]:
    """Change quotas, all at once; the reply has an entry for each alteration, None if it is made.

    If the alterations need too many records, none is made.
    """
    often = Counter(alteration.entity for alteration in alterations)
    records: list[ClientQuotaRecord] = []
    reply: list[ApiError | None] = []
    for entity, changes in alterations:
        try:
            if often[entity] > 1:
                raise _duplicate(entity)
            _check(entity, changes)
        except ApiError as error:
            reply.append(error)
            continue
        reply.append(None)
        present = image.client_quotas.get(entity, {})
        records += [client_quota_record(entity, key, value) for key, value in changes if present.get(key) != value]
    if len(records) > BATCH_RECORDS_MAX:
        return Decision((), [ApiError(ErrorCode.policy_violation, _TOO_LARGE) for _ in alterations])
    return Decision(() if validate_only else tuple(records), reply)


def _check(entity: QuotaEntity, changes: Sequence[QuotaChange]) -> None:
    """Refuse what makes no sense, in Kafka's order.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    if len({key for key, _ in changes}) < len(changes):
        raise _duplicate(entity)
    kinds = _kinds_of(entity)
    for key, value in changes:
        if value is None:
            continue
        kind = kinds.get(key)
        if kind is None:
            raise _invalid(f"Invalid configuration key {key}")
        if not value > 0:
            raise _invalid(f"Quota {key} must be greater than 0")
        if value > kind.maximum:
            raise _invalid(
                f"Proposed value for {key} is too large for a{'n' if kind.name == 'INT' else ''} {kind.name}."
            )
        if kind.is_whole and value % 1 > _EPSILON:
            raise _invalid(f"{key} cannot be a fractional value.")


def _kinds_of(entity: QuotaEntity) -> MappingProxyType[str, _Kind]:
    """The quotas that an entity may have."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    names = dict(entity)
    if len(names) < len(entity):
        twice = next(kind for kind, often in Counter(part.type for part in entity).items() if often > 1)
        raise _invalid(f"Invalid client quota entity, duplicate entity entry {twice}")
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP not in names:
        return _CLIENT_KINDS
    if USER in names or CLIENT_ID in names:
        raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = names[IP]
    if address is not None and not _is_address(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return _IP_KINDS


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _in_words(entity: QuotaEntity) -> str:
    """An entity as Java writes it."""
    parts = ", ".join(f"{part.type}={'null' if part.name is None else part.name}" for part in entity)
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _duplicate(entity: QuotaEntity) -> ApiError:
    """The refusal of an entity, or a key of it, that is named twice; Kafka has the same words for both."""
    return _invalid(f"Ignoring duplicate entity {_in_words(entity)}")


def _invalid(problem: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, problem)
