"""Invariants that must hold of a log beside a list of the batches that it should have."""

from collections.abc import Coroutine, Sequence
from itertools import pairwise
from random import Random
from typing import Any, Final

from esp.model.buffers import Buffer
from esp.records.batch_header import BatchHeader, read_header
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.partition_tier.memory_log import KeptBatch
from esp.storage.log import Log
from esp.storage.producer_state import ProducerState, ProducerStates

_ALL_BYTES: Final = 1 << 30
_READS: Final = 8


def check_log(log: Log, kept: Sequence[KeptBatch]) -> None:
    """INV-ORDER, INV-EPOCH-CACHE, INV-PROD-FOLD of a log in which ``kept`` was appended, as a whole."""
    if not log.log_start_offset <= log.high_watermark <= log.log_end_offset or log.recovery_point > log.log_end_offset:
        _fail(
            "INV-ORDER",
            log,
            f"{log.log_start_offset} <= {log.high_watermark} <= {log.log_end_offset}, flushed {log.recovery_point}",
        )
    if kept and kept[-1].header.next_offset > log.log_end_offset:
        _fail("INV-ORDER", log, f"ends at {log.log_end_offset}, a batch at {kept[-1].header.next_offset}")
    entries = log.leader_epochs.entries()
    if any(one >= other or start >= following for (one, start), (other, following) in pairwise(entries)):
        _fail("INV-EPOCH-CACHE", log, f"{entries} do not rise (LOG-7)")
    present = [batch.header for batch in kept if batch.header.base_offset >= log.log_start_offset]
    for header in present:
        if log.leader_epochs.epoch_of(header.base_offset) != header.leader_epoch:
            _fail("INV-EPOCH-CACHE", log, f"{entries}, but {header.base_offset} has epoch {header.leader_epoch}")
    last = {batch.header.producer_id: batch.header for batch in kept}
    for producer_id, state in log.producers.items():
        if producer_id not in last:
            _fail("INV-PROD-FOLD", log, f"knows of producer {producer_id}, which wrote nothing")
        if state.last_offset > last[producer_id].last_offset:
            _fail("INV-PROD-FOLD", log, f"of producer {producer_id}: {state.last_offset}, past its last batch")
    for header in present:
        if header.producer_id >= 0 and header is last[header.producer_id]:
            known = log.producers.get(header.producer_id)
            if known is None or known.epoch != header.producer_epoch or not _is_last_batch(known, header):
                _fail(
                    "INV-PROD-FOLD",
                    log,
                    f"of producer {header.producer_id}, whose last batch is at {header.last_offset}",
                )


def _is_last_batch(known: ProducerState, header: BatchHeader) -> bool:
    """True if a producer's state may be that after its last batch; a marker leaves the sequence as it is."""
    if header.is_control:
        return known.last_offset < header.base_offset and known.transaction_first_offset < 0
    return (known.last_sequence, known.last_offset) == (header.last_sequence, header.last_offset)


def check_producers_known(log: Log, before: ProducerStates) -> None:
    """INV-PROD-FOLD of a log whose process was killed: it forgot no producer, also none of which retention left no batch."""
    for producer_id, state in before.items():
        known = log.producers.get(producer_id)
        if known is None or (known.last_offset < state.last_offset and known.epoch <= state.epoch):
            _fail("INV-PROD-FOLD", log, f"forgot of producer {producer_id} the batch at {state.last_offset}")


def check_producers_wrote(log: Log, kept: Sequence[KeptBatch]) -> None:
    """INV-PROD-FOLD of a log in which a batch has rotted: every batch that it knows of a producer was written by that producer."""
    wrote = {
        (header.producer_id, header.producer_epoch, header.base_sequence, header.base_offset)
        for header in (batch.header for batch in kept)
    }
    opened = {
        (header.producer_id, header.base_offset)
        for header in (batch.header for batch in kept)
        if header.is_transactional and not header.is_control
    }
    for producer_id, state in log.producers.items():
        for batch in state.batches:
            if (producer_id, state.epoch, batch.first_sequence, batch.base_offset) not in wrote:
                _fail("INV-PROD-FOLD", log, f"believes that producer {producer_id} wrote {batch}")
        first = state.transaction_first_offset
        if first >= 0 and (producer_id, first) not in opened:
            _fail("INV-PROD-FOLD", log, f"believes that producer {producer_id} has a transaction")


def check_recovered(log: Log, allowed: Sequence[KeptBatch], least_end: int, most_start: int) -> None:
    """INV-RECOVER-PREFIX, INV-DISK-ORDER: what came back is a prefix of what was there, with everything that was certain (REC-3).

    Args:
        log: as it was opened.
        allowed: everything that may be in it, in order.
        least_end: nothing below this may be gone, but what was below the log start.
        most_start: the log start was not moved above this.
    """
    if log.log_start_offset > most_start:
        _fail("INV-RECOVER-PREFIX", log, f"starts at {log.log_start_offset}, and did at {most_start}")
    if log.log_end_offset < least_end:
        _fail("INV-DISK-ORDER", log, f"ends at {log.log_end_offset}, {least_end} was certain")
    expected = [batch for batch in allowed if batch.header.next_offset > log.log_start_offset]
    found = read_whole(log)
    for batch, data in zip(expected, found, strict=False):
        if batch.data != data:
            _fail("INV-RECOVER-PREFIX", log, f"other bytes at {batch.header.base_offset}")
    count = len(found)
    if count > len(expected):
        _fail("INV-RECOVER-PREFIX", log, f"{count} batches, {len(expected)} were there")
    if count and expected[count - 1].header.next_offset != log.log_end_offset:
        _fail("INV-RECOVER-PREFIX", log, f"ends at {log.log_end_offset}, its last batch before")
    entries = log.leader_epochs.entries()
    if entries and entries[-1][1] >= log.log_end_offset > log.log_start_offset:
        _fail("INV-EPOCH-CACHE", log, f"{entries} at the end {log.log_end_offset}: an epoch without a batch came back")


def check_reads(log: Log, kept: Sequence[KeptBatch], random: Random) -> None:
    """INV-READ-STABLE: a read at an offset gets the batch that holds it, and the log takes itself for sound (REC-4)."""
    present = [batch for batch in kept if log.log_start_offset <= batch.header.base_offset < log.log_end_offset]
    for batch in random.sample(present, min(len(present), _READS)):
        offset = batch.header.base_offset
        data = memoryview(_finish(log.read_cold(offset, 1, log.log_end_offset, at_least_one=True)))
        if bytes(data[: len(batch.data)]) != batch.data:
            _fail("INV-READ-STABLE", log, f"a read at {offset} returns another batch than the one that was kept there")
    if log.rot is not None:
        _fail("INV-READ-STABLE", log, f"takes itself for rotten, and no batch is: {log.rot}")


def read_whole(log: Log) -> list[bytes]:
    """The batches from the one that holds the log start. Raises ViolationError: INV-ORDER, a read does not go on."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        start_offset = offset
        left = memoryview(_finish(log.read_cold(offset, _ALL_BYTES, log.log_end_offset, at_least_one=True)))
        while left:
            header = read_header(left)
            found.append(bytes(left[: header.size]))
            left = left[header.size :]
            offset = header.next_offset
        if offset <= start_offset:  # two segments have the same offsets, and readers would never come to an end
            _fail("INV-ORDER", log, f"what is read from {start_offset} on ends at {offset}")
    return found


def _finish(reading: Coroutine[Any, Any, Buffer]) -> Buffer:
    """Run a reading to its end; the device answers whenever it is asked again."""
    try:
        while True:
            reading.send(None)
    except StopIteration as stop:
        data: Buffer = stop.value
        return data


def _fail(invariant: str, log: Log, what: str) -> None:
    raise ViolationError(invariant, str(log.partition), what)
