"""The clients whose transactions are open in a partition, as its leader saw them: for operators, nothing depends on it.

A client is noted when its transaction is about to enter the partition, and forgotten with the marker that ends it. The next leader knows
only the clients of transactions that began since.
"""

from typing import Final, NamedTuple

CLIENTS_MAX: Final = 10_000
"""Clients that are remembered for one partition. Above that the oldest one is forgotten."""


class TransactionClient(NamedTuple):
    """The sender of a transaction's first batch in a partition."""

    client_id: str | None
    host: str | None
    """The address of its connection."""


class TransactionClients:
    """The clients of one partition's leader, by producer id and epoch."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, tuple[int, TransactionClient]] = {}

    def note(self, producer_id: int, epoch: int, client: TransactionClient) -> None:
        """A batch of the client is about to begin a transaction here, unless it is refused."""
        known = self._by_producer
        if producer_id not in known and len(known) >= CLIENTS_MAX:
            del known[next(iter(known))]
        known[producer_id] = (epoch, client)

    def find(self, producer_id: int, epoch: int) -> TransactionClient | None:
        """Return the client of a transaction that is open; None if it is not known."""
        known = self._by_producer.get(producer_id)
        return known[1] if known is not None and known[0] == epoch else None

    def end(self, producer_id: int) -> None:
        """A marker of the producer was appended."""
        self._by_producer.pop(producer_id, None)
