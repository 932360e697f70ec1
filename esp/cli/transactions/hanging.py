"""Transactions that no coordinator will end: found, and ended by a marker, as ``kafka-transactions`` does."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from esp.cli.kafka.answers import RefusedError
from esp.cli.kafka.client import LOOK_TIMEOUT_S
from esp.cli.kafka.transactions import AbortMarker, TransactionsAdmin, by_leader, open_transactions
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_columns, print_json, print_line, print_warning, working
from esp.cli.transactions.places import chosen_partitions, unknown_partitions
from esp.cli.transactions.reports import now_ms
from esp.cli.transactions.stopped_nodes import read_stopped_nodes
from esp.doctor.open_transactions import MAX_TIMEOUT_MS, PREPARE_STATES, OpenTransaction, find_hanging
from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition

_MS_PER_MINUTE: Final = 60_000
_FIRST_COORDINATOR_EPOCH: Final = 0
"""The coordinator epoch for a producer without a marker in the partition: no coordinator has a lower one (KIP-664)."""
_ALL: Final = "--producer-id, --producer-epoch and --coordinator-epoch"


def find(
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Only this partition of the topic.")
    ] = None,
    broker_id: Annotated[
        int | None,
        typer.Option("--broker-id", min=0, help="Only partitions of this broker, as its replicas have them."),
    ] = None,
    max_transaction_timeout: Annotated[
        int,
        typer.Option(
            "--max-transaction-timeout",
            metavar="MINUTES",
            min=0,
            help="The longest time that a coordinator leaves a transaction open; younger ones are not looked into.",
        ),
    ] = MAX_TIMEOUT_MS // _MS_PER_MINUTE,
    data_dir: Annotated[
        list[Path] | None,
        typer.Option(
            "--data-dir",
            metavar="DIRECTORY",
            help="A log directory of a stopped node, to be read in place of asking brokers; may be given several times.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Find transactions that are open in a partition and that no coordinator will end there.

    With --data-dir no broker is asked: the files of stopped nodes are read, of all nodes together or of one that has a replica of
    everything.

    [bold]Examples[/bold]

    esp transactions find-hanging

    esp transactions find-hanging --topic orders --max-transaction-timeout 60

    esp transactions find-hanging --data-dir /var/lib/esp/data
    """
    if partition is not None and topic is None:
        raise OperatorError("--partition needs --topic", "Write --topic NAME --partition NUMBER")
    limit_ms = max_transaction_timeout * _MS_PER_MINUTE
    if data_dir:
        if broker_id is not None:
            raise OperatorError("--data-dir excludes --broker-id", "Name the directories of that broker alone.")
        _print_found(*_find_in_files(data_dir, topic, partition, limit_ms), now_ms(), json=json)
        return
    with TransactionsAdmin(bootstrap_server, LOOK_TIMEOUT_S) as admin, working("asking the replicas"):
        names = chosen_partitions(admin, None if topic is None else [topic], partition, broker_id)
        by_broker = by_leader(names) if broker_id is None else {broker_id: list(names)}
        producers, unknown = admin.producers(by_broker)
        now = now_ms()
        old = [each for each in open_transactions(producers) if each.is_older_than(limit_ms, now)]
        found, problem = admin.still_hanging(by_broker, old)
    problems = [*([] if problem is None else [problem]), *unknown_partitions(unknown)]
    _print_found(found, problems, now, json=json)


def _find_in_files(
    directories: Sequence[Path], topic: str | None, partition: int | None, limit_ms: int
) -> tuple[list[OpenTransaction], list[str]]:
    """The transactions that hang in the files of stopped nodes, and the reasons for which others may."""
    with working("reading the files"):
        stopped = read_stopped_nodes(directories)
    now = now_ms()
    old = [
        each
        for each in stopped.opened
        if each.is_older_than(limit_ms, now)
        and topic in (None, each.partition.topic)
        and partition in (None, each.partition.partition)
    ]
    sure = old if not stopped.problems else [each for each in old if each.producer_id in stopped.known]
    return find_hanging(sure, stopped.known), stopped.problems if len(sure) < len(old) else []


def _print_found(found: Sequence[OpenTransaction], problems: Sequence[str], now: int, *, json: bool) -> None:
    if json:
        print_json([{**each._asdict(), **each.partition._asdict()} for each in found])
    else:
        headings = (
            *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset"),
            *("LastTimestamp", "Duration(min)"),
        )
        print_columns([(each, 0) for each in headings], [_cells(each, now) for each in found])
    if problems:
        raise OperatorError(
            f"some transactions may hang that are not shown: {'; '.join(problems)}",
            "Start these brokers, or wait until others have taken over, and try again; of stopped nodes, name the other directories, too.",
        )


def _cells(each: OpenTransaction, now: int) -> list[str]:
    return [
        each.partition.topic,
        str(each.partition.partition),
        str(each.producer_id),
        str(each.producer_epoch),
        str(each.coordinator_epoch),
        str(each.start_offset),
        str(each.last_timestamp_ms),
        str(max(0, now - each.last_timestamp_ms) // _MS_PER_MINUTE),
    ]


def abort(
    topic: Annotated[str, typer.Option("--topic", help="The topic.")],
    partition: Annotated[int, typer.Option("--partition", min=0, help="The partition.")],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, help="The transaction's first offset.")
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", min=0, help="The producer's id, in place of --start-offset.")
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option("--producer-epoch", min=0, max=32_767, help="The producer's epoch in the partition.")
    ] = None,
    coordinator_epoch: Annotated[
        int | None,
        typer.Option(
            "--coordinator-epoch", min=-1, help="Of the producer's last marker in the partition; -1 if it has none."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the marker only.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Write the marker.")] = False,
) -> None:
    """End a transaction that hangs in a partition: write the marker that aborts it.

    With --start-offset, the marker is made from the partition's state, and a transaction that its coordinator still has is refused.
    With the producer's id and both epochs, no coordinator is asked.

    [bold]Examples[/bold]

    esp transactions abort --topic orders --partition 0 --start-offset 4711

    esp transactions abort --topic orders --partition 0 --start-offset 4711 --execute
    """
    name = TopicPartition(topic, partition)
    numbers = (producer_id, producer_epoch, coordinator_epoch)
    given = [each for each in numbers if each is not None]
    if start_offset is not None and given:
        raise OperatorError(f"--start-offset excludes {_ALL}", "Give the offset alone, or the other three.")
    if start_offset is None and len(given) != len(numbers):
        raise OperatorError(
            f"abort needs --start-offset, or {_ALL}",
            f"See the transactions: esp transactions find-hanging --topic {topic} --partition {partition}",
        )
    if execute and dry_run:
        raise OperatorError("--execute and --dry-run exclude each other", "Give one of them.")
    with TransactionsAdmin(bootstrap_server, None if execute else LOOK_TIMEOUT_S) as admin:
        with working("asking the leader"):
            names = chosen_partitions(admin, [topic], partition)
            if start_offset is not None:
                marker = _marker_of(_open_at(admin, by_leader(names), name, start_offset))
            else:
                marker = AbortMarker(name, given[0], given[1], max(_FIRST_COORDINATOR_EPOCH, given[2]))
        if execute:
            _write(admin, marker)
    text = (
        f"the marker that aborts the transaction of producer {marker.producer_id} with epoch {marker.producer_epoch} in {name}, "
        f"with coordinator epoch {marker.coordinator_epoch}"
    )
    if execute:
        print_line(f"Wrote {text}.")
        return
    print_line(f"Would write {text}.")
    if not dry_run:
        print_warning("no marker is written without --execute; --dry-run silences this warning")


def _open_at(
    admin: TransactionsAdmin, by_broker: dict[int, list[TopicPartition]], name: TopicPartition, offset: int
) -> OpenTransaction:
    """Return the transaction that hangs and begins at an offset.

    The leader is asked again after the coordinators: if the transaction has ended meanwhile, a marker would end the producer's next one.

    Raises:
        OperatorError: there is none, or a coordinator has it, or that cannot be told.
    """
    opened = _begun_at(admin, by_broker, name, offset)
    owners, problem = admin.owners([opened])
    owner = owners.get(opened.producer_id)
    if owner is not None and name in owner.partitions:
        is_ending = owner.state in PREPARE_STATES
        end = "writes its markers" if is_ending else f"aborts it at the latest {owner.timeout_ms} ms after its start"
        raise OperatorError(
            f"the transaction at offset {offset} of {name} does not hang: broker {owner.coordinator} has it as {owner.transactional_id} "
            f"in state {owner.state}, and {end}",
            f"Wait for that, or see it: esp transactions describe --transactional-id {owner.transactional_id}",
        )
    if owner is None and problem is not None:
        raise OperatorError(
            f"a coordinator that does not answer may have the transaction at offset {offset} of {name}: {problem}",
            f"Start these brokers and try again; {_ALL} write the marker without asking.",
        )
    return _begun_at(admin, by_broker, name, offset)


def _begun_at(
    admin: TransactionsAdmin, by_broker: dict[int, list[TopicPartition]], name: TopicPartition, offset: int
) -> OpenTransaction:
    found, unknown = admin.producers(by_broker)
    for line in unknown_partitions(unknown):
        raise OperatorError(line, f"See its replicas: esp topics --describe --topic {name.topic}")
    for each in open_transactions(found):
        if each.start_offset == offset:
            return each
    raise OperatorError(
        f"no open transaction begins at offset {offset} of {name}",
        f"See the start offsets: esp transactions describe-producers --topic {name.topic} --partition {name.partition}",
    )


def _marker_of(opened: OpenTransaction) -> AbortMarker:
    epoch = max(_FIRST_COORDINATOR_EPOCH, opened.coordinator_epoch)
    return AbortMarker(opened.partition, opened.producer_id, opened.producer_epoch, epoch)


def _write(admin: TransactionsAdmin, marker: AbortMarker) -> None:
    try:
        admin.abort(marker)
    except RefusedError as error:
        raise OperatorError(
            f"the leader of {marker.partition} refused the marker: {error.message}",
            f"See the epochs that it knows: esp transactions describe-producers --topic {marker.partition.topic} "
            f"--partition {marker.partition.partition}",
        ) from error
