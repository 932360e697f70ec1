"""A compacted log of a data directory under faults, by seed: the second half of a run of the log tier.

Records of few keys are appended, and the log is compacted with maps of few keys. The process is killed at any operation on files, the power
is lost, the log is cut, and its start rises, also in the midst of a round. A naive model of all records ever appended says what must be
left.
"""

import errno
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from random import Random
from typing import ClassVar, Final, NamedTuple, NoReturn
from uuid import UUID

from esp.model.errors import CorruptionError
from esp.model.ids import BrokerEpoch, TopicId, TopicPartition
from esp.records.batch import iterate_records
from esp.records.batch_header import CRC_OFFSET, HEADER_SIZE, BatchHeader, read_header
from esp.records.builder import NewRecord, Record, build_batch
from esp.settings.topic import TopicSettings
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.log_tier.checks import read_whole
from esp.simulation.log_tier.steps import line_of_ending, line_of_step
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_faults import Operation, ProcessKilledError
from esp.simulation.streams import stream
from esp.storage.compaction.cleaning import clean_blocking, cleanable_part
from esp.storage.compaction.round import CleanerLimits
from esp.storage.layout import LOG_SUFFIX
from esp.storage.log_directory import LogDirectory
from esp.storage.producer_state import BATCHES_KEPT
from esp.storage.segment_recovery import iterate_headers_blocking

STEPS: Final = 150
PARTITION: Final = TopicPartition("compacted", 0)
TOPIC_ID: Final = TopicId(UUID(int=2))
_PATH: Final = "/compacted"
KEYS: Final = 12
_MAP_BYTES: Final = (1_300, 1_300, 1 << 20)
"""Room for eight keys, or for all."""

NO_PRODUCER: Final = -1
PRODUCERS: Final = 3
SEQUENCES: Final = 1 << 31
"""After the last sequence they begin again at 0."""

DELETE_RETENTION_MS: Final = 10_000

_SWAP_SHARE: Final = 0.2
"""The share of the rounds in which the power is lost just when files have got other names, and these are about to be synced (CLEAN-7)."""

_MANY_SEGMENTS_SHARE: Final = 0.4
"""The share of the runs in which there are many small segments, several of which become one."""

_ROLL_SHARE: Final = 0.4
"""The share of the steps in these runs after which the active segment is sealed."""

_FINISH_SHARE: Final = 0.5
"""The share of the starts that have to complete a swap that are killed before the names are synced, and the power is lost."""

_DROP_SHARE: Final = 0.2
"""The share of the rounds in which the first segments are dropped while the round copies the segments behind them."""

_HIDDEN_SHARE: Final = 0.2
"""The share of the runs that end with a value hidden by the log start; its tombstone goes before the segment of the value (CLEAN-2)."""

_INTERRUPTED_SHARE: Final = 0.2
"""The share of the runs that end with a start killed in a swap, before the names are synced, and a loss of power a round later."""

_LOST_SWAP_SHARE: Final = 0.2
"""The share of the runs at whose end such a start is killed, and the power is lost at once."""

_SMALL_SEGMENTS: Final = 3
"""Segments that become one in that swap, beside the one with the tombstone: each of them may come back."""

_CUT_SHARE: Final = 0.2
"""The share of the runs at whose end as many batches of a producer are cut as its log remembers, after a round below them (CLEAN-5)."""

_STEPPING_SHARE: Final = 0.4
"""The share of the runs in which the wall clock is set back now and then, over horizons too."""

_BACK_SHARE: Final = 0.08
"""The share of the steps in these runs at which it is set back."""

_BACK_MS: Final = (100, 5_000, DELETE_RETENTION_MS, 3 * DELETE_RETENTION_MS)


class AppendedBatch(NamedTuple):
    """A batch that was appended, with its records."""

    header: BatchHeader
    records: list[Record]


class CompactedLogRun:
    """The world of one run.

    Args:
        seed: of everything random.
        keep: called with each line of the trace: a step, and the log before it.
    """

    purpose: ClassVar = "compacted logs"
    """The name of the stream from which all is drawn."""

    ends_aimed: ClassVar = True
    """True if runs may end with a value that the log start hides, or with a swap that does not come to its end."""

    def __init__(self, seed: int, keep: Callable[[str], None] = lambda _line: None) -> None:
        self._seed = seed
        self._keep_line = keep
        random = self._random = stream(self.purpose, seed)
        self._aims = stream(f"aims at {self.purpose}", seed)
        self._has_many_segments = self._aims.random() < _MANY_SEGMENTS_SHARE
        self._disk = SimulatedDisk(Random(random.random()))  # noqa: S311 -- a replay by seed is what this is for
        self._settings = TopicSettings(
            cleanup_policy="compact",
            segment_bytes=max(random.choice((300, 1_000, 3_000)), 3_000 * self._has_many_segments),
            index_interval_bytes=random.choice((0, 200, 4_096)),
            min_cleanable_dirty_ratio=random.choice((0.0, 0.3)),
            delete_retention_ms=DELETE_RETENTION_MS,
            file_delete_delay_ms=0,
        )
        self._clock_steps = stream("steps of the wall clock", seed)
        self._steps_back = self._clock_steps.random() < _STEPPING_SHARE
        self._now_ms = 100_000
        self._latest_round_ms = 0
        """The latest time by the wall clock at which a round began, though the clock was set back since."""
        self._epoch = 1
        self._sequences = [0] * PRODUCERS
        self._batches: list[AppendedBatch] = []
        """All that was appended and not lost or cut."""
        self._cleaned_below = 0
        """The largest offset below which a round may have removed records."""
        self._marked: dict[int, int] = {}
        """The earliest time of a round that may have seen a tombstone, by its offset: the first one, unless the clock was set back."""
        self._stamped: dict[int, int] = {}
        """The latest time of a round up to the first one that went to its end and left a tombstone, by its offset."""
        self._expired: set[int] = set()
        """The offsets of tombstones that a round may have removed."""
        self._directory = LogDirectory.open_blocking(self._disk, _PATH)
        self._log = self._directory.create_log_blocking(PARTITION, TOPIC_ID, self._settings)
        self._log.begin_epoch(self._epoch)

    def run(self, steps: int = STEPS) -> None:
        """Do all of it.

        Raises:
            ViolationError: an invariant does not hold.
        """
        choices = self._choices()
        for _ in range(steps):
            self._now_ms += self._random.choice((1, 100, 3_000))
            if self._steps_back and self._clock_steps.random() < _BACK_SHARE:
                self._now_ms = max(1, self._now_ms - self._clock_steps.choice(_BACK_MS))
            step = self._random.choice(choices)
            self._keep_line(line_of_step(PARTITION, step, self._log))
            step()
            if self._has_many_segments and self._aims.random() < _ROLL_SHARE:
                self._log.roll(self._now_ms)
            self._check()
        if self.ends_aimed and stream("hidden values", self._seed).random() < _HIDDEN_SHARE:
            self._hide_value()
            self._check()
        ends = stream("ends in a swap", self._seed)
        if self.ends_aimed and ends.random() < _INTERRUPTED_SHARE:
            self._interrupt_swap(ends)
            self._check()
        cuts = stream("ends in a cut", self._seed)
        if self.ends_aimed and cuts.random() < _CUT_SHARE:
            self._cut_last_batches(cuts)
            self._check()
        if self.ends_aimed and stream("power lost in a swap", self._seed).random() < _LOST_SWAP_SHARE:
            self._lose_power_in_swap()
            self._check()
        self._lose_power()
        self._check()
        self._clean_with_rot()

    def _choices(self) -> tuple[Callable[[], None], ...]:
        """The steps, each as often as it is likely."""
        return (
            *[self._append] * 14,
            *[self._settle] * 3,
            *[self._clean] * 4,
            self._begin_epoch,
            self._truncate,
            self._raise_start,
            self._checkpoint,
            self._lose_power,
            self._kill,
            self._stop,
        )

    # --- what a node does ----------------------------------------------------------------------------------------------------------

    def _draw_records(self) -> list[NewRecord]:
        """The records of one batch; some are tombstones."""
        random = self._random
        return [
            NewRecord(
                None if random.random() < 0.2 else random.randbytes(random.choice((0, 10, 90))),
                b"key %d" % random.randrange(KEYS),
                timestamp=self._now_ms,
            )
            for _ in range(random.choice((1, 1, 2, 5)))
        ]

    def _append(self) -> None:
        producer = self._random.randrange(-1, PRODUCERS)
        new = self._draw_records()
        self._append_batch(new, producer, self._random.choice((0, 0, 4)))

    def _append_batch(self, new: list[NewRecord], producer: int = NO_PRODUCER, codec: int = 0) -> None:
        log = self._log
        data = build_batch(
            new,
            base_offset=log.log_end_offset,
            leader_epoch=self._epoch,
            codec=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=self._sequences[producer] if producer >= 0 else -1,
        )
        header = read_header(data)
        log.append(data, header, self._now_ms)
        self._batches.append(AppendedBatch(header, list(iterate_records(data))))
        if producer >= 0:
            self._sequences[producer] += len(new)

    def _append_sealed(self, key: bytes, value: bytes | None) -> None:
        """Append a record of no producer, on the device and committed, in a segment that ends with it."""
        self._append_batch([NewRecord(value, key, timestamp=self._now_ms)])
        self._seal()

    def _seal(self) -> None:
        """Seal the active segment; all is on the device and committed then."""
        log = self._log
        log.roll(self._now_ms)
        log.flush_blocking()
        log.high_watermark = log.log_end_offset

    def _settle(self) -> None:
        """Commit, mostly after a flush; at times a segment is sealed before."""
        log = self._log
        if self._random.random() < 0.7:
            log.roll(self._now_ms)
        if self._random.random() < 0.8:
            log.flush_blocking()
        log.high_watermark = self._random.choice([log.log_end_offset, *self._ends_from(log.high_watermark)])

    def _ends_from(self, offset: int) -> list[int]:
        return [batch.header.next_offset for batch in self._batches if batch.header.next_offset >= offset]

    def _begin_epoch(self) -> None:
        self._epoch += 1
        self._log.begin_epoch(self._epoch)

    def _truncate(self) -> None:
        """Cut off what is not committed, and was not when a round began either."""
        log = self._log
        ends = self._ends_from(self._least_end())
        if ends:
            log.truncate_to(self._random.choice(ends))
            self._keep_to(log.log_end_offset)

    def _least_end(self) -> int:
        """The least end of the log after a truncation."""
        log = self._log
        return max(log.high_watermark, self._cleaned_below, log.log_start_offset)

    def _raise_start(self) -> None:
        log = self._log
        self._raise_start_to(self._random.randint(log.log_start_offset, log.high_watermark))

    def _raise_start_to(self, offset: int) -> None:
        self._log.raise_log_start(offset)
        self._log.delete_old_segments_blocking(self._now_ms)
        self._directory.purge(self._now_ms)

    def _drop_first_segments(self) -> None:
        """The log start rises just so far that one segment goes, or two, and those that may become one with them stay."""
        log = self._log
        bases = [segment.base_offset for segment in log.files.segments][1:3]
        reached = [base for base in bases if log.log_start_offset < base <= log.high_watermark]
        if reached:
            self._raise_start_to(self._aims.choice(reached))

    def _checkpoint(self) -> None:
        self._directory.write_checkpoints_blocking()

    def _clean(self) -> None:
        """A round, in the midst of which the process may die, the disk be full, or the log change."""
        log, random = self._log, self._random
        self._note_round()
        disturbance = random.choice((None, None, self._truncate, self._raise_start, self._append))
        steps_left = random.randrange(12)
        if self._aims.random() < _DROP_SHARE:
            disturbance, steps_left = self._drop_first_segments, 1

        def between() -> None:
            nonlocal steps_left
            steps_left -= 1
            if steps_left == 0 and disturbance is not None:
                self._kill_no_more()
                self._disk.heal()
                disturbance()

        in_swap = self._aims.random() < _SWAP_SHARE
        if in_swap:
            # Beyond the recovery point a start reads all batches, and drops a segment that does not follow.
            self._directory.write_recovery_points_blocking()
            self._kill_before_names_are_synced(self._aims.choice((0, 1, 1, 2)))
        elif random.random() < 0.5:
            self._disk.kill_after(random.randrange(60))
        elif random.random() < 0.2:
            self._disk.fill_up(random.randrange(2_000))
        limits = CleanerLimits(map_bytes=random.choice(_MAP_BYTES), chunk_bytes=random.choice((100, 400, 4_000)))
        try:
            counts = clean_blocking(log, self._now_ms, limits, between)
        except ProcessKilledError:
            self._reopen(loses_power=in_swap or random.random() < 0.5)
            return
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            counts = None
        self._disk.heal()
        self._kill_no_more()
        if random.random() < 0.5:
            self._directory.write_cleaned_blocking()
        if counts is not None and disturbance is None:
            self._check_few_are_left()

    def _hide_value(self) -> None:
        """The log start rises behind a value whose segment retention has not taken yet, and rounds remove the tombstone of its key.

        A process that ends then must not leave an old log start beside the new end of what is clean: the key would be back.
        """
        self._append_sealed(b"hidden", b"value")
        self._log.raise_log_start(self._log.high_watermark)
        self._append_sealed(b"hidden", None)
        for _ in range(2):
            self._append_sealed(b"other", b"value")
            self._note_round()
            clean_blocking(self._log, self._now_ms)
            self._directory.write_cleaned_blocking()
            self._now_ms += DELETE_RETENTION_MS + 1
        self._reopen(loses_power=self._aims.random() < 0.5)

    def _interrupt_swap(self, random: Random) -> None:
        """Two processes die in a swap, the second one when all files have their names, and the third one in the next round (CLEAN-7)."""
        self._die_in_swap(1)
        self._disk.crash()
        self._kill_no_more()
        self._open()
        self._log.high_watermark = self._log.log_end_offset
        self._now_ms += DELETE_RETENTION_MS + 1
        self._note_round()
        self._disk.kill_after(random.randrange(12))
        with suppress(ProcessKilledError):
            clean_blocking(self._log, self._now_ms)
        self._reopen(loses_power=True)

    def _lose_power_in_swap(self) -> None:
        """Two processes die in a swap of many segments, and the power is lost when all files have their names (CLEAN-7)."""
        self._die_in_swap(_SMALL_SEGMENTS)
        self._reopen(loses_power=True)

    def _die_in_swap(self, segments: int) -> None:
        """A process dies in a swap of so many segments and one with a tombstone, and the next one when all files have their names."""
        self._append_sealed(b"swapped", None)
        for _ in range(segments):
            self._append_sealed(b"other", b"value")
        self._note_round()
        self._directory.write_recovery_points_blocking()
        self._kill_before_names_are_synced(1)
        with suppress(ProcessKilledError):
            clean_blocking(self._log, self._now_ms)
        self._disk.crash()
        self._kill_before_names_are_synced(0)
        with suppress(ProcessKilledError):
            self._open()

    def _cut_last_batches(self, random: Random) -> None:
        """A round cleans what a producer wrote of a key again and again, and its next batches are cut then, which alone its log remembers:
        those that it had before are its last ones once more, some of them in the part that was clean already (PROD-5).
        """
        producer = random.randrange(PRODUCERS)

        def append(count: int) -> None:
            for _ in range(count):
                self._append_batch([NewRecord(random.randbytes(90), b"cut", timestamp=self._now_ms)], producer)

        for count in (BATCHES_KEPT, random.randrange(1, BATCHES_KEPT)):
            append(count)
            self._seal()
            if count < BATCHES_KEPT:
                append(BATCHES_KEPT)
            self._note_round()
            clean_blocking(self._log, self._now_ms)
        self._log.truncate_to(self._log.high_watermark)
        self._keep_to(self._log.log_end_offset)
        written = [header.base_offset for header, _records in self._batches if header.producer_id == producer]
        state = self._log.producers.get(producer)
        known = [] if state is None else [batch.base_offset for batch in state.batches]
        if known != written[-BATCHES_KEPT:]:
            self._fail(
                "INV-CLEAN-STATE",
                f"after a cut the batches {known} of producer {producer} are known, of {written[-BATCHES_KEPT:]}",
            )

    def _note_round(self) -> None:
        """A round begins: note what it may remove."""
        log = self._log
        cleanable = cleanable_part(log, self._now_ms)
        if cleanable.end > max(cleanable.start, min(log.high_watermark, log.recovery_point, log.sealed_end_offset)):
            self._fail("INV-CLEAN-LATEST", f"a round goes up to {cleanable.end} (CLEAN-1)")
        self._expired |= {
            offset for offset, marked_ms in self._marked.items() if self._now_ms >= marked_ms + DELETE_RETENTION_MS
        }
        self._cleaned_below = max(self._cleaned_below, cleanable.end)
        self._latest_round_ms = max(self._latest_round_ms, self._now_ms)
        for record in self._records():
            if record.value is None and record.offset < cleanable.end:
                self._marked[record.offset] = min(self._marked.get(record.offset, self._now_ms), self._now_ms)

    def _kill_before_names_are_synced(self, moments: int) -> None:
        """Let the process die when it has renamed files and is about to sync something, once ``moments`` such moments have passed."""
        disk, left, has_renamed = self._disk, moments, False

        def on_operation(operation: Operation | None) -> None:
            nonlocal left, has_renamed
            if operation == "rename":
                has_renamed = True
            elif operation == "sync" and has_renamed:
                has_renamed = False
                if left == 0:
                    disk.faults.kill_at = disk.faults.changes
                left -= 1

        disk.on_operation = on_operation

    def _kill_no_more(self) -> None:
        self._disk.faults.kill_at = None
        self._disk.on_operation = lambda _operation: None

    # --- what happens to it --------------------------------------------------------------------------------------------------------

    def _lose_power(self) -> None:
        self._reopen(loses_power=True)

    def _kill(self) -> None:
        self._reopen(loses_power=False)

    def _stop(self) -> None:
        self._directory.close_blocking(BrokerEpoch(7))
        self._reopen(loses_power=self._random.random() < 0.5, is_clean=True)

    def _reopen(self, *, loses_power: bool, is_clean: bool = False) -> None:
        """End the process, and see what the next one finds. It may die itself before it has found all."""
        log = self._log
        least_end = log.recovery_point if loses_power and not is_clean else log.log_end_offset
        most_start = log.log_start_offset
        # One that ends below its high watermark of before says so at each start, until that is written anew.
        lost_power = not log.is_whole
        while True:
            lost_power |= loses_power
            self._disk.heal()
            self._keep_line(line_of_ending(PARTITION, log, loses_power=loses_power))
            if loses_power:
                self._disk.power_loss()
            else:
                self._disk.crash()
            self._kill_no_more()
            in_swap = bool(self._find_left(".swap")) and self._aims.random() < _FINISH_SHARE
            if in_swap:
                self._kill_before_names_are_synced(self._aims.randrange(2))
            elif self._random.random() < 0.3:
                self._disk.kill_after(self._random.randrange(20))
            with suppress(ProcessKilledError):
                self._open()
                break
            loses_power = in_swap or self._random.random() < 0.5
            if loses_power:
                least_end = min(least_end, log.recovery_point)
        self._kill_no_more()
        log = self._log
        if not least_end <= log.log_end_offset or log.log_start_offset > most_start or not (log.is_whole or lost_power):
            self._fail(
                "INV-RECOVER-PREFIX",
                f"found from {log.log_start_offset} to {log.log_end_offset}, whole {log.is_whole}; it was from at most {most_start} "
                f"to at least {least_end}",
            )
        if leftovers := self._find_left(".cleaned", ".swap"):
            self._fail("INV-RECOVER-PREFIX", f"a start leaves {leftovers} (CLEAN-7)")
        self._keep_to(log.log_end_offset)
        self._epoch = max(self._epoch, log.leader_epochs.latest or 0)

    def _find_left(self, *suffixes: str) -> list[str]:
        """The files of the log's directory with such a suffix, if it is there."""
        path = self._log.path
        return [name for name in self._disk.listdir(path) if name.endswith(suffixes)] if self._disk.exists(path) else []

    def _open(self) -> None:
        self._directory = LogDirectory.open_blocking(self._disk, _PATH)
        if self._directory.replicas.get(PARTITION) is not None:
            self._log = self._directory.load_log_blocking(PARTITION, self._settings, 0)
        else:  # a power loss came before its first flush
            self._log = self._directory.create_log_blocking(PARTITION, TOPIC_ID, self._settings)
        self._directory.end_loading()

    def _keep_to(self, end_offset: int) -> None:
        """The batches behind ``end_offset`` are no more; producers go on from what is left."""
        self._batches = [batch for batch in self._batches if batch.header.next_offset <= end_offset]
        self._sequences = [0] * PRODUCERS
        for header, _records in self._batches:
            if header.producer_id >= 0:
                self._sequences[header.producer_id] = (header.last_sequence + 1) % SEQUENCES
        self._marked = {offset: at for offset, at in self._marked.items() if offset < end_offset}
        self._stamped = {offset: at for offset, at in self._stamped.items() if offset < end_offset}
        self._expired = {offset for offset in self._expired if offset < end_offset}

    def _clean_with_rot(self) -> None:
        """A bit flips in a batch that a round is about to read: no reader ever gets the record of a wrong value (CLEAN-6)."""
        log = self._log
        self._settle()
        log.high_watermark = log.log_end_offset
        cleanable = cleanable_part(log, self._now_ms)
        sealed = [
            segment for segment in log.files.segments if segment.size and segment.next_base_offset <= cleanable.end
        ]
        if not sealed or cleanable.end == cleanable.start:
            return
        segment = self._random.choice(sealed)
        # Of the first batch all is covered that stands behind the checksum.
        size = read_header(segment.file.read_blocking(0, HEADER_SIZE)).size
        place = self._random.randrange(CRC_OFFSET, size)
        self._disk.corrupt(segment.path(LOG_SUFFIX), place, 1 << self._random.randrange(8))
        with suppress(CorruptionError):
            if clean_blocking(log, self._now_ms) is None:
                return
        if log.rot is None:
            self._fail(
                "INV-NO-ROT-SERVED",
                f"a round takes segment {segment.base_offset} for sound, in which a bit has flipped, or its repair hears nothing of it",
            )

    # --- what must hold ------------------------------------------------------------------------------------------------------------

    def _records(self) -> list[Record]:
        return [record for batch in self._batches for record in batch.records]

    def _check(self) -> None:
        log = self._log
        self._check_segments()  # first: of segments that overlap a reader gets other bytes, or comes to no end
        headers: list[BatchHeader] = []
        found: list[Record] = []
        for data in read_whole(log):
            headers.append(read_header(data))
            if not headers[-1].is_control:
                found += iterate_records(data)
        expected = {record.offset: record for record in self._records()}
        offsets = [record.offset for record in found]
        if offsets != sorted(set(offsets)) or any(expected.get(record.offset) != record for record in found):
            self._fail("INV-CLEAN-LATEST", f"other records than those that were appended: {offsets}")
        if headers and headers[-1].next_offset != log.log_end_offset:
            self._fail("INV-ORDER", f"ends at {log.log_end_offset}, its last batch before")
        self._check_latest({record.offset: record for record in found}, expected)
        self._check_state(headers)

    def _check_segments(self) -> None:
        """INV-ORDER: no two segments have the same offsets; a reader that goes on from batch to batch would not see it (CLEAN-7)."""
        for segment in self._log.files.segments:
            for _position, header in iterate_headers_blocking(segment.file, 0, segment.size):
                if header.next_offset > segment.next_base_offset:
                    self._fail(
                        "INV-ORDER",
                        f"segment {segment.base_offset} goes up to {header.next_offset}, beyond the base of the next one, "
                        f"{segment.next_base_offset}",
                    )

    def _check_latest(self, found: Mapping[int, Record], expected: Mapping[int, Record]) -> None:
        """INV-CLEAN-LATEST: below the ends of all rounds the latest record of each key is there, and from there on all are (CLEAN-2)."""
        start = self._log.log_start_offset
        void = self._void_offsets()
        latest: dict[bytes | None, Record] = {}
        for offset, record in expected.items():
            if offset >= self._cleaned_below and offset >= start and offset not in found:
                self._fail("INV-CLEAN-LATEST", f"the record at {offset} is gone, and no round went so far")
            if offset < self._cleaned_below and offset not in void:
                latest[record.key] = record
        for key, record in latest.items():
            if record.offset in found or record.offset < start:
                continue
            if record.offset not in self._expired:
                self._fail("INV-CLEAN-LATEST", f"the latest record of {key!r}, at {record.offset}, is gone")
            if any(
                each.key == key and each.offset < record.offset and each.offset not in void for each in found.values()
            ):
                self._fail("INV-CLEAN-LATEST", f"{key!r} was deleted at {record.offset}, and is back")

    def _void_offsets(self) -> Collection[int]:
        """The offsets of records that supersede nothing, as they were aborted."""
        return ()

    def _is_known(self, producer_id: int) -> bool:
        """True if the batches of a producer that its log knows must be there."""
        return producer_id < PRODUCERS

    def _check_few_are_left(self) -> None:
        """A round that went to its end has left one record of a key at most below its end, and no tombstone whose time is over."""
        log = self._log
        void = self._void_offsets()
        keys: set[bytes | None] = set()
        for data in read_whole(log):
            for record in () if read_header(data).is_control else iterate_records(data):
                if log.log_start_offset <= record.offset < log.cleaned_to:
                    if record.offset in void:
                        self._fail("INV-CLEAN-LATEST", f"an aborted record is left at {record.offset}")
                    if record.key in keys:
                        self._fail(
                            "INV-CLEAN-LATEST", f"a superseded record of {record.key!r} is left below {log.cleaned_to}"
                        )
                    keys.add(record.key)
                    if record.value is None:
                        stamped_ms = self._stamped.setdefault(record.offset, self._latest_round_ms)
                        if self._now_ms - stamped_ms > DELETE_RETENTION_MS:
                            self._fail("INV-CLEAN-LATEST", f"the tombstone of {record.key!r} at {record.offset} stays")

    def _check_state(self, headers: list[BatchHeader]) -> None:
        """INV-CLEAN-STATE: what a replica learns that copies the log is what this one knows (CLEAN-5)."""
        log = self._log
        epochs: dict[int, int] = {}
        last: dict[int, BatchHeader] = {}
        for header in headers:
            epochs.setdefault(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0 and not header.is_control:
                last[header.producer_id] = header
        ends = {header.next_offset for header in headers}
        for segment in list(log.files.segments)[:-1]:
            if segment.next_base_offset > log.log_start_offset and segment.next_base_offset not in ends:
                self._fail(
                    "INV-CLEAN-STATE", f"a segment ends before {segment.next_base_offset}, where the next one begins"
                )
        begun: dict[int, int] = {}
        for header, _records in self._batches:
            begun.setdefault(header.leader_epoch, header.base_offset)
        for epoch, offset in begun.items():
            if offset >= log.log_start_offset and epochs.get(epoch) != offset:
                self._fail(
                    "INV-CLEAN-STATE", f"epoch {epoch} began at {offset}, and its first batch is at {epochs.get(epoch)}"
                )
        for producer_id, state in log.producers.items():
            if state.last_offset < log.log_start_offset or not self._is_known(producer_id):
                continue
            known = last.get(producer_id)
            if known is None or (known.last_sequence, known.last_offset) != (state.last_sequence, state.last_offset):
                self._fail(
                    "INV-CLEAN-STATE", f"the last batch of producer {producer_id}, at {state.last_offset}, is gone"
                )
            stand = {header.base_offset for header in headers}
            if any(log.log_start_offset <= batch.base_offset not in stand for batch in state.batches):
                self._fail("INV-CLEAN-STATE", f"of the last batches of producer {producer_id} some are gone")
            if (state.last_sequence + 1) % SEQUENCES != self._sequences[producer_id]:
                self._fail("INV-PROD-FOLD", f"producer {producer_id} goes on at {state.last_sequence + 1}")

    def _fail(self, invariant: str, what: str) -> NoReturn:
        raise ViolationError(invariant, str(PARTITION), what)
