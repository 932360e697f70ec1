"""One log of a data directory under faults: the product's storage on a simulated disk, by seed, without a loop and without other nodes.

The storage tier of the simulator, for what one node alone can get wrong: what a recovery brings back, what a failed write leaves behind,
when something counts as durable. A naive model, the list of batches that should be there, is held against the log after every step.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import inf
from random import Random
from typing import Final, NamedTuple
from uuid import UUID

from esp.model.errors import ApiError, CorruptionError
from esp.model.ids import BrokerEpoch, TopicId, TopicPartition
from esp.records.batch_header import ATTRIBUTES_OFFSET, BatchHeader, read_header, stamp
from esp.records.builder import NewRecord, build_batch
from esp.records.transaction_marker import build_marker
from esp.replication.partition_follower import append_fetched
from esp.settings.topic import TopicSettings
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.simulation.log_tier.checks import (
    check_log,
    check_producers_known,
    check_producers_wrote,
    check_reads,
    check_recovered,
)
from esp.simulation.log_tier.steps import line_of_ending, line_of_step
from esp.simulation.log_tier.timed_searches import search_with_rot
from esp.simulation.log_tier.transactions import TransactionCheck
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_faults import ProcessKilledError
from esp.simulation.machine.disk_image import make_tree, take_image
from esp.simulation.nodes_tier.rot import RotKind, find_targets, rot_somewhere
from esp.simulation.partition_tier.memory_log import KeptBatch
from esp.simulation.partition_tier.producers import make_batch
from esp.simulation.streams import stream
from esp.storage.layout import LOG_START_FILE, LOG_SUFFIX, TIME_INDEX_SUFFIX
from esp.storage.log_directory import LogDirectory
from esp.storage.producer_snapshots import snapshot_offsets
from esp.storage.segment_recovery import iterate_headers_blocking

STEPS: Final = 300
PARTITION: Final = TopicPartition("topic", 0)
_TOPIC_ID: Final = TopicId(UUID(int=1))
_PATH: Final = "/data"
_PRODUCERS: Final = 3
_ROT_SHARE: Final = 0.4
"""The share of the runs with rot, and of the starts in these at which a file has rotted that can be made again, or be done without."""

_HOLE_SHARE: Final = 0.1
"""The share of the starts of runs without rot after which a copy of the disk lacks a segment."""

_TIMES_SHARE: Final = 0.05
"""The share of the starts of runs with rot after which another log, of records with times, has a rotten time index."""

_SEARCHES_SHARE: Final = 0.1
"""The share of the starts of runs with rot after which another log, of records with times, is searched when one of its bits has flipped."""

_TIMED_MS: Final = 1_700_000_000_000
_YOUNG_MS: Final = 3_600_000
"""The records of that log are written within an hour, and retained for one."""

_TIMED_BATCHES: Final = 8

_ROTTEN_MAX: Final = 4
_OF_PRODUCERS: Final = (ATTRIBUTES_OFFSET + 1, *range(43, 57))
"""The positions in a batch of the bytes that name its producer, epoch and sequence, and say whether it is a transaction's or a marker."""

_TRANSACTIONS_SHARE: Final = 0.5
"""The share of the runs in which producers write transactions, and markers end them."""

_MARKER_SHARE: Final = 0.3
"""The share of the appends in these runs that are markers."""

_MOVING_START_SHARE: Final = 0.5
"""The share of the runs whose batches have several records, with log starts within them, and retention in the midst of flushes."""

_SHORT_LIVES_SHARE: Final = 0.15
"""The share of the runs in which starts end in their first operations, and soon after the next one the power is lost."""

_LOST_FRONTS_SHARE: Final = 0.1
"""The share of the runs in which a device that holds the log start, and a part of the records around it, loses power, twice."""

_ANEW: Final = -1
"""Instead of the end of a log that is cut: it begins anew, and none of its batches stays."""

_UNFLUSHED: Final = 4
_FIRST_OPERATIONS: Final = 6
_SOON_STEPS: Final = 8


def has_short_lives(seed: int) -> bool:
    """True if in a seed's run starts after clean shutdowns are cut short, and the power is lost soon after the next (REC-1)."""
    return stream("short lives", seed).random() < _SHORT_LIVES_SHARE


def loses_fronts(seed: int) -> bool:
    """True if in a seed's run the power is lost, twice in succession, when the log start is ahead of what was flushed (REC-7)."""
    return stream("lost fronts", seed).random() < _LOST_FRONTS_SHARE


class UnfinishedCut(NamedTuple):
    """A cut in the midst of which a process died: the end of the log by it, and the batches of before."""

    end_offset: int
    before: list[KeptBatch]


class LogRun:
    """The world of one run.

    Args:
        seed: of everything random.
        keep: called with each line of the trace: a step, and the log before it.
    """

    def __init__(self, seed: int, keep: Callable[[str], None] = lambda _line: None) -> None:
        self._keep_line = keep
        random = self.random = Random(seed)  # noqa: S311 -- a replay by seed is what this is for
        self.disk = SimulatedDisk(Random(random.random()))  # noqa: S311 -- see above
        self.kept: list[KeptBatch] = []
        """The batches that the log should hold, with those that retention took from its front."""
        self.settings = TopicSettings(
            segment_bytes=random.choice((1_500, 6_000, 1_000_000)),
            index_interval_bytes=random.choice((0, 500, 4_096)),
            retention_bytes=random.choice((-1, 4_000)),
            file_delete_delay_ms=0,
        )
        self._kills = random.random() < 0.7
        self._start_random = stream("log starts", seed)
        self._moves_start = self._start_random.random() < _MOVING_START_SHARE
        self._rot_random = Random(f"rot {seed}")  # noqa: S311 -- see above; of its own, so that all else stays as it is without rot
        self._rots = self._rot_random.random() < _ROT_SHARE
        self._batch_random = stream("rotten batches", seed)
        self._stop_random = stream("clean shutdowns", seed)
        self._transaction_random = stream("transactions", seed)
        self._transacts = self._transaction_random.random() < _TRANSACTIONS_SHARE
        self._known_from = {0}
        """The offsets from which on the log may know its batches: see :class:`TransactionCheck`."""
        self._hole_random = stream("holes", seed)
        self._time_random, self._search_random = stream("rotten times", seed), stream("rotten searches", seed)
        self._steps: list[Callable[[], None]] = [
            *[self._append] * 12,
            *[self._flush] * 3,
            *[self._commit] * 3,
            *random.sample(
                [
                    self._begin_epoch,
                    self._truncate,
                    self._start_anew,
                    self._delete,
                    self._checkpoint,
                    self._append_to_a_bad_disk,
                    self._fail_to_flush,
                    self._lose_power,
                    self._kill,
                    self._stop,
                ],
                7,
            ),
        ]
        self._short_random = stream("ends of short lives", seed)
        self._has_short_lives = has_short_lives(seed)
        if self._has_short_lives:
            self._steps += [self._stop] * 2
        self._front_random = stream("fronts", seed)
        if loses_fronts(seed):
            self.settings = replace(self.settings, segment_bytes=1)
            self._steps += [self._lose_front] * 3
        self._steps_left: int | None = None
        """Until the power is lost because a start was cut short; None if none was."""
        self._epoch = 0
        self._sequences, self._producer_epochs = [0] * _PRODUCERS, [0] * _PRODUCERS
        self._directory = LogDirectory.open_blocking(self.disk, _PATH)
        self.log = self._directory.create_log_blocking(PARTITION, _TOPIC_ID, self.settings)
        self._in_flight: KeptBatch | None = None
        """A batch whose append has not returned."""
        self._cut_end: int | None = None
        """The end of the log by a truncation that has not returned, or :data:`_ANEW`."""
        self._unfinished_cuts: list[UnfinishedCut] = []
        """The cuts that may be in the page cache only, also since other processes have ended: a power loss undoes them."""
        self._new_start = 0
        """The log start once a truncation has returned that lets the log start anew."""

    def run(self, steps: int = STEPS) -> None:
        """Do all of it.

        Raises:
            ViolationError: an invariant does not hold.
        """
        for _ in range(steps):
            if self._kills and self.random.random() < 0.1:
                self.disk.kill_after(self.random.randrange(30))
            try:
                step = self._next_step()
                self._keep_line(line_of_step(PARTITION, step, self.log))
                step()
                if self._transacts:
                    self._check_transactions().check_aborted(self._transaction_random)
            except ProcessKilledError:
                self._reopen(loses_power=self.random.random() < 0.5)
            check_log(self.log, self.kept)
            if self._transacts:
                self._check_transactions().check_state()
        self._lose_power()

    def _next_step(self) -> Callable[[], None]:
        left = self._steps_left
        if left is not None:
            self._steps_left = left - 1 if left else None
        return self.random.choice(self._steps) if left != 0 else self._lose_power

    def _check_transactions(self) -> TransactionCheck:
        if len(self._known_from) > 1:
            self._known_from.add(self.log.first_segment_offset)
        return TransactionCheck(self.log, self.kept, self._known_from)

    # --- what a node does ----------------------------------------------------------------------------------------------------------

    def _append(self) -> None:
        if self.log.is_offline:
            self._lose_power()
        number = self.random.randrange(-1, _PRODUCERS)
        payload = self.random.randbytes(self.random.choice((8, 200, 1_200)))
        records = self._start_random.choice((1, 2, 5)) if self._moves_start else 1
        data = bytearray(self._make_batch(payload, number, records))
        header = BatchHeader(*stamp(data, read_header(data), self.log.log_end_offset, max(self._epoch, 1)))
        self._in_flight = KeptBatch(header, bytes(data))
        self.log.append(data, header, 0)
        self._take_in()

    def _make_batch(self, payload: bytes, producer_id: int, records: int) -> bytes:
        if producer_id < 0:
            return make_batch(payload, -1, -1, records)
        epoch, sequence = self._producer_epochs[producer_id], self._sequences[producer_id]
        if not self._transacts:
            return make_batch(payload, producer_id, sequence, records)
        random = self._transaction_random
        if random.random() < _MARKER_SHARE:
            return build_marker(
                producer_id,
                epoch + random.choice((0, 1)),
                is_commit=random.random() < 0.5,
                coordinator_epoch=random.randrange(9),
                timestamp_ms=-1,
            )
        # A producer with an open transaction writes nothing else (TXN-11).
        is_transactional = self.log.producers.has_open_transaction(producer_id, epoch) or random.random() < 0.7
        return make_batch(payload, producer_id, sequence, records, epoch=epoch, is_transactional=is_transactional)

    def _take_in(self) -> None:
        """The batch in flight is there."""
        batch = self._in_flight
        assert batch is not None, "something was appended"
        self.kept.append(batch)
        self._in_flight = None
        self._count(batch.header)

    def _count(self, header: BatchHeader) -> None:
        """The producer of a batch that is there goes on behind it."""
        producer_id = header.producer_id
        if producer_id < 0:
            return
        if header.producer_epoch != self._producer_epochs[producer_id]:
            self._producer_epochs[producer_id] = header.producer_epoch
            self._sequences[producer_id] = 0
        if not header.is_control:
            self._sequences[producer_id] = header.last_sequence + 1

    def _flush(self) -> None:
        """Flush, while other things go on; what was there before is on the device then (SYNC-4)."""
        end_offset = self.log.log_end_offset
        flushing = self.log.flush()
        try:
            while True:
                flushing.send(None)
                if self._moves_start and self._start_random.random() < 0.1:
                    self.log.delete_old_segments_blocking(0)
                chance = self.random.random()
                if chance < 0.3:
                    self._append()
                elif chance < 0.33:
                    self._lose_power()
                    return
                elif chance < 0.4:
                    self._begin_epoch()
        except StopIteration as stop:
            if not self.log.is_offline and (not stop.value or self.log.recovery_point < end_offset):
                raise ViolationError(
                    "INV-DISK-ORDER",
                    str(PARTITION),
                    f"a flush of all up to {end_offset} has ended at {self.log.recovery_point}, and nothing hindered it",
                ) from None
        finally:
            flushing.close()

    def _commit(self) -> None:
        log = self.log
        log.high_watermark = self.random.choice([log.log_end_offset, *self._ends_from(log.high_watermark)])
        if self.random.random() < 0.2:
            ends = [end for end in self._ends_from(log.log_start_offset) if end <= log.high_watermark]
            log.raise_log_start(self.random.choice([log.log_start_offset, *ends]))
        if self._moves_start and self._start_random.random() < 0.2:
            log.raise_log_start(self._start_random.randint(log.log_start_offset, log.high_watermark))

    def _ends_from(self, offset: int) -> list[int]:
        """The ends of batches, from an offset on."""
        return [batch.header.next_offset for batch in self.kept if offset <= batch.header.next_offset]

    def _begin_epoch(self) -> None:
        """This node leads; perhaps it did before, and appended nothing."""
        self._epoch = max(self._epoch, self.log.leader_epochs.latest or 0) + 1
        self.log.begin_epoch(self._epoch)

    def _truncate(self) -> None:
        log = self.log
        offset = self.random.choice([log.log_end_offset, *self._ends_from(log.high_watermark)])
        self._cut(offset, lambda: log.truncate_to(offset))

    def _start_anew(self) -> None:
        """The leader's log starts behind this one's end."""
        if self.random.random() < 0.3:
            offset = self._new_start = self.log.log_end_offset + 5
            self._cut(_ANEW, lambda: self.log.truncate_fully_and_start_at(offset))
            if self._moves_start and self._start_random.random() < 0.5:
                self._begin_within_a_batch(offset)
            self._new_start = 0

    def _begin_within_a_batch(self, offset: int) -> None:
        """The leader's log starts within a batch, which is what this one, empty, gets first (TRUNC-5)."""
        data = bytearray(make_batch(self._start_random.randbytes(200), -1, -1, records=5))
        epoch = max(self._epoch, 1)
        first = offset - self._start_random.randint(1, 4)
        self._in_flight = KeptBatch(BatchHeader(*stamp(data, read_header(data), first, epoch)), bytes(data))
        self._cut_end = _ANEW
        append_fetched(self.log, data, epoch, 0)
        self._cut_end = None
        self._take_in()
        if (self.log.log_start_offset, self.log.high_watermark) != (offset, offset):
            raise ViolationError(
                "INV-ORDER", str(PARTITION), f"log start or high watermark are not at {offset} any more"
            )

    def _cut(self, offset: int, cut: Callable[[], None]) -> None:
        self._cut_end = offset
        cut()
        self._cut_end = None
        self._keep(offset if offset == _ANEW else self.log.log_end_offset)

    def _keep(self, end_offset: int) -> None:
        """The batches behind ``end_offset`` are no more; producers go on from what is left."""
        self.kept = [batch for batch in self.kept if batch.header.next_offset <= end_offset]
        self._sequences = [0] * _PRODUCERS
        self._producer_epochs = [0] * _PRODUCERS
        for batch in self.kept:
            self._count(batch.header)

    def _delete(self) -> None:
        self.log.delete_old_segments_blocking(0)
        self._directory.purge(1)

    def _checkpoint(self) -> None:
        self._directory.write_checkpoints_blocking()

    # --- what happens to it --------------------------------------------------------------------------------------------------------

    def _append_to_a_bad_disk(self) -> None:
        """A write fails, at times its undoing as well, or there is no room."""
        if self.random.random() < 0.5:
            self.disk.fill_up(self.random.randrange(1_000))
        else:
            self.disk.fail("write", "*.log", error=errno.EIO, times=self.random.choice((1, 1, 2)))
        try:
            self._append()
        except ApiError:
            if self.log.is_offline:
                self.disk.heal()
                self._kill()  # what the failed write left may be a whole batch
            self._in_flight = None
        self.disk.heal()

    def _fail_to_flush(self) -> None:
        """A sync fails: the device has lost pages, and will not say so again (SYNC-1). The node ends; so does the machine."""
        self.disk.fail("sync", self.random.choice(("*.log", "*")), after=self.random.randrange(3))
        try:
            self._flush()
        except ApiError:  # no other segment can be made; the next flush must fail
            self.disk.heal()
            with suppress(OSError, ProcessKilledError):
                self.log.flush_blocking()
                raise ViolationError(
                    "INV-DISK-ORDER", str(PARTITION), "a flush succeeds after a sync that failed"
                ) from None
            self._lose_power()
        except (OSError, ProcessKilledError):  # or it dies before it can notify a caller
            self.disk.heal()
            self._lose_power()
        self.disk.heal()

    def _lose_power(self) -> None:
        self._reopen(loses_power=True)

    def _lose_front(self) -> None:
        """Records that are not flushed are committed and deleted; only the log start is on the device when the power is lost, twice."""
        for _ in range(_UNFLUSHED):
            self._append()
        log = self.log
        log.high_watermark = log.log_end_offset
        log.raise_log_start(
            self._front_random.randint(max(log.log_start_offset, log.recovery_point), log.log_end_offset)
        )
        self._directory.write_log_starts_blocking()
        for _ in range(2):
            self._lose_power()

    def _kill(self) -> None:
        self._reopen(loses_power=False)

    def _stop(self) -> None:
        """A clean shutdown: everything must be there after it."""
        is_sound = not self.log.is_offline
        self.disk.syncs_as_whole = self._stop_random.choice((1.0, inf))
        joint = self._directory.joint_settling(self._directory.begin_to_close_blocking())
        while joint.logs:
            joint.go_on_blocking(joint.logs)
            joint.sync_blocking()
        self._directory.close_blocking(BrokerEpoch(7))
        loses_power = self.random.random() < 0.5
        if self._has_short_lives:
            self._cut_a_start_short()
            self._reopen(loses_power=False)
        else:
            self._reopen(loses_power=loses_power, is_clean=is_sound)

    def _reopen(self, *, loses_power: bool, is_clean: bool = False) -> None:
        """End the process, and see what the next one finds. It may die itself before it has found all."""
        least_end = self.log.recovery_point if loses_power and not is_clean else self.log.log_end_offset
        if self._cut_end is not None:
            least_end = min(least_end, self._cut_end)
        producers = self.log.producers
        # A power loss may have taken the snapshot with which the first segment begins: it is not written again.
        snapshots = snapshot_offsets(self.disk, self.log.path)
        most_start = max(self.log.log_start_offset, self._new_start)
        allowed = [*self.kept, self._in_flight] if self._in_flight is not None else self.kept
        # The others were flushed since.
        self._unfinished_cuts = [cut for cut in self._unfinished_cuts if cut.end_offset >= self.log.recovery_point]
        self.disk.heal()
        self._keep_line(line_of_ending(PARTITION, self.log, loses_power=loses_power))
        if loses_power:
            self.disk.power_loss()
        else:
            self.disk.crash()
        if self._rots and self._rot_random.random() < _ROT_SHARE:
            self._rot(loses_power=loses_power)
        while self._kills and self.random.random() < 0.2:
            self.disk.kill_after(self.random.randrange(12))
            is_clean = False
            with suppress(ProcessKilledError):
                self._open()
            if self.random.random() < 0.5 and not self._has_rotten_start():
                self.disk.power_loss()
                loses_power = True
                least_end = min(least_end, self.log.recovery_point)
            else:
                self.disk.crash()
        self._open()
        if is_clean and not self._directory.was_clean:
            raise ViolationError("INV-RECOVER-PREFIX", str(PARTITION), "the marker of an orderly stop is gone")
        allowed = self._check_recovered(allowed, least_end, most_start, loses_power=loses_power)
        if not (loses_power or self._rots) and self._cut_end is None and self.log.first_segment_offset in snapshots:
            check_producers_known(self.log, producers)
        knows_all = self._cut_end is None and self.log.first_segment_offset in (0, *snapshots)
        if loses_power or self._rots or not knows_all:
            self._known_from.add(self.log.first_segment_offset)
        if loses_power:
            self._unfinished_cuts = []  # what came back is on the device
        if self._cut_end is not None and self._cut_end != _ANEW:
            self._unfinished_cuts.append(UnfinishedCut(self._cut_end, self.kept))
        if self._rots:
            check_reads(self.log, allowed, self._rot_random)
        self._in_flight = self._cut_end = None
        self._new_start = 0
        self.kept = list(allowed)
        self._keep(self.log.log_end_offset)
        epochs = [batch.header.leader_epoch for batch in self.kept]
        self._epoch = max([self.log.leader_epochs.latest or 0, *epochs])
        if self._rots and self._batch_random.random() < _ROT_SHARE:
            self._open_with_a_rotten_batch()
        self._look_at_copies()

    def _check_recovered(
        self, allowed: list[KeptBatch], least_end: int, most_start: int, *, loses_power: bool
    ) -> list[KeptBatch]:
        """Check what came back; return the batches of which it is a prefix: those that may be there, or that an unfinished cut took."""
        try:
            check_recovered(self.log, allowed, least_end, most_start)
        except ViolationError:
            for cut in self._unfinished_cuts if loses_power else ():
                with suppress(ViolationError):
                    check_recovered(self.log, cut.before, least_end, most_start)
                    note(Excuse.RESTORED_CUTS)
                    return cut.before
            raise
        return allowed

    def _cut_a_start_short(self) -> None:
        """A process dies as it starts, and what it did last is in the page cache only; the machine ends soon, if it does not before."""
        self.disk.heal()
        self.disk.crash()
        self.disk.kill_after(self._short_random.randrange(_FIRST_OPERATIONS))
        with suppress(ProcessKilledError):
            self._open()
        self.disk.crash()
        self._steps_left = self._short_random.randint(1, _SOON_STEPS)

    def _look_at_copies(self) -> None:
        """See what a start would make of another disk."""
        if not self._rots and self._hole_random.random() < _HOLE_SHARE:
            self._open_with_a_hole()
        if self._rots and self._time_random.random() < _TIMES_SHARE:
            self._retain_with_a_rotten_time()
        if self._rots and self._search_random.random() < _SEARCHES_SHARE:
            search_with_rot(self._search_random, PARTITION, _TOPIC_ID)

    def _open_with_a_hole(self) -> None:
        """A segment in the midst of what was flushed has vanished, on a copy of the disk: the log is broken there, not shorter (REC-11)."""
        log = self.log
        inner = list(log.files.segments)[1:-1]
        candidates = [segment for segment in inner if segment.size and segment.next_base_offset < log.recovery_point]
        if not candidates:
            return
        gone = self._hole_random.choice(candidates).files()
        self._directory.write_checkpoints_blocking()
        copy = SimulatedDisk(self._hole_random)
        copy.install(make_tree(take_image(self.disk, _PATH, lambda path: path not in gone)))
        try:
            LogDirectory.open_blocking(copy, _PATH).load_log_blocking(PARTITION, self.settings, 0)
        except CorruptionError:
            return
        raise ViolationError("INV-ORDER", str(PARTITION), f"is opened without {gone[0]}, which was flushed (REC-11)")

    def _retain_with_a_rotten_time(self) -> None:
        """A bit has flipped in a time index of a log of young records, on a copy of the disk: retention takes none for old (REC-4)."""
        copy = SimulatedDisk(self._time_random)
        directory = LogDirectory.open_blocking(copy, _PATH)
        settings = TopicSettings(segment_bytes=self._time_random.choice((200, 1_000)), retention_ms=_YOUNG_MS)
        log = directory.create_log_blocking(PARTITION, _TOPIC_ID, settings)
        log.begin_epoch(1)
        for number in range(_TIMED_BATCHES):
            batch = bytearray(
                build_batch(
                    [NewRecord(bytes(50))],
                    base_offset=number,
                    leader_epoch=1,
                    timestamp_ms=_TIMED_MS + self._time_random.randrange(_YOUNG_MS),
                )
            )
            log.append(batch, read_header(batch), 0)
        log.high_watermark = log.log_end_offset
        directory.close_blocking(BrokerEpoch(1))
        indexes = [segment.path(TIME_INDEX_SUFFIX) for segment in log.files.segments]
        path = self._time_random.choice(indexes)
        size = copy.stat(path).size
        copy.corrupt(path, self._time_random.randrange(size), 1 << self._time_random.randrange(8))
        log = LogDirectory.open_blocking(copy, _PATH).load_log_blocking(PARTITION, settings, 0)
        dropped = log.delete_old_segments_blocking(_TIMED_MS + _YOUNG_MS)
        if dropped:
            raise ViolationError(
                "INV-RETENTION",
                str(PARTITION),
                f"retention takes {dropped} segments of young records by the word of {path}",
            )

    def _open_with_a_rotten_batch(self) -> None:
        """Bits flip in what a flushed batch says of its producer, for one life that only looks: it believes none of it (REC-4, PROD-7)."""
        log = self.log
        flushed = [
            (segment.path(LOG_SUFFIX), position)
            for segment in log.files.segments
            for position, header in iterate_headers_blocking(segment.file, 0, segment.size)
            if header.next_offset <= log.recovery_point
        ]
        if not flushed:
            return
        path, position = self._batch_random.choice(flushed)
        offset, mask = position + self._batch_random.choice(_OF_PRODUCERS), 1 << self._batch_random.randrange(8)
        self._directory.write_checkpoints_blocking()  # else what a clean shutdown has flushed is recovered, and cut there
        self.disk.crash()
        self.disk.corrupt(path, offset, mask)
        with suppress(CorruptionError):  # it is the last one, of which the log end is read
            self._open()
            check_producers_wrote(self.log, self.kept)
        self.disk.crash()
        self.disk.corrupt(path, offset, mask)
        self._open()

    def _rot(self, *, loses_power: bool) -> None:
        """Bits flip in files that say nothing that the records do not say: nothing may come of it (REC-4, REC-6, LOG-10).

        But for where the log begins: without that, a part comes back of what retention had removed when the power was lost.
        """
        targets = [
            target
            for target in find_targets(self.disk)
            if target.kind is RotKind.DERIVED and not (loses_power and target.path.endswith(LOG_START_FILE))
        ]
        for target in self._rot_random.sample(targets, min(len(targets), _ROTTEN_MAX)):
            rot_somewhere(target, self._rot_random, limit=None, is_active=False)

    def _has_rotten_start(self) -> bool:
        """True if nothing says where the log begins: a power loss that brings the front back then takes all behind it (:meth:`_rot`)."""
        content = self.disk.content(f"{_PATH}/{LOG_START_FILE}")
        return content is not None and bool(content.rotten)

    def _open(self) -> None:
        self._directory = LogDirectory.open_blocking(self.disk, _PATH)
        if self._directory.replicas.get(PARTITION) is not None:
            self.log = self._directory.load_log_blocking(PARTITION, self.settings, 0)
        else:  # a power loss came before its first flush
            self.log = self._directory.create_log_blocking(PARTITION, _TOPIC_ID, self.settings)
        self._directory.end_loading()
