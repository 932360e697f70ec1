"""Writes the dead letters of one share partition: some records at a time, in their order.

A letter is written to the dead-letter queue, committed there, before its record is archived. So a letter may be written twice, after a
change of leaders or a lost answer, and none is left out, except where none can be written: the destination does not take letters, or not
this one even without its record. Then the record is archived without one, an error is logged, and the group's count of lost letters
rises. Whatever may pass, like a queue without a leader, is tried again for as long as this node leads.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from esp.broker.letter_desk import LetterCounts
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.read_errors import READ_ERRORS, code_of
from esp.broker.share.letter_post import LetterPost
from esp.broker.share.log_reads import Range, ReadBatches, Searching, read_batches, visible_end
from esp.model.errors import ErrorCode
from esp.model.shown_names import in_line
from esp.records.batch import iterate_records
from esp.records.builder import NewRecord, Record, build_batch
from esp.schemas.share_state_records import ShareStateKey
from esp.share.dead_letters import (
    Death,
    Fate,
    build_letter,
    fate_of,
    find_destination_problem,
    without_record,
)
from esp.share.group_settings import ShareGroupSettings
from esp.share.partition import CondemnedRecords

log = logging.getLogger(__name__)

LETTERS_MAX: Final = 200
"""Letters that are written together."""

BYTES_MAX: Final = 512 * 1024
"""Bytes of the log that are read for them, and of records that they copy; one record may be more."""

PAUSE_US: Final = 100_000
"""The pause before letters are tried again, at first; it doubles each time."""
PAUSE_US_MAX: Final = 30_000_000

COMPLAIN_US: Final = 60_000_000
"""An operator is told again of letters that cannot be written after so long."""


class Parts(NamedTuple):
    """The parts of the node by which letters are written."""

    post: LetterPost
    counts: LetterCounts


class _Letter(NamedTuple):
    offset: int
    content: NewRecord


class LetterWriter:
    """See the module.

    Args:
        key: the share partition.
        hosted: the replica of the records, which leads.
        settings: returns the group's settings as they count now.
        searching: reads of the log.
        parts: the node's.
    """

    def __init__(
        self,
        key: ShareStateKey,
        hosted: HostedPartition,
        settings: Callable[[], ShareGroupSettings],
        searching: Searching,
        parts: Parts,
    ) -> None:
        self._key = key
        self._hosted = hosted
        self._settings = settings
        self._searching = searching
        self._post, self._counts = parts
        self._pause_us = PAUSE_US
        self._complained_us: int | None = None
        self._failing_since_us: int | None = None

    @property
    def failing_us(self) -> int:
        """The time since letters could not be written for the first time after others were; 0 if they can."""
        since_us = self._failing_since_us
        return 0 if since_us is None else self._searching.clock.monotonic_us() - since_us

    async def write(self, condemned: Sequence[CondemnedRecords]) -> int:
        """Write the letters of records, in order, at least one.

        Returns:
            The offset before which they are settled: written, or given up. If it is that of the first record nothing is; call again.
        """
        first_offset = condemned[0].start_offset
        settings = self._settings()
        wanted = settings.dead_letters
        destination = None if wanted is None else self._post.destination(wanted.topic)
        node = self._post.settings()
        problem = find_destination_problem(
            destination,
            self._hosted.name.topic,
            node.errors_deadletterqueue_topic_name_prefix,
            may_create=node.errors_deadletterqueue_auto_create_topics_enable,
        )
        if problem is not None or wanted is None or destination is None:
            self._lose(sum(each.end_offset - each.start_offset for each in condemned), problem or "")
            return condemned[-1].end_offset
        if not destination.partition_count:
            code = await self._post.create_topic(wanted.topic)
            await self._wait(f"{wanted.topic} cannot be created yet: {code.name}")
            return first_offset
        condemned = _below(condemned, visible_end(self._hosted.log, settings))
        if not condemned:  # a new leader does not know yet how far its log is committed
            await self._wait("their records are not known to be committed yet")
            return first_offset
        letters, end_offset = await self._letters(condemned, settings, copies=wanted.copies_records)
        sent = await self._send(wanted.topic, letters)
        if sent == len(letters):
            self._pause_us = PAUSE_US
            missing = sum(max(0, min(each.end_offset, end_offset) - each.start_offset) for each in condemned) - len(
                letters
            )
            if missing:
                log.info("no dead letters about %d offsets of %s, which hold no record now", missing, self._name)
                self._counts.absent[self._key.group_id] += missing
            return end_offset
        return letters[sent].offset

    def count_pending(self, count: int) -> None:
        """So many letters are still to be written."""
        if count:
            self._counts.pending[self._key] = count
        else:
            self._counts.pending.pop(self._key, None)
            self._failing_since_us, self._pause_us = None, PAUSE_US

    def count_deleted(self, count: int) -> None:
        """Records have gone from the log before letters about them were written."""
        log.warning("%d records of %s were deleted before their dead letters were written", count, self._name)
        self._counts.absent[self._key.group_id] += count

    @property
    def _name(self) -> str:
        return f"{self._hosted.name} of group {in_line(self._key.group_id)}"

    async def _letters(
        self, condemned: Sequence[CondemnedRecords], settings: ShareGroupSettings, *, copies: bool
    ) -> tuple[Sequence[_Letter], int]:
        """The letters of records as far as they are still in the log, and the offset up to which that was looked at."""
        wanted = Range(condemned[0].start_offset, condemned[-1].end_offset)
        now_ms = self._searching.clock.wall_ms()
        found: Sequence[Record | int]
        try:
            read = await read_batches(self._hosted, wanted, BYTES_MAX, settings, self._searching.cpu, at_least_one=True)
            found, end_offset = await self._searching.cpu.run(_find_records, read, condemned, wanted.end_offset)
        except READ_ERRORS as error:
            if code_of(error) is ErrorCode.offset_out_of_range:  # the log start has passed them: they leave the window
                await self._searching.clock.sleep_us(PAUSE_US)
                return (), wanted.offset
            log.warning(
                "dead letters of %s are written without their records, which cannot be read: %s", self._name, error
            )
            found = [offset for each in condemned for offset in range(each.start_offset, each.end_offset)]
            end_offset = wanted.end_offset
        runs = iter(condemned)
        run = next(runs)
        letters = []
        for record in found:
            offset = record if isinstance(record, int) else record.offset
            while offset >= run.end_offset:
                run = next(runs)
            name = self._hosted.name
            death = Death(name.topic, name.partition, offset, self._key.group_id, run.delivery_count, run.is_rejected)
            copied = record if copies and isinstance(record, Record) else None
            letters.append(_Letter(offset, build_letter(death, copied, now_ms)))
        return letters, end_offset

    async def _send(self, topic: str, letters: Sequence[_Letter]) -> int:
        """Send letters; return the number of those that are settled, from the first on."""
        group_id = self._key.group_id
        settled, size = 0, len(letters)
        while settled < len(letters):
            some = [letter.content for letter in letters[settled : settled + size]]
            self._counts.requests[group_id] += 1
            error = await self._post.send(topic, self._key.partition, build_batch(some))
            fate = fate_of(error)
            if fate is not Fate.WRITTEN:
                self._counts.failures[group_id] += 1
            if fate is Fate.TOO_LARGE and len(some) == 1 and some[0] != without_record(some[0]):
                letters = [
                    letter._replace(content=without_record(letter.content)) if place == settled else letter
                    for place, letter in enumerate(letters)
                ]
            elif fate is Fate.WRITTEN:
                self._counts.written[group_id] += len(some)
                settled += len(some)
                self._complained_us = self._failing_since_us = None
            elif fate is Fate.AGAIN:
                await self._wait(f"{topic} does not take them yet: {error.name}")
                return settled
            elif len(some) > 1:
                size = len(some) // 2
            else:
                self._lose(1, f"{topic} refuses the one about offset {letters[settled].offset}: {error.name}")
                settled += 1
        return settled

    def _lose(self, count: int, problem: str) -> None:
        """Records are archived without letters."""
        self._counts.lost[self._key.group_id] += count
        if self._may_complain():
            log.error("records of %s are archived without dead letters: %s", self._name, problem)

    async def _wait(self, problem: str) -> None:
        """Letters are to be tried again."""
        if self._failing_since_us is None:
            self._failing_since_us = self._searching.clock.monotonic_us()
        if self._pause_us > PAUSE_US and self._may_complain():
            log.warning("dead letters of %s wait: %s", self._name, problem)
        pause_us, self._pause_us = self._pause_us, min(2 * self._pause_us, PAUSE_US_MAX)
        await self._searching.clock.sleep_us(pause_us)

    def _may_complain(self) -> bool:
        now_us = self._searching.clock.monotonic_us()
        if self._complained_us is not None and now_us < self._complained_us + COMPLAIN_US:
            return False
        self._complained_us = now_us
        return True


def _find_records(
    read: ReadBatches, condemned: Sequence[CondemnedRecords], end_offset: int
) -> tuple[list[Record], int]:
    """The records of these ranges that were read, and the offset before which there are no others; run off the loop.

    Raises:
        CorruptionError: a batch cannot be opened.
    """
    found: list[Record] = []
    size = 0
    runs = iter(condemned)
    run: CondemnedRecords | None = next(runs)
    place = read.fetch_offset
    for position, batch in read.located():
        place = max(place, batch.end_offset)
        while run is not None and run.end_offset <= batch.start_offset:
            run = next(runs, None)
        if run is None:
            break
        if run.start_offset >= batch.end_offset:
            continue
        for record in iterate_records(memoryview(read.records)[position:]):
            while run is not None and record.offset >= run.end_offset:
                run = next(runs, None)
            if run is None:
                break
            if record.offset < run.start_offset:
                continue
            if found and size + _size(record) > BYTES_MAX:
                return found, record.offset
            found.append(record)
            size += _size(record)
    return found, end_offset if run is None else min(place, end_offset)


def _below(condemned: Sequence[CondemnedRecords], end_offset: int) -> Sequence[CondemnedRecords]:
    return [
        each._replace(end_offset=min(each.end_offset, end_offset))
        for each in condemned
        if each.start_offset < end_offset
    ]


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"") + sum(len(value or b"") for _, value in record.headers)
