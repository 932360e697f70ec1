"""A compacted log of transactions under faults, by seed: the third part of a run of the log tier.

What :mod:`~esp.simulation.log_tier.compacted` does to a log of keyed records, done to one whose producers write transactions, with
sequences that begin again at 0 now and then, and producers that are forgotten when they are idle. The same model of all batches says which
records count; a log that is copied from the compacted one, and a reader of committed records, must agree with it.
"""

from collections.abc import Callable, Collection
from random import Random
from typing import ClassVar, Final

from esp.model.errors import ApiError
from esp.model.ids import TopicPartition
from esp.records.batch import iterate_records
from esp.records.batch_header import BatchHeader, read_fields, read_header, stamp
from esp.records.builder import Record, build_batch
from esp.records.transaction_marker import build_marker, find_marker
from esp.replication.partition_follower import append_fetched
from esp.simulation.excuses import Excuse, note
from esp.simulation.log_tier.checks import read_whole
from esp.simulation.log_tier.compacted import DELETE_RETENTION_MS as STAYS_MS
from esp.simulation.log_tier.compacted import PRODUCERS, SEQUENCES, TOPIC_ID, AppendedBatch, CompactedLogRun
from esp.simulation.log_tier.transactions import Transaction, list_transactions
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.partition_tier.memory_log import KeptBatch
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory

COPY: Final = TopicPartition("copy", 0)

_MARKER_SHARE: Final = 0.35
"""The share of the appends of producers that end a transaction with a marker."""

_FIRST_SEQUENCES: Final = (0, 0, SEQUENCES - 4)
"""The first sequence of a producer that is not known: any is taken (PROD-2), and of the largest ones the last comes soon."""

_EXPIRING_SHARE: Final = 0.3
"""The share of the runs in which idle producers are forgotten."""

_EXPIRATION_MS: Final = 20_000
_COPY_SHARE: Final = 0.3
"""The share of the rounds after which the log is copied."""


class TransactedLogRun(CompactedLogRun):
    """The world of one run.

    Args:
        seed: of everything random.
        keep: called with each line of the trace.
    """

    purpose: ClassVar = "compacted logs of transactions"
    ends_aimed: ClassVar = False

    def __init__(self, seed: int, keep: Callable[[str], None] = lambda _line: None) -> None:
        super().__init__(seed, keep)
        random = self._random
        self._first_sequence = random.choice(_FIRST_SEQUENCES)
        self._expires = random.random() < _EXPIRING_SHARE
        self._sequences = [self._first_sequence] * PRODUCERS
        self._producer_epochs = [0] * PRODUCERS
        self._new = set(range(PRODUCERS))
        """The producers that have written nothing yet."""
        self._coordinator_epoch = 0
        self._committed_to = 0
        """The largest high watermark so far."""
        self._kept: list[KeptBatch] = []
        """All batches that were appended and not lost or cut, with their bytes."""
        self._known_from = {0}
        """The offsets from which on the log may know its batches: that of its first segment is among them when it was opened."""
        self._forgotten: set[int] = set()
        """The producers that were forgotten at any time: their last batches may be gone."""
        self._bare_ms: dict[int, int] = {}
        """By the offset of a marker the earliest time of a round that could find no record of its transaction."""

    def _choices(self) -> tuple[Callable[[], None], ...]:
        """The steps, each as often as it is likely."""
        return (*super()._choices(), *[self._forget_idle_producers] * self._expires)

    # --- what a node does ----------------------------------------------------------------------------------------------------------

    def _append(self) -> None:
        random, log = self._random, self._log
        producer = random.randrange(-1, PRODUCERS)
        if producer >= 0 and random.random() < _MARKER_SHARE:
            self._end_transaction(producer)
            return
        epoch = self._producer_epochs[producer] if producer >= 0 else -1
        if producer >= 0 and self._may_be_unknown(producer):  # any sequence is taken, or the one that is known
            note(Excuse.UNKNOWN_SEQUENCES)
            self._sequences[producer] = log.producers.next_sequence(producer, epoch)
        is_open = producer >= 0 and log.producers.has_open_transaction(producer, epoch)
        new = self._draw_records()
        data = build_batch(
            new,
            base_offset=log.log_end_offset,
            leader_epoch=self._epoch,
            codec=random.choice((0, 0, 4)),
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=self._sequences[producer] if producer >= 0 else -1,
            # A producer with an open transaction writes nothing else (TXN-11).
            transactional=producer >= 0 and (is_open or random.random() < 0.7),
        )
        if producer >= 0:
            self._ask_leader(producer, data)
        self._take(data)

    def _ask_leader(self, producer: int, data: bytes) -> None:
        """INV-SEQ: a leader takes the next batch of a producer, and knows that batch when it is sent again."""
        try:
            known = self._log.producers.check(read_fields(data))
        except ApiError as error:
            self._fail("INV-SEQ", f"the next batch of producer {producer} is refused: {error.code.name}")
        if known is not None:
            self._fail("INV-SEQ", f"the next batch of producer {producer} is taken for that at {known}")

    def _end_transaction(self, producer: int) -> None:
        """A marker, which may have the next epoch, and may be repeated."""
        random, log = self._random, self._log
        self._coordinator_epoch += random.random() < 0.1
        data = bytearray(
            build_marker(
                producer,
                self._producer_epochs[producer] + random.choice((0, 1)),
                is_commit=random.random() < 0.5,
                coordinator_epoch=self._coordinator_epoch,
                timestamp_ms=self._now_ms,
            )
        )
        stamp(data, read_fields(data), log.log_end_offset, self._epoch)
        self._take(bytes(data))

    def _take(self, data: bytes) -> None:
        header = read_header(data)
        self._log.append(data, header, self._now_ms)
        records = [] if header.is_control else list(iterate_records(data))
        self._batches.append(AppendedBatch(header, records))
        self._kept.append(KeptBatch(header, data))
        self._count(header)

    def _count(self, header: BatchHeader) -> None:
        """The producer of a batch goes on behind it."""
        producer = header.producer_id
        if producer < 0:
            return
        if producer in self._new:
            self._new.discard(producer)
            self._sequences[producer] = 0  # once there is a state, none is left out
        if header.producer_epoch != self._producer_epochs[producer]:
            self._producer_epochs[producer] = header.producer_epoch
            self._sequences[producer] = 0
        if not header.is_control:
            self._sequences[producer] = (header.last_sequence + 1) % SEQUENCES

    def _settle(self) -> None:
        """Flush and commit. Nothing counts here that was not flushed: another replica would have the decision that a power loss takes."""
        log = self._log
        if self._random.random() < 0.7:
            log.roll(self._now_ms)
        log.flush_blocking()
        log.high_watermark = self._random.choice([log.log_end_offset, *self._ends_from(log.high_watermark)])
        self._committed_to = max(self._committed_to, log.high_watermark)

    def _forget_idle_producers(self) -> None:
        """Time alone never makes a log forget a producer that has a transaction open, or whose marker is young (PROD-8)."""
        before = dict(self._log.producers.items())
        self._log.producers.expire(self._now_ms, _EXPIRATION_MS)
        for producer in before.keys() - dict(self._log.producers.items()).keys():
            last = next(batch.header for batch in reversed(self._kept) if batch.header.producer_id == producer)
            if self._now_ms - last.max_timestamp < _EXPIRATION_MS:
                self._fail("INV-SEQ", f"producer {producer} is forgotten, and wrote {last.base_offset} lately")
            self._forgotten.add(producer)

    def _raise_start_to(self, offset: int) -> None:
        super()._raise_start_to(offset)
        self._note_bare_markers()

    def _note_bare_markers(self) -> None:
        left = {header.base_offset for header in self._headers() if not header.is_control and header.record_count}
        for marker in self._ended():
            if not left.intersection(self._batches_of(marker)):
                offset = marker.last_offset or 0
                self._bare_ms[offset] = min(self._bare_ms.get(offset, self._now_ms), self._now_ms)

    def _clean(self) -> None:
        self._note_bare_markers()
        super()._clean()
        if self._random.random() < _COPY_SHARE:
            self._check_copy()

    # --- what happens to it --------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        super()._open()
        self._known_from.add(self._log.first_segment_offset)

    def _may_be_unknown(self, producer: int) -> bool:
        """True if the log may have forgotten the batches of a producer: by time, or because nothing is left but markers behind them, and no
        snapshot of before.
        """
        state = self._log.producers.get(producer)
        own = [header for header, _ in self._kept if header.producer_id == producer and not header.is_control]
        is_below = bool(own) and own[-1].base_offset < max(self._known_from)
        return producer in self._forgotten or (is_below and (state is None or not state.batches))

    def _least_end(self) -> int:
        """No truncation cuts records that were committed once: another replica has them."""
        return max(super()._least_end(), self._committed_to)

    def _keep_to(self, end_offset: int) -> None:
        super()._keep_to(end_offset)
        self._kept = [batch for batch in self._kept if batch.header.next_offset <= end_offset]
        self._sequences = [self._first_sequence] * PRODUCERS
        self._producer_epochs = [0] * PRODUCERS
        self._new = set(range(PRODUCERS))
        for batch in self._kept:
            self._count(batch.header)
        self._bare_ms = {offset: at for offset, at in self._bare_ms.items() if offset < end_offset}

    # --- what must hold ------------------------------------------------------------------------------------------------------------

    def _headers(self) -> list[BatchHeader]:
        return [read_header(data) for data in read_whole(self._log)]

    def _ended(self) -> list[Transaction]:
        """The transactions that have data and a marker."""
        return [each for each in list_transactions(self._kept) if each.last_offset is not None]

    def _batches_of(self, transaction: Transaction) -> set[int]:
        """The base offsets of its batches."""
        end = transaction.last_offset or self._log.log_end_offset
        return {
            header.base_offset
            for header, _data in self._kept
            if header.is_transactional
            and header.producer_id == transaction.producer_id
            and transaction.first_offset <= header.base_offset < end
        }

    def _void_offsets(self) -> Collection[int]:
        """The offsets of records that supersede nothing, as they were aborted."""
        aborted = [each for each in self._ended() if not each.is_commit]
        places = {offset for each in aborted for offset in self._batches_of(each)}
        return {
            record.offset for header, records in self._batches if header.base_offset in places for record in records
        }

    def _is_known(self, producer_id: int) -> bool:
        """True if the batches of a producer that its log knows must be there."""
        return producer_id not in self._forgotten

    def _check(self) -> None:
        super()._check()
        self._check_stable()
        self._check_markers()
        start = self._log.log_start_offset
        if start < self._log.last_stable_offset:
            self._check_readers(
                self._log, self._random.choice((start, self._random.randrange(start, self._log.last_stable_offset)))
            )

    def _check_stable(self) -> None:
        """INV-LSO: the first transaction that is open, or whose marker is not committed, holds the last stable offset (LSO-1).

        A process that ended may have cleaned beyond the high watermark with which the next one begins: of the records that are gone that
        one need not know.
        """
        log = self._log
        left = {header.base_offset for header in self._headers() if header.record_count}
        found = []
        for known_from in self._known_from:
            kept = [batch for batch in self._kept if batch.header.base_offset >= known_from]
            unstable = [
                each
                for each in list_transactions(kept)
                if each.last_offset is None or each.last_offset >= log.high_watermark
            ]
            least = [max(each.first_offset, log.log_start_offset) for each in unstable]
            most = [
                max(log.log_start_offset, min(left.intersection(self._batches_of(each)), default=log.high_watermark))
                for each in unstable
            ]
            found.append((min([log.high_watermark, *least]), min([log.high_watermark, *most])))
        if not any(least <= log.last_stable_offset <= most for least, most in found):
            self._fail("INV-LSO", f"the last stable offset is {log.last_stable_offset}, the batches say {found}")
        if all(log.last_stable_offset != least for least, _ in found):
            note(Excuse.CLEANED_BEGINS)

    def _check_markers(self) -> None:
        """INV-CLEAN-MARKER: a marker goes after the records of its transaction, in a later round, and when its time is over (CLEAN-3)."""
        headers = self._headers()
        markers = {header.base_offset for header in headers if header.is_control and header.record_count}
        data = {header.base_offset for header in headers if not header.is_control and header.record_count}
        for transaction in self._ended():
            marker = transaction.last_offset or 0
            if marker in markers or marker < self._log.log_start_offset:
                continue
            left = data.intersection(self._batches_of(transaction))
            if left:
                self._fail(
                    "INV-CLEAN-MARKER",
                    f"the marker at {marker} is gone, and records of its transaction are at {sorted(left)}",
                )
            if self._latest_round_ms < self._bare_ms.get(marker, self._now_ms) + STAYS_MS:
                self._fail("INV-CLEAN-MARKER", f"the marker at {marker} is gone too early")

    def _check_readers(self, log: Log, start_offset: int) -> None:
        """INV-ABORTED-LIST: a reader of committed records gets those that count, and no others (LSO-2)."""
        void = self._void_offsets()
        wanted = [
            record.offset
            for data in read_whole(log)
            if not read_header(data).is_control
            for record in iterate_records(data)
            if start_offset <= record.offset < log.last_stable_offset and record.offset not in void
        ]
        found = [record.offset for record in read_committed(log, start_offset)]
        if found != wanted:
            self._fail("INV-ABORTED-LIST", f"a reader from {start_offset} gets {found}, {wanted} count")

    def _check_copy(self) -> None:
        """INV-CLEAN-STATE: a replica that copies the log knows the producers, and has the same stable records (CLEAN-5)."""
        log = self._log
        directory = LogDirectory.open_blocking(SimulatedDisk(Random(0)), "/copy")  # noqa: S311 -- nothing befalls it
        copy = directory.create_log_blocking(COPY, TOPIC_ID, self._settings)
        if log.log_start_offset:
            copy.truncate_fully_and_start_at(log.log_start_offset)
        for data in read_whole(log):
            append_fetched(copy, bytearray(data), self._epoch, self._now_ms)
        copy.high_watermark = log.high_watermark
        if copy.log_end_offset != log.log_end_offset:
            self._fail("INV-CLEAN-STATE", f"a copy ends at {copy.log_end_offset}, the log at {log.log_end_offset}")
        last = {batch.header.producer_id: batch.header for batch in self._kept}
        for producer_id, state in log.producers.items():
            if producer_id in self._forgotten or last[producer_id].base_offset < log.log_start_offset:
                continue
            known = copy.producers.get(producer_id)
            if known is None or known.epoch != state.epoch:
                self._fail("INV-CLEAN-STATE", f"a copy does not know epoch {state.epoch} of producer {producer_id}")
            if state.last_offset >= log.log_start_offset and known.last_sequence != state.last_sequence:
                self._fail("INV-CLEAN-STATE", f"in a copy producer {producer_id} goes on behind {known.last_sequence}")
            is_older = 0 <= state.transaction_first_offset < log.log_start_offset
            if known.transaction_first_offset != state.transaction_first_offset and not is_older:
                self._fail(
                    "INV-CLEAN-STATE",
                    f"in a copy the transaction of {producer_id} is open from {known.transaction_first_offset}, "
                    f"in the log from {state.transaction_first_offset}",
                )
        if log.log_start_offset < copy.last_stable_offset:
            self._check_readers(copy, log.log_start_offset)


def read_committed(log: Log, start_offset: int = 0) -> list[Record]:
    """The records that a reader of committed records delivers from an offset on, by the list of aborted transactions."""
    stable = log.last_stable_offset
    waiting = sorted(log.aborted.find_blocking(start_offset, stable), key=lambda one: one.first_offset)
    skipped: set[int] = set()
    found: list[Record] = []
    for data in read_whole(log):
        header = read_header(data)
        if header.next_offset <= start_offset or header.base_offset >= stable:
            continue
        while waiting and waiting[0].first_offset <= header.last_offset:
            skipped.add(waiting.pop(0).producer_id)
        if header.is_control:
            marker = find_marker(data)
            if marker is not None and not marker.is_commit:
                skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            found += [record for record in iterate_records(data) if start_offset <= record.offset < stable]
    return found
