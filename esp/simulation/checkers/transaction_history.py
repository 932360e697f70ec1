"""The transactions of a run as its clients know them: records, requests, and the answers that say how a transaction ended."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.transactions.requests import Producer

NEVER_S: Final = float("inf")

_NOT_OPEN: Final = frozenset({ErrorCode.invalid_txn_state, ErrorCode.transaction_abortable})
"""The answers to a batch whose transaction its leader, or the coordinator, does not know to be open in the partition."""


class Fate(Enum):
    """The outcome of a transaction as far as its client was told."""

    NEVER_COMMITTED = "never committed"
    """No commit was asked for, or the only request was refused for good."""
    COMMITTED = "committed"
    """A commit was acknowledged."""
    UNKNOWN = "unknown"
    """A commit was asked for, and no answer says what came of it."""


@dataclass(slots=True, eq=False)
class TransactionBatch:
    """A batch of a transaction; its CRC is the one that brokers keep."""

    partition: TopicPartition
    crc: int
    record_count: int
    is_acked: bool = False


@dataclass(slots=True, eq=False)
class SentTransaction:
    """One transaction of one instance of an application."""

    transactional_id: str
    instance: str
    producer: Producer
    begun_s: float
    batches: list[TransactionBatch] = field(default_factory=list)
    fate: Fate = Fate.NEVER_COMMITTED
    committed_s: float | None = None
    """The time at which the commit was acknowledged."""
    offset: int | None = None
    """The offset that a group's coordinator took for it: the number of the transaction among all of the application."""
    offset_s: float = NEVER_S
    """The time at which the coordinator answered that."""

    def __str__(self) -> str:
        return f"a transaction of {self.instance} as {tuple(self.producer)}, {self.fate.value}"


@dataclass(slots=True, eq=False)
class EndRequest:
    """EndTxn as it was sent."""

    producer: Producer
    is_commit: bool
    sent_s: float


@dataclass(slots=True, eq=False)
class InitRequest:
    """InitProducerId as it was sent; ``expected`` is the producer that it names."""

    expected: Producer | None
    sent_s: float
    answered_s: float | None = None


class ToldOffset(NamedTuple):
    """An offset that was told to an application as committed; -1 if none was."""

    transactional_id: str
    offset: int
    asked_s: float
    is_newest: bool
    """True if it came from the newest leader, which knew that when it was asked."""


@dataclass(slots=True, eq=False)
class OutsideOffset:
    """An offset that an application committed outside of its transactions, with a number as theirs."""

    transactional_id: str
    offset: int
    sent_s: float
    acked_s: float = NEVER_S
    """The time at which it was acknowledged; without that it may count from any time on."""


class Refusal(NamedTuple):
    """A batch that was refused because its transaction is not known to be open."""

    transaction: SentTransaction
    partition: TopicPartition
    asked_s: float


@dataclass(slots=True)
class TransactionHistory:
    """All of a run's transactions, and the requests that may end one, by transactional id."""

    transactions: list[SentTransaction] = field(default_factory=list)
    ends: dict[str, list[EndRequest]] = field(default_factory=dict)
    inits: dict[str, list[InitRequest]] = field(default_factory=dict)
    offsets_told: list[ToldOffset] = field(default_factory=list)
    offsets_outside: list[OutsideOffset] = field(default_factory=list)
    producers_told: dict[str, dict[Producer, None]] = field(default_factory=dict)
    """The producers that clients were given."""
    refuse: Callable[[Refusal], None] = lambda _refusal: None
    """Called when a batch is refused because of its transaction."""

    def begin(self, transaction: SentTransaction) -> None:
        """An instance begins a transaction."""
        self.transactions.append(transaction)

    def begun_s(self, transactional_id: str, producer: Producer) -> float | None:
        """The time at which an instance began its last transaction as that producer; None if none did."""
        return next(
            (
                one.begun_s
                for one in reversed(self.transactions)
                if one.producer == producer and one.transactional_id == transactional_id
            ),
            None,
        )

    def ask_end(self, transactional_id: str, producer: Producer, *, is_commit: bool, now_s: float) -> None:
        """A client asks to end a transaction."""
        self.ends.setdefault(transactional_id, []).append(EndRequest(producer, is_commit, now_s))

    def ask_init(self, transactional_id: str, expected: Producer | None, now_s: float) -> InitRequest:
        """A client asks for a producer."""
        request = InitRequest(expected, now_s)
        self.inits.setdefault(transactional_id, []).append(request)
        return request

    def tell(self, transactional_id: str, producer: Producer) -> Producer:
        """A client was given a producer."""
        self.producers_told.setdefault(transactional_id, {})[producer] = None
        return producer

    def on_refused(
        self, transaction: SentTransaction, partition: TopicPartition, code: ErrorCode, asked_s: float
    ) -> None:
        """A batch was refused; ``asked_s`` is when it was sent."""
        if code in _NOT_OPEN:
            self.refuse(Refusal(transaction, partition, asked_s))

    def committed_since(self, transactional_id: str, since_s: float) -> int:
        """The number of transactions that began since a moment, and whose commit was acknowledged."""
        return sum(
            one.transactional_id == transactional_id and one.fate is Fate.COMMITTED and one.begun_s >= since_s
            for one in self.transactions
        )

    @property
    def counts(self) -> dict[str, int]:
        """The number of transactions by what their clients know of them."""
        return {fate.value: sum(one.fate is fate for one in self.transactions) for fate in Fate}
