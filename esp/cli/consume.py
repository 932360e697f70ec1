"""``esp consume``: records become lines; the flags of ``kafka-console-consumer``."""

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from types import FrameType, TracebackType
from typing import Annotated, Final

import typer

from esp.cli.kafka.answers import ConsumedRecord, PartitionId
from esp.cli.kafka.consumer import Consumer
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import errors, print_note
from esp.cli.properties import parse_pairs
from esp.cli.record_formats import JsonFormat, LineFormat
from esp.model.errors import OperatorError

_POLL_MS = 500
_COMMIT_MS = 5_000
"""The interval at which a group's offsets are committed while records arrive: ``auto.commit.interval.ms`` of Kafka's consumer."""


_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that end the command: printed records are committed, and the member leaves the group, which else would wait for it."""

_HELD_MAX_S: Final = 1
"""The wait at the end for a poll, and for records that are being printed: the output may have no reader."""


class IsolationLevel(StrEnum):
    """The isolation level: ``read_uncommitted`` shows the records of open and aborted transactions too."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


def consume(
    topic: Annotated[str, typer.Option("--topic", help="The topic to read.", show_default=False)],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="One partition (default: all).")] = None,
    offset: Annotated[
        str,
        typer.Option(
            "--offset", help="Where to begin: earliest, latest, an offset, or a negative number to count from the end."
        ),
    ] = "latest",
    from_beginning: Annotated[
        bool,
        typer.Option(
            "--from-beginning",
            help="The same as --offset earliest; with --group, only for partitions without a committed offset.",
        ),
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            help="Join this group, share the partitions with its members, and commit the offsets of printed records.",
        ),
    ] = None,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", min=1, help="Stop after this many records.")
    ] = None,
    timeout_ms: Annotated[
        int | None, typer.Option("--timeout-ms", min=0, help="Stop if no record arrives for this long.")
    ] = None,
    property_: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "--formatter-property",
            metavar="NAME=VALUE",
            help="Output format: print.timestamp, print.partition, print.offset, print.headers, print.key, print.value, "
            "key.separator, line.separator, headers.separator, null.literal.",
        ),
    ] = None,
    isolation_level: Annotated[
        IsolationLevel, typer.Option("--isolation-level", help="read_committed leaves out uncommitted transactions.")
    ] = IsolationLevel.READ_UNCOMMITTED,
    json: Json = False,
) -> None:
    """Print the records of a topic, and continue with new ones as they arrive.

    [bold]Examples[/bold]

    esp consume --topic flights --from-beginning --max-messages 10

    esp consume --topic flights --partition 0 --offset 1000 --property print.key=true --property print.offset=true

    esp consume --topic flights --from-beginning --timeout-ms 2000 --json | jq .value

    esp consume --topic flights --group readers --from-beginning
    """
    start = _start(offset, from_beginning)
    if isinstance(start, int) and partition is None:
        raise OperatorError("--offset with a number needs --partition", "Offsets count within one partition.")
    if group is not None and (partition is not None or (offset != "latest" and not from_beginning)):
        raise OperatorError(
            "--group cannot be combined with --partition or --offset",
            "A group reads all partitions from its committed offsets; esp groups --reset-offsets changes them.",
        )
    formatter = JsonFormat() if json else LineFormat.from_properties(parse_pairs("--property", property_ or []))
    printed = 0
    with _Ending() as ending, Consumer(bootstrap_server, isolation_level.value, group, str(start)) as consumer:
        if group is None:
            consumer.start(topic, partition, start)
        else:
            consumer.subscribe(topic)
        progress = _Progress(consumer if group is not None else None)
        try:
            last_ms = _now_ms()
            while max_messages is None or printed < max_messages:
                wait_ms = _POLL_MS
                if timeout_ms is not None:
                    wait_ms = min(_POLL_MS, last_ms + timeout_ms - _now_ms())
                    if wait_ms <= 0:
                        break
                with ending.held():  # a client that is interrupted within an exchange can commit nothing any more
                    records = consumer.poll(wait_ms)
                    progress.maybe_commit()
                if not records:
                    continue
                if max_messages is not None:
                    records = records[: max_messages - printed]
                with ending.held():  # what was printed and not committed would be printed again
                    sys.stdout.buffer.write(b"".join(map(formatter.format, records)))
                    sys.stdout.buffer.flush()
                    printed += len(records)
                    progress.on_printed(records)
                last_ms = _now_ms()
        finally:
            progress.commit()
    if errors.is_terminal:
        print_note(f"{printed} records read from {topic}")


class _Ending:
    """Makes a KeyboardInterrupt of each signal that ends the command, and takes it: it is the usual end of reading on."""

    def __init__(self) -> None:
        self._is_held = self._is_due = False

    def __enter__(self) -> "_Ending":
        self._before = {number: signal.signal(number, self._on_signal) for number in (*_ENDING, signal.SIGALRM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        return kind is KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let the end wait, for a second at most."""
        self._is_held = True
        try:
            yield
        finally:
            if self._is_due:  # an alarm of the process that runs the command is left alone
                signal.alarm(0)
            self._is_held = False
        if self._is_due:
            raise KeyboardInterrupt

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if not self._is_held or self._is_due:
            raise KeyboardInterrupt
        self._is_due = True
        signal.alarm(_HELD_MAX_S)


class _Progress:
    """The progress of a group's member; without a group it does nothing.

    Args:
        consumer: the group's member; None if there is no group.
    """

    def __init__(self, consumer: Consumer | None) -> None:
        self._consumer = consumer
        self._next_offsets: dict[PartitionId, int] = {}
        self._committed_ms = _now_ms()

    def on_printed(self, records: Sequence[ConsumedRecord]) -> None:
        """Remember that these were printed."""
        if self._consumer is not None:
            for record in records:
                self._next_offsets[PartitionId(record.topic, record.partition)] = record.offset + 1

    def maybe_commit(self) -> None:
        """Commit if it is time again."""
        if _now_ms() - self._committed_ms >= _COMMIT_MS:
            self.commit()

    def commit(self) -> None:
        """Commit what was printed since the last time."""
        self._committed_ms = _now_ms()
        if self._consumer is not None and self._next_offsets:
            self._consumer.commit(self._next_offsets)
            self._next_offsets = {}


def _start(offset: str, from_beginning: bool) -> int | str:
    if from_beginning:
        if offset != "latest":
            raise OperatorError("--from-beginning and --offset exclude each other", "Give one of them.")
        return "earliest"
    if offset in ("earliest", "latest"):
        return offset
    try:
        return int(offset)
    except ValueError:
        raise OperatorError(
            f"--offset {offset}: not earliest, latest or a number", "latest shows new records."
        ) from None


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
