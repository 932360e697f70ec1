"""Transactions listed and described, in the columns of ``kafka-transactions`` or as JSON. Times are milliseconds since the Unix epoch."""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import typer

from esp.cli.kafka.answers import RefusedError
from esp.cli.kafka.client import LOOK_TIMEOUT_S
from esp.cli.kafka.transaction_clients import TransactionClient
from esp.cli.kafka.transactions import ListFilter, TransactionsAdmin, by_leader, open_transactions
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_columns, print_json, print_warning, working
from esp.cli.transactions.places import chosen_partitions, unknown_partitions
from esp.doctor.open_transactions import KnownTransaction, OpenTransaction
from esp.model.errors import ErrorCode, OperatorError
from esp.model.ids import TRANSACTIONS_TOPIC, TopicPartition

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)
"""The states that a transactional id can be in."""

_NONE: Final = "None"
_UNKNOWN: Final = "-"


def now_ms() -> int:
    """Milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


def _words(texts: Sequence[str] | None) -> list[str]:
    return [word.strip() for text in texts or () for word in text.split(",") if word.strip()]


def _states(texts: Sequence[str] | None) -> tuple[str, ...]:
    by_word = {state.lower(): state for state in STATES}
    for word in _words(texts):
        if word.lower() not in by_word:
            raise OperatorError(f"--state: {word} is unknown", f"Known are {', '.join(STATES)}.")
    return tuple(by_word[word.lower()] for word in _words(texts))


def _producer_ids(texts: Sequence[str] | None) -> tuple[int, ...]:
    for word in _words(texts):
        if not word.isdecimal():
            raise OperatorError(
                f"--producer-id: {word} is not a producer id", "Write numbers, separated by commas: 4001,4002"
            )
    return tuple(map(int, _words(texts)))


def list_transactions(
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE,STATE", help="Only ids in these states, such as Ongoing."),
    ] = None,
    producer_id: Annotated[
        list[str] | None, typer.Option("--producer-id", metavar="ID,ID", help="Only these producer ids.")
    ] = None,
    duration_filter: Annotated[
        int | None,
        typer.Option(
            "--duration-filter",
            metavar="MS",
            help="Only transactions that run for more milliseconds than this; negative: all.",
        ),
    ] = None,
    transactional_id_pattern: Annotated[
        str | None,
        typer.Option(
            "--transactional-id-pattern", metavar="REGEX", help="Only ids that match this RE2 expression as a whole."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the transactional ids that coordinators know.

    [bold]Examples[/bold]

    esp transactions list

    esp transactions list --state Ongoing --duration-filter 60000
    """
    wanted = ListFilter(
        _states(state),
        _producer_ids(producer_id),
        -1 if duration_filter is None else max(-1, duration_filter),
        transactional_id_pattern,
    )
    with TransactionsAdmin(bootstrap_server, LOOK_TIMEOUT_S) as admin, working("asking the coordinators"):
        try:
            found, silent = admin.list_transactions(wanted)
            unled = admin.unled_coordinators()
        except RefusedError as error:
            if error.code is not ErrorCode.invalid_regular_expression:
                raise
            raise OperatorError(
                f"--transactional-id-pattern {transactional_id_pattern}: not a regular expression",
                "Write one in the syntax of RE2, such as 'orders-.*'.",
            ) from error
    if silent:
        print_warning(f"transactions of brokers that do not answer are left out: {', '.join(map(str, silent))}")
    if unled:
        print_warning(
            f"transactions are left out: partitions of {TRANSACTIONS_TOPIC} have no leader: {', '.join(map(str, unled))}"
        )
    if json:
        print_json([each._asdict() for each in found])
        return
    print_columns(
        [("TransactionalId", 0), ("Coordinator", 0), ("ProducerId", 0), ("TransactionState", 0)],
        [[each.transactional_id, str(each.coordinator), str(each.producer_id), each.state] for each in found],
    )


def describe(
    transactional_id: Annotated[
        list[str],
        typer.Option("--transactional-id", metavar="ID", help="The transactional id; may be given several times."),
    ],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    json: Json = False,
) -> None:
    """Describe the last transaction of transactional ids.

    [bold]Example[/bold]

    esp transactions describe --transactional-id orders-1
    """
    with TransactionsAdmin(bootstrap_server, LOOK_TIMEOUT_S) as admin, working("asking the coordinators"):
        found = admin.describe(transactional_id)
    now = now_ms()
    described = [each for each in found.values() if isinstance(each, KnownTransaction)]
    if json:
        print_json([_as_json(each, now) for each in described])
    elif described:
        headings = (
            *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"),
            *("TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"),
        )
        print_columns([(each, 0) for each in headings], [_described_cells(each, now) for each in described])
    for name, error in found.items():
        if isinstance(error, RefusedError):
            if error.code is ErrorCode.transactional_id_not_found:
                raise OperatorError(
                    f"there is no transactional id {name}", "See the ids: esp transactions list"
                ) from error
            raise OperatorError(f"{name}: the coordinator refused: {error.message}", "Try again.") from error


def _described_cells(each: KnownTransaction, now: int) -> list[str]:
    age_ms = each.age_ms(now)
    return [
        str(each.coordinator),
        each.transactional_id,
        str(each.producer_id),
        str(each.producer_epoch),
        each.state,
        str(each.timeout_ms),
        *((_NONE, _NONE) if age_ms is None else (str(each.start_ms), str(age_ms))),
        ",".join(map(str, sorted(each.partitions))),
    ]


def _as_json(each: KnownTransaction, now: int) -> dict[str, Any]:
    age_ms = each.age_ms(now)
    return each._asdict() | {
        "start_ms": None if age_ms is None else each.start_ms,
        "partitions": [name._asdict() for name in sorted(each.partitions)],
        "duration_ms": age_ms,
    }


def describe_producers(
    topic: Annotated[str, typer.Option("--topic", help="The topic.")],
    partition: Annotated[int, typer.Option("--partition", min=0, help="The partition.")],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    broker_id: Annotated[
        int | None, typer.Option("--broker-id", min=0, help="Ask this replica (default: the leader).")
    ] = None,
    json: Json = False,
) -> None:
    """Describe the producers that a partition knows, idempotent ones too.

    [bold]Example[/bold]

    esp transactions describe-producers --topic orders --partition 0
    """
    with TransactionsAdmin(bootstrap_server, LOOK_TIMEOUT_S) as admin, working("asking the replica"):
        asked = chosen_partitions(admin, [topic], partition, broker_id)
        found, unknown = admin.producers(by_leader(asked) if broker_id is None else {broker_id: asked})
    for name, reason in unknown.items():
        raise OperatorError(
            f"the producers of {name} are unknown: {reason}", f"See its replicas: esp topics --describe --topic {topic}"
        )
    [producers] = found.values()
    if json:
        print_json([each._asdict() for each in producers])
        return
    headings = (
        *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"),
        "CurrentTransactionStartOffset",
    )
    print_columns(
        [(each, 0) for each in headings],
        [
            [
                *map(str, each[:-1]),
                _NONE if each.current_txn_start_offset < 0 else str(each.current_txn_start_offset),
            ]
            for each in producers
        ],
    )


class Oldest(NamedTuple):
    """The oldest open transaction of a partition, and its owner; None where no coordinator knows the producer."""

    topic: str
    partition: int
    open_transactions: int
    start_offset: int
    age_ms: int
    """Since it began, if its coordinator knows; else since its last record, which is a lower bound."""
    producer_id: int
    producer_epoch: int
    transactional_id: str | None
    state: str | None
    coordinator: int | None
    client_id: str | None
    """The id of the client that began it in this partition, if the leader knows it: a broker of ESP, since it leads."""
    client_host: str | None


def oldest(
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Only this topic; may be given several times.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the oldest open transaction of each partition that has one, with its owner; the oldest of all first.

    Readers of committed records wait behind it. Brokers of ESP tell the client that began it there, and its address, unless the partition
    has another leader since; Kafka's do not.

    [bold]Examples[/bold]

    esp transactions oldest

    esp transactions oldest --topic orders
    """
    with TransactionsAdmin(bootstrap_server, LOOK_TIMEOUT_S) as admin, working("asking the leaders"):
        leaders = by_leader(chosen_partitions(admin, topic))
        found, unknown = admin.producers(leaders)
        for line in unknown_partitions(unknown):
            print_warning(line)
        opened = open_transactions(found)
        rows = _oldest_rows(opened, _owners(admin, opened), _clients(admin, opened, leaders))
    if json:
        print_json([each._asdict() for each in rows])
        return
    headings = (
        *("Topic", "Partition", "OpenTransactions", "StartOffset", "AgeMs", "ProducerId", "ProducerEpoch"),
        *("TransactionState", "Coordinator", "TransactionalId", "ClientId", "ClientHost"),
    )
    print_columns(
        [(each, 0) for each in headings],
        [
            [
                *(row.topic, str(row.partition), str(row.open_transactions), str(row.start_offset)),
                *(str(row.age_ms), str(row.producer_id), str(row.producer_epoch)),
                row.state or _UNKNOWN,
                _UNKNOWN if row.coordinator is None else str(row.coordinator),
                *(row.transactional_id or _UNKNOWN, row.client_id or _UNKNOWN, row.client_host or _UNKNOWN),
            ]
            for row in rows
        ],
    )


def _owners(admin: TransactionsAdmin, opened: Sequence[OpenTransaction]) -> dict[int, KnownTransaction]:
    """Return the transactions that own the open ones, by producer id, as far as coordinators answer."""
    if not opened:
        return {}
    listed, silent = admin.list_transactions(ListFilter(producer_ids=tuple({each.producer_id for each in opened})))
    if silent:
        print_warning(f"owners are unknown where the coordinator does not answer: {', '.join(map(str, silent))}")
    try:
        told = admin.describe(each.transactional_id for each in listed)
    except OperatorError as error:
        print_warning(f"owners are unknown: {error.problem}")
        return {}
    return {each.producer_id: each for each in told.values() if isinstance(each, KnownTransaction)}


_Clients: TypeAlias = Mapping[tuple[TopicPartition, int], TransactionClient]


def _clients(
    admin: TransactionsAdmin, opened: Sequence[OpenTransaction], leaders: Mapping[int, Sequence[TopicPartition]]
) -> _Clients:
    """Return the clients of open transactions, by partition and producer id, as far as leaders know them."""
    asked = {each.partition for each in opened}
    by_broker = {
        node: here for node, partitions in leaders.items() if (here := [each for each in partitions if each in asked])
    }
    return admin.clients(by_broker) if by_broker else {}


def _oldest_rows(
    opened: Sequence[OpenTransaction], owners: Mapping[int, KnownTransaction], clients: _Clients
) -> list[Oldest]:
    now = now_ms()
    rows: list[Oldest] = []
    for partition in sorted({each.partition for each in opened}):
        here = [each for each in opened if each.partition == partition]
        first = min(here, key=lambda each: each.start_offset)
        owner = owners.get(first.producer_id)
        held = owner if owner is not None and partition in owner.partitions else None
        age_ms = held.age_ms(now) if held is not None else None
        client = clients.get((partition, first.producer_id))
        rows.append(
            Oldest(
                *(*partition, len(here), first.start_offset),
                max(0, now - first.last_timestamp_ms) if age_ms is None else age_ms,
                *(first.producer_id, first.producer_epoch),
                *((None, None, None) if owner is None else (owner.transactional_id, owner.state, owner.coordinator)),
                *((None, None) if client is None else client),
            )
        )
    return sorted(rows, key=lambda row: (-row.age_ms, row.topic, row.partition))
