"""The clients that quotas hold at this moment, for operators."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from esp.broker.quotas.uses import QuotaUses
from esp.broker.request import ClientContext, Excess
from esp.model.client_quotas import CONNECTION_CREATION_RATE, QuotaEntity
from esp.protocol.progress import Progress


@dataclass(slots=True)
class HeldClient:
    """Connections of one client from one address that wait because of one quota, or an address that may open no connection now."""

    key: str
    """The quota's."""
    entity: QuotaEntity
    """The one whose quota it is."""
    user: str | None
    """None, as the client id is, where an address is held."""
    client_id: str | None
    address: str
    connections: int
    left_us: int
    """The longest time for which one of them waits still; for an address, that after which a connection would be let in."""


def find_held(uses: QuotaUses, clients: Iterable[ClientContext]) -> Generator[None, None, list[HeldClient]]:
    """Return the clients that are held, yielding after each slice.

    Args:
        uses: the node's.
        clients: those that are connected.
    """
    held: dict[tuple[Excess, str], HeldClient] = {}
    progress = Progress()
    for client in list(clients):  # others come and go between slices
        if progress.count_one():
            yield
        excess, left_us = client.hold.muted_because, client.hold.muted_until_us - uses.now_us()
        if excess is None or left_us <= 0:
            continue
        found = held.setdefault((excess, client.address.host), HeldClient(*excess, client.address.host, 0, 0))
        found.connections += 1
        found.left_us = max(found.left_us, left_us)
    return [*held.values(), *(yield from _held_addresses(uses))]


def _held_addresses(uses: QuotaUses) -> Generator[None, None, list[HeldClient]]:
    found: list[HeldClient] = []
    for address in uses.counted_addresses():
        yield  # the rate of one is looked at in some 70 us
        limit, left_ms = uses.connection_wait(address)
        if limit is not None and left_ms > 0:
            found.append(HeldClient(CONNECTION_CREATION_RATE, limit.entity, None, None, address, 0, left_ms * 1000))
    return found
