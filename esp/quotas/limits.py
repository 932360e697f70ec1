"""The quota that counts for a client, in Kafka's order (KIP-55, KIP-546).

A quota that is found by the name of a user alone counts for all that the user does; one that is found by user and client id, for that
client of the user; one by the client id, for the client of every user. Quotas of defaults count in the same way, for each name by
itself. So the clients whose use is added up follow from the entity that was found (:class:`Limit`). Addresses are compared as numbers,
however the quota's address is written.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from esp.model.acl_hosts import as_peers_have_it
from esp.model.client_quotas import (
    CONNECTION_CREATION_RATE,
    IP,
    QuotaEntity,
    client_alone,
    ip_alone,
    user_alone,
    user_and_client,
)

Sharers = tuple[str | None, str | None]
"""A user and a client id whose use is added up; None for any."""

_DEFAULT_IP: Final = ip_alone(None)


class Limit(NamedTuple):
    """A client's limit, a second; the entity that it is of, and those that share it."""

    value: float
    entity: QuotaEntity
    sharers: Sharers


class QuotaLimits:
    """The quotas of a cluster.

    Args:
        quotas: those of each entity, by key.
    """

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        self._by_key: dict[str, dict[QuotaEntity, float]] = {}
        for entity, values in quotas.items():
            for key, value in values.items():
                self._by_key.setdefault(key, {})[entity] = value
        self._by_address: dict[str, tuple[float, QuotaEntity]] = {}
        """The quotas of single addresses; the smallest of those of one that is written in several ways."""
        for entity, value in self._by_key.get(CONNECTION_CREATION_RATE, {}).items():
            written = next((part.name for part in entity if part.type == IP), None)
            if written is not None:
                address = as_peers_have_it(written)
                self._by_address[address] = min((value, entity), self._by_address.get(address, (value, entity)))

    def find(self, key: str, user: str, client_id: str) -> Limit | None:
        """The limit of a client for the quota of a key; None if there is none.

        The entities are looked up from the most special to the most general one.
        """
        quotas = self._by_key.get(key)
        if quotas is None:
            return None
        for entity, sharers in (
            (user_and_client(user, client_id), (user, client_id)),
            (user_and_client(user, None), (user, client_id)),
            (user_alone(user), (user, None)),
            (user_and_client(None, client_id), (user, client_id)),
            (user_and_client(None, None), (user, client_id)),
            (user_alone(None), (user, None)),
            (client_alone(client_id), (None, client_id)),
            (client_alone(None), (None, client_id)),
        ):
            value = quotas.get(entity)
            if value is not None:
                return Limit(value, entity, sharers)
        return None

    def find_for_address(self, address: str) -> Limit | None:
        """The limit of the connections that an address may open; None if there is none."""
        quotas = self._by_key.get(CONNECTION_CREATION_RATE)
        if quotas is None:
            return None
        address = as_peers_have_it(address)
        own = self._by_address.get(address)
        if own is not None:
            return Limit(*own, (None, address))
        of_all = quotas.get(_DEFAULT_IP)
        return None if of_all is None else Limit(of_all, _DEFAULT_IP, (None, address))
