"""Quotas of clients, in Kafka's terms: the entities that have them, and their keys (KIP-546, KIP-599, KIP-612).

An entity is a user, a client id, both, or an address; instead of a name it may have the default, which counts for each name that has no
quota of its own.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

CLIENT_KEYS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
"""The quotas of users and client ids."""

DEFAULT: Final = None
"""Stands for the name of a default entity."""


class EntityPart(NamedTuple):
    """A type of entity, and the name; None for the default."""

    type: str
    name: str | None


QuotaEntity = tuple[EntityPart, ...]
"""The parts of an entity, ordered by type; an entity that is made from foreign data is ordered by :func:`quota_entity`."""


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """The entity of these types and names."""
    return tuple(sorted((EntityPart(*part) for part in parts), key=lambda part: part.type))


def user_and_client(user: str | None, client_id: str | None) -> QuotaEntity:
    """The entity of a user and a client id, each None for the default."""
    return (EntityPart(CLIENT_ID, client_id), EntityPart(USER, user))


def user_alone(user: str | None) -> QuotaEntity:
    """The entity of a user, None for the default."""
    return (EntityPart(USER, user),)


def client_alone(client_id: str | None) -> QuotaEntity:
    """The entity of a client id, None for the default."""
    return (EntityPart(CLIENT_ID, client_id),)


def ip_alone(address: str | None) -> QuotaEntity:
    """The entity of an address, None for the default."""
    return (EntityPart(IP, address),)
