"""Random histories of one log on a disk that forgets, against a list of batches."""

import itertools
from dataclasses import replace
from random import Random
from types import coroutine
from typing import Any

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from esp.records.batch import iterate_records
from esp.records.batch_header import read_header
from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_faults import ProcessKilledError
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory
from esp.storage.steps import read_blocking
from tests.models.naive_log import NaiveBatch, NaiveLog
from tests.unit.storage.helpers import CPU, DATA, PARTITION, TOPIC_ID, headers, make_batch, run


@coroutine
def _pause() -> Any:
    yield


class LogHistory(RuleBasedStateMachine):
    """What the log says after each step and each restart is what the list of batches says."""

    disk: SimulatedDisk
    directory: LogDirectory
    log: Log

    @initialize(
        seed=st.integers(0, 2**32),
        segment_bytes=st.sampled_from([300, 1000, 5000]),
        interval=st.sampled_from([0, 100, 4096]),
        index_bytes=st.sampled_from([24, 1 << 20]),
    )
    def start(self, seed: int, segment_bytes: int, interval: int, index_bytes: int) -> None:
        self.is_slow = False
        self.has_lost = False  # a loss of power is found again until high watermarks are written anew
        self.disk = SimulatedDisk(Random(seed), wait=self._wait)
        self.settings = TopicSettings(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            segment_index_bytes=index_bytes,
            segment_ms=10_000,
            segment_jitter_ms=100,
            retention_ms=-1,
        )
        self.model = NaiveLog()
        self.now_ms = 100_000
        self.epoch = 0
        self.sequences: dict[int, tuple[int, int]] = {}
        self.flush: Any = None
        self.directory = LogDirectory.open_blocking(self.disk, DATA)
        self.log = self.directory.create_log_blocking(PARTITION, TOPIC_ID, self.settings)
        self.log.begin_epoch(0)

    async def _wait(self, _operation: str, _size: int) -> None:
        if self.is_slow:
            await _pause()

    # --- what a node does ----------------------------------------------------------------------------------------------------------

    @rule(
        records=st.integers(1, 4),
        size=st.sampled_from([0, 5, 50, 200]),
        timestamp=st.integers(-1, 30_000),
        producer=st.sampled_from([-1, -1, 7, 8]),
        hole=st.sampled_from([0, 0, 0, 0, 3]),
        codec=st.sampled_from([0, 0, 4]),
    )
    def append(self, records: int, size: int, timestamp: int, producer: int, hole: int, codec: int) -> None:
        epoch, sequence = self.sequences.get(producer, (0, 0)) if producer >= 0 else (-1, -1)
        data = make_batch(
            self.log.log_end_offset + hole,
            records=records,
            size=size,
            epoch=self.epoch,
            timestamp=timestamp,
            step=1 if timestamp >= 0 else 0,
            producer=(producer, epoch, sequence),
            codec=codec,
        )
        header = read_header(data)
        if producer >= 0:
            assert self.log.producers.check(header) is None
        longer = NaiveLog([*self.model.batches, NaiveBatch.of(data)], self.model.start, header.next_offset)
        if self._do(lambda: self.log.append(data, header, self.now_ms), at_most=longer):
            self.model = longer
            if producer >= 0:
                self.sequences[producer] = epoch, sequence + records

    @rule(producer=st.sampled_from([7, 8]))
    def retry_the_last_batch(self, producer: int) -> None:
        known = self.model.producers().get(producer)
        state = self.log.producers.get(producer)
        if known is not None and state is not None and state.batches:
            first, last, base_offset, _ = known[1][-1]
            data = make_batch(0, records=last - first + 1, producer=(producer, known[0], first))
            assert self.log.producers.check(read_header(data)) == base_offset

    @rule(producer=st.sampled_from([7, 8]))
    def bump_producer_epoch(self, producer: int) -> None:
        self.sequences[producer] = self.sequences.get(producer, (0, 0))[0] + 1, 0

    @rule()
    def begin_epoch(self) -> None:
        self._finish_flush()
        self.epoch += 1
        self._do(lambda: self.log.begin_epoch(self.epoch))

    @rule()
    def flush_now(self) -> None:
        self._finish_flush()
        if self._do(self.log.flush_blocking):
            assert self.log.recovery_point == self.log.log_end_offset
            assert self.log.unflushed_bytes == 0

    @precondition(lambda self: self.flush is None)
    @rule()
    def begin_flush(self) -> None:
        self.flush = self.log.flush()

    @precondition(lambda self: self.flush is not None)
    @rule()
    def go_on_with_flush(self) -> None:
        self._do(self._step_flush)

    @rule()
    def roll(self) -> None:
        self._do(lambda: self.log.roll(self.now_ms))

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        target = max(self.log.log_start_offset, self.log.log_end_offset - back)
        shorter = NaiveLog(list(self.model.batches), self.model.start, self.model.end)
        shorter.truncate_to(target)
        shorter.end = shorter.batches[-1].header.next_offset if shorter.batches else 0
        self.epoch += 1
        if self._do(lambda: self.log.truncate_to(target), at_least=shorter.end):
            self.model = shorter
            if self._ends_at_segment_base():
                assert self.model.end <= self.log.log_end_offset <= target
                self.model.end = self.log.log_end_offset
            self._forget_sequences()

    @rule(ahead=st.integers(-20, 20))
    def start_anew(self, ahead: int) -> None:
        target = max(0, self.log.log_end_offset + ahead)
        self.epoch += 1
        before = self.model
        self.model = NaiveLog([], target, target)
        self.sequences = {}
        try:
            self.log.truncate_fully_and_start_at(target)
        except ProcessKilledError:
            self.disk.crash()
            self._open_directory()
            self._adopt_slice(before)

    @rule()
    def advance_high_watermark(self) -> None:
        self.log.high_watermark = self.log.log_end_offset

    @rule(part=st.floats(0, 1))
    def raise_log_start(self, part: float) -> None:
        span = self.log.high_watermark - self.log.log_start_offset
        self.log.raise_log_start(self.log.log_start_offset + int(span * part))
        self.model.start = self.log.log_start_offset

    @rule(retention_bytes=st.sampled_from([-1, 0, 500, 2000]), retention_ms=st.sampled_from([-1, 0, 85_000]))
    def retention(self, retention_bytes: int, retention_ms: int) -> None:
        old = self.log.settings
        self.log.settings = replace(old, retention_bytes=retention_bytes, retention_ms=retention_ms)
        before = self.log.high_watermark
        if self._do(lambda: self.log.delete_old_segments_blocking(self.now_ms)):
            assert self.log.log_start_offset <= before
            self.log.settings = old
            self.model.start = self.log.log_start_offset

    @rule()
    def write_checkpoints(self) -> None:
        if self._do(self.directory.write_checkpoints_blocking):
            self.has_lost = False

    @rule()
    def purge(self) -> None:
        self.now_ms += 100_000
        self._do(lambda: self.directory.purge(self.now_ms))
        self.now_ms -= 100_000

    @rule()
    def make_cold(self) -> None:
        for name in self.disk.listdir(self.log.path):
            self.disk.make_cold(f"{self.log.path}/{name}")

    # --- how it ends ---------------------------------------------------------------------------------------------------------------

    @rule()
    def stop_in_order(self) -> None:
        self._finish_flush()
        is_untouched = self.log.files.unsynced.is_untouched
        if self._do(lambda: self.directory.close_blocking(5)):
            for name in self.disk.listdir(self.log.path):
                is_needless = is_untouched and not self.log.log_end_offset  # nothing was in it
                if not is_needless and not name.endswith((".deleted", ".tmp")):
                    assert not self.disk.unsynced_bytes(f"{self.log.path}/{name}"), name
            self._open()
            assert self.directory.was_clean or self.starts > 1
            assert self.starts > 1 or self.directory.clean_broker_epoch == 5

    @rule()
    def kill(self) -> None:
        self.disk.crash()
        self._open()
        if not self.has_lost:
            assert self.log.is_whole, "the end of a process takes nothing that was written (BRK-3)"

    @rule()
    def lose_power(self) -> None:
        self._reopen_after_power_loss(self.log.recovery_point, self.model)

    @rule(changes=st.integers(0, 30))
    def die_soon(self, changes: int) -> None:
        self.disk.kill_after(changes)

    def _do(self, step: Any, *, at_most: NaiveLog | None = None, at_least: int | None = None) -> bool:
        """Run a step; if the process is killed in it, restart, and take over what the log says, within the limits."""
        leo = self.log.log_end_offset if at_least is None else at_least
        recovery_point = min(leo, self.log.recovery_point)
        try:
            step()
        except ProcessKilledError:
            longest = at_most or self.model
            if self.disk.rng.random() < 0.5:
                self._reopen_after_power_loss(recovery_point, longest)
            else:
                self.disk.crash()
                self._adopt(leo, longest)
            return False
        return True

    def _reopen_after_power_loss(self, at_least: int, at_most: NaiveLog) -> None:
        self.disk.power_loss()
        self._adopt(at_least, at_most)
        self.has_lost |= not self.log.is_whole

    def _adopt(self, at_least: int, at_most: NaiveLog) -> None:
        """Open the log again: it must be a part of ``at_most`` from its beginning on, and reach to ``at_least``."""
        self.model = at_most
        self._open_directory()
        assert self.log.log_end_offset >= min(at_least, at_most.end), "flushed or cached batches are gone"
        kept = [batch for batch in at_most.batches if batch.header.base_offset < self.log.log_end_offset]
        end = kept[-1].header.next_offset if kept else 0
        self.model = NaiveLog(kept, self.log.log_start_offset, max(end, self.log.log_start_offset))
        self.model.end = max(self.model.end, self.log.log_end_offset if self._ends_at_segment_base() else 0)
        assert self.model.end == self.log.log_end_offset
        self._forget_sequences()

    def _adopt_slice(self, before: NaiveLog) -> None:
        """Killed while everything was dropped: some segments may be gone."""
        start, end = self.log.first_segment_offset, self.log.log_end_offset
        kept = [b for b in before.batches if start <= b.header.base_offset and b.header.next_offset <= end]
        self.model = NaiveLog(kept, self.log.log_start_offset, end)
        self._forget_sequences()

    def _open(self) -> None:
        """Open the log again after a stop that lost nothing."""
        self._adopt(self.model.end, self.model)

    def _open_directory(self) -> None:
        """Start again, as often as it takes."""
        if self.flush is not None:
            self.flush.close()
            self.flush = None
        self.starts = 0
        while True:
            self.starts += 1
            try:
                self.directory = LogDirectory.open_blocking(self.disk, DATA)
                if self.directory.replicas.get(PARTITION) is None:  # the creation itself was lost
                    self.log = self.directory.create_log_blocking(PARTITION, TOPIC_ID, self.settings)
                else:
                    self.log = self.directory.load_log_blocking(PARTITION, self.settings, 0)
                self.epoch += 1
                self.log.begin_epoch(self.epoch)
                return
            except ProcessKilledError:
                self.disk.crash()

    def _ends_at_segment_base(self) -> bool:
        return self.log.files.segments.active.size == 0

    def _forget_sequences(self) -> None:
        """Producers go on where the log says that they are."""
        self.sequences = {
            producer: (state.epoch, state.last_sequence + 1) for producer, state in self.log.producers.items()
        }

    def _step_flush(self) -> None:
        self.is_slow = True
        try:
            self.flush.send(None)
        except StopIteration:
            self.flush = None
        finally:
            self.is_slow = False

    def _finish_flush(self) -> None:
        while self.flush is not None:
            self._do(self._step_flush)

    def teardown(self) -> None:
        if getattr(self, "flush", None) is not None:
            self.flush.close()

    # --- what must hold ------------------------------------------------------------------------------------------------------------

    @invariant()
    def offsets_are_in_order(self) -> None:
        log = self.log
        assert log.first_segment_offset <= log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert log.recovery_point <= log.log_end_offset
        assert log.log_end_offset == self.model.end
        assert log.log_start_offset == self.model.start

    @invariant()
    def epochs_are_those_of_the_batches(self) -> None:
        entries = self.log.leader_epochs.entries()
        assert entries == sorted(set(entries))
        assert all(a[1] < b[1] for a, b in itertools.pairwise(entries))
        assert not entries or entries[-1][1] <= self.log.log_end_offset
        for batch in self.model.from_offset(self.log.log_start_offset):
            offset = max(batch.header.base_offset, self.log.log_start_offset)
            assert self.log.leader_epochs.epoch_of(offset) == batch.header.leader_epoch

    @invariant()
    def producers_are_a_fold_of_the_batches(self) -> None:
        wanted = self.model.producers()
        for producer, (epoch, batches) in wanted.items():
            state = self.log.producers.get(producer)
            if state is None or not state.batches:
                assert batches[-1][3] < self.log.log_start_offset or batches[-1][2] < self.log.first_segment_offset
                continue
            assert state.epoch == epoch
            assert [tuple(batch) for batch in state.batches] == batches[-len(state.batches) :], (state.batches, batches)
        assert {producer for producer, _ in self.log.producers.items()} <= wanted.keys()

    @invariant()
    def index_entries_name_batches(self) -> None:
        for segment in self.log.files.segments:
            indexes = read_blocking(segment.load_indexes())
            if segment is not self.log.files.segments.active:
                segment.indexes = segment.indexes if indexes.unsaved else None
            data = segment.file.read_blocking(0, segment.size)
            found = headers(data)
            places = {sum(h.size for h in found[:number]): header for number, header in enumerate(found)}
            last = (-1, 0)
            for number in range(len(indexes.offsets)):
                entry = indexes.offsets.entry(number)
                assert entry[0] > last[0]
                assert entry[1] > last[1]
                assert places[entry[1]].last_offset == entry[0]
                last = entry
            for timestamp, offset in zip(indexes.times._timestamps, indexes.times._offsets, strict=True):
                offset += segment.base_offset
                assert timestamp == max(h.max_timestamp for h in found if h.last_offset <= offset)
            if found:
                assert segment.max_timestamp == max(h.max_timestamp for h in found)

    @rule(
        offset=st.floats(0, 1),
        max_bytes=st.sampled_from([1, 100, 150, 400, 2000, 1 << 20]),
        to_high_watermark=st.booleans(),
        at_least_one=st.booleans(),
        more=st.integers(1, 3),
    )
    def read(self, offset: float, max_bytes: int, to_high_watermark: bool, at_least_one: bool, more: int) -> None:
        log = self.log
        position = log.log_start_offset + int(offset * (log.log_end_offset - log.log_start_offset))
        for _ in range(more):
            end = log.high_watermark if to_high_watermark else log.log_end_offset
            data = log.read(position, max_bytes, end, at_least_one=at_least_one)
            if data is None:
                data = run(log.read_cold(position, max_bytes, end, at_least_one=at_least_one))
            wanted = [b for b in self.model.from_offset(position) if b.header.base_offset < end]
            if not data:
                assert not wanted or (not at_least_one and len(wanted[0].data) > max_bytes) or position >= end
                return
            got = headers(data)
            assert bytes(data) == b"".join(batch.data for batch in wanted[: len(got)])
            assert len(data) <= max_bytes or (at_least_one and len(got) == 1)
            if len(got) < len(wanted):
                following = wanted[len(got)]
                bases = {segment.base_offset for segment in log.files.segments}
                crosses = any(got[-1].last_offset < base <= following.header.base_offset for base in bases)
                assert crosses or len(data) + len(following.data) > max_bytes
            position = got[-1].next_offset

    @rule(timestamp=st.integers(-1, 31_000))
    def find_timestamp(self, timestamp: int) -> None:
        found = run(self.log.find_offset_by_timestamp(timestamp, CPU))
        assert found == self.model.find_timestamp(timestamp, self.log.high_watermark)

    @rule()
    def find_max_timestamp(self) -> None:
        found = run(self.log.find_max_timestamp(CPU))
        there = [
            record.timestamp
            for batch in self.model.from_offset(self.log.log_start_offset)
            for record in iterate_records(batch.data)
            if record.offset >= self.log.log_start_offset
        ]
        if found is not None and found.timestamp >= 0:
            assert found.timestamp == max(there)


LogHistory.TestCase.settings = hypothesis_settings(max_examples=60, stateful_step_count=50, deadline=None)
TestLogHistory = LogHistory.TestCase
