"""``esp queues redrive``: dead letters as records of the queue again."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import typer

from esp.cli.interruption import held_interrupt
from esp.cli.kafka.answers import ConsumedRecord, PartitionId
from esp.cli.kafka.consumer import Consumer
from esp.cli.kafka.letters import LetterReader
from esp.cli.kafka.producer import Producer
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_columns, print_json, print_note, working
from esp.cli.queues.describe import Group
from esp.controller.topics import find_name_problem
from esp.model.errors import OperatorError
from esp.model.ids import INTERNAL_TOPICS
from esp.records.builder import Headers, NewRecord
from esp.share.dead_letters import Death, read_death, without_letter_headers

COUNT_HEADER: Final = "esp.redrive.count"
"""The header that counts how often a record was sent back."""

_COUNT_DIGITS_MAX: Final = 9
"""A longer count is none of ours: any client may write the header, with more digits than Python reads as a number."""

_ORIGIN_WAIT_MS: Final = 3_000

_PRODUCER_SETTINGS: Final = {
    "acks": "all",
    "enable_idempotence": True,
    "allow_auto_create_topics": False,  # the topic may be in the trash, where a new one of its name would keep it
    "max_block_ms": 10_000,
}


class Reason(StrEnum):
    """The reasons of dead letters."""

    REJECTED = "rejected"
    EXHAUSTED = "exhausted"


class Outcome(StrEnum):
    """The outcomes of letters."""

    SENT = "sent"
    """Its record is in the queue's topic again."""
    SKIPPED = "skipped"
    """It is of another group or reason, or no letter: also one that names a topic from which no share group can have its record."""
    GONE = "gone"
    """It has no copy of its record, which is not in its topic any more."""


class _Redriven(NamedTuple):
    outcome: Outcome
    topic: str
    reason: str


def redrive(
    group: Group,
    from_: Annotated[str, typer.Option("--from", metavar="TOPIC", help="The dead-letter queue.")],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TOPIC", help="Where the records go; without it, the topic that each comes from."),
    ] = None,
    reason: Annotated[
        Reason | None,
        typer.Option("--filter", metavar="REASON", help="Only letters of this reason: rejected or exhausted."),
    ] = None,
    max_: Annotated[
        int | None, typer.Option("--max", metavar="N", min=1, help="Records that are sent at most.", show_default=False)
    ] = None,
    progress_group: Annotated[
        str | None,
        typer.Option("--progress-group", metavar="NAME", help="The group whose committed offsets say what is done."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count only: nothing is sent, and nothing remembered.")
    ] = False,
    json: Json = False,
) -> None:
    """Send the records of dead letters back to their topic, those that are in the queue when the command begins.

    A letter without a copy of its record has the record read from its topic, if it is still there. Records lose the headers of the letter,
    and get esp.redrive.count. They are new to every reader of that topic, not only to this share group.

    The progress is kept as committed offsets of a group of its own, esp-redrive-GROUP, with -REASON behind it where --filter is used: a
    run that was broken off goes on where it was, and sends the last records twice at worst, none after Ctrl-C. Each run is the one member
    of that group: a second run is refused while it lasts.

    [bold]Examples[/bold]

    esp queues redrive --group orders --from dlq.orders --dry-run

    esp queues redrive --group orders --from dlq.orders --filter exhausted --max 100
    """
    progress = progress_group or f"esp-redrive-{group}" + ("" if reason is None else f"-{reason}")
    if to == from_:
        raise OperatorError("--to is the dead-letter queue itself", "Name the topic that the share group reads.")
    done: Counter[_Redriven] = Counter()
    with ExitStack() as stack:
        reader = stack.enter_context(LetterReader(bootstrap_server, from_, progress, commits=not dry_run))
        total = reader.left
        run = _Run(bootstrap_server, stack, group, from_, to, reason, sends=not dry_run)
        with working(f"redriving up to {total} letters"):
            for letters in _in_turns(reader, max_, done):
                _do_turn(run, reader, letters, max_, done, commits=not dry_run)
        left = reader.left
    _print(done, left, dry_run=dry_run, json=json)


def _sent(done: Mapping[_Redriven, int]) -> int:
    return sum(count for each, count in done.items() if each.outcome is Outcome.SENT)


def _is_enough(most: int | None, done: Mapping[_Redriven, int]) -> bool:
    return most is not None and _sent(done) >= most


def _in_turns(reader: LetterReader, most: int | None, done: Mapping[_Redriven, int]) -> Iterator[list[ConsumedRecord]]:
    """Letters, until all are read or enough are sent."""
    while reader.left and not _is_enough(most, done):
        letters = reader.poll()
        if letters:
            yield letters


def _do_turn(
    run: "_Run",
    reader: LetterReader,
    letters: Sequence[ConsumedRecord],
    most: int | None,
    done: Counter[_Redriven],
    *,
    commits: bool,
) -> None:
    """Handle letters, and commit the progress, also where one of them cannot be handled, or Ctrl-C is pressed: no run sends the letters
    before it again.

    Raises:
        OperatorError: a letter cannot be handled now, or the progress is not known.
        KeyboardInterrupt: it was pressed.
    """
    with held_interrupt() as is_interrupted:
        _take_turn(run, reader, letters, lambda: is_interrupted() or _is_enough(most, done), done, commits=commits)


def _take_turn(
    run: "_Run",
    reader: LetterReader,
    letters: Sequence[ConsumedRecord],
    is_over: Callable[[], bool],
    done: Counter[_Redriven],
    *,
    commits: bool,
) -> None:
    next_offsets: dict[PartitionId, int] = {}
    problem: OperatorError | None = None
    for place, letter in enumerate(letters):
        if is_over():
            reader.give_back(letters[place:])
            break
        try:
            done[run.take(letter)] += 1
        except OperatorError as error:
            problem = error
            break
        next_offsets[PartitionId(letter.topic, letter.partition)] = letter.offset + 1
    if commits:
        run.settle()
        reader.commit(next_offsets)
    if problem is not None:
        raise problem


class _Run:
    """Sends records back."""

    def __init__(
        self,
        servers: str,
        stack: ExitStack,
        group: str,
        queue: str,
        to: str | None,
        reason: Reason | None,
        *,
        sends: bool,
    ) -> None:
        self._servers = servers
        self._stack = stack
        self._group = group
        self._queue = queue
        self._to = to
        self._reason = reason
        self._sends = sends
        self._producers: dict[str, Producer] = {}

    def take(self, letter: ConsumedRecord) -> _Redriven:
        """Send the record of a letter back, if it is one of those that are wanted."""
        death = read_death(letter.headers)
        if death is None:
            return _Redriven(Outcome.SKIPPED, "", "")
        reason = Reason.REJECTED if death.is_rejected else Reason.EXHAUSTED
        if find_name_problem(death.topic) is not None or death.topic in INTERNAL_TOPICS:
            return _Redriven(Outcome.SKIPPED, "", "")
        topic = self._to or death.topic
        if death.group_id != self._group or self._reason not in (None, reason) or topic == self._queue:
            return _Redriven(Outcome.SKIPPED, topic, reason)
        record = _copied(letter) or self._origin(death)
        if record is None:
            return _Redriven(Outcome.GONE, topic, reason)
        if self._sends:
            self._producer(topic).send(record)
        return _Redriven(Outcome.SENT, topic, reason)

    def settle(self) -> None:
        """Wait until all records that were sent are committed.

        Raises:
            OperatorError: a topic has refused some.
        """
        for topic, producer in self._producers.items():
            producer.flush()
            if producer.refused:
                raise OperatorError(
                    f"{topic} has refused {producer.refused} records: {producer.refusal}",
                    "The letters of this turn count as not redriven: repair that, and run the command again.",
                )

    def _producer(self, topic: str) -> Producer:
        if topic not in self._producers:
            self._producers[topic] = self._stack.enter_context(Producer(self._servers, topic, _PRODUCER_SETTINGS))
        return self._producers[topic]

    def _origin(self, death: Death) -> NewRecord | None:
        """The record of a letter that has no copy of it, from its topic; None if that does not have it any more.

        Raises:
            OperatorError: no broker answers that: the letter counts as not handled.
        """
        with Consumer(self._servers, "read_uncommitted") as consumer:
            found = consumer.find(death.topic, death.partition, death.offset, _ORIGIN_WAIT_MS)
        return None if found is None else _again(found)


def _copied(letter: ConsumedRecord) -> NewRecord | None:
    """The record that a letter is a copy of; None if it has neither key nor value, as a letter without a copy."""
    return None if letter.key is None and letter.value is None else _again(letter)


def _again(record: ConsumedRecord) -> NewRecord:
    headers: Headers = without_letter_headers(record.headers)
    before = dict(headers).get(COUNT_HEADER) or b"0"
    count = int(before) + 1 if before.isdigit() and len(before) <= _COUNT_DIGITS_MAX else 1
    rest = tuple(header for header in headers if header[0] != COUNT_HEADER)
    return NewRecord(record.value, record.key, (*rest, (COUNT_HEADER, b"%d" % count)))


def _print(done: Mapping[_Redriven, int], left: int, *, dry_run: bool, json: bool) -> None:
    if json:
        print_json(
            {
                "dry_run": dry_run,
                "left": left,
                "letters": [{**each._asdict(), "count": count} for each, count in sorted(done.items())],
            }
        )
        return
    rows = [
        [each.outcome.value, each.topic or "-", each.reason or "-", str(count)] for each, count in sorted(done.items())
    ]
    print_columns([(heading, 0) for heading in ("LETTERS", "TOPIC", "REASON", "COUNT")], rows)
    if dry_run:
        print_note("nothing was sent: this was a dry run")
