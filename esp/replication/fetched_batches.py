"""What of the bytes that a leader sent may be appended (LOG-6): the valid prefix, batch by batch."""

from collections.abc import Iterator
from typing import Final

from esp.model.errors import CorruptionError
from esp.ports.network import Buffer
from esp.records.batch_header import HEADER_SIZE, SIZE_BEFORE_LENGTH_ENDS, BatchHeader, read_header
from esp.records.checks import check_batch
from esp.replication.replica_log import ReplicaLog

NO_EPOCH: Final = -1


class MisplacedBatchError(CorruptionError):
    """A batch that is what was written, and that cannot follow the log here: no disk is to blame."""


def iterate_fetched(
    records: Buffer, *, next_offset: int, latest_epoch: int | None, leader_epoch: int, log_is_empty: bool
) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Yield each whole batch that may follow the log, with its header; a batch that was cut off at the end is left out.

    Only of an empty log the first batch may begin below the log end, if it holds that offset: the leader's log starts within this batch
    (DeleteRecords), and the log has to begin with it (TRUNC-5).

    Args:
        records: the bytes as fetched.
        next_offset: the log end.
        latest_epoch: of the log, None if it has none.
        leader_epoch: of the leader that sent them: no batch can be of a later one (KAFKA-18723).
        log_is_empty: whether the log starts where it ends.

    Raises:
        MisplacedBatchError: the next batch cannot follow.
        CorruptionError: the next batch is not the one that the leader has.
    """
    view = memoryview(records)
    size = len(view)
    position = 0
    epoch = NO_EPOCH if latest_epoch is None else latest_epoch
    while size - position >= HEADER_SIZE:
        header = read_header(view, position)
        batch_size = header.batch_length + SIZE_BEFORE_LENGTH_ENDS
        if batch_size > size - position:
            return
        batch = view[position : position + max(batch_size, HEADER_SIZE)]
        check_batch(batch, header)
        base_offset, _, batch_epoch, _, _, _, last_offset_delta, _, _, _, _, _, _ = header
        if base_offset < next_offset and not (log_is_empty and base_offset + last_offset_delta >= next_offset):
            raise MisplacedBatchError(f"it begins at offset {base_offset}, and the log ends at {next_offset}")
        if not epoch <= batch_epoch <= leader_epoch:
            raise MisplacedBatchError(
                f"it is of leader epoch {batch_epoch}, comes after one of {epoch}, and its leader is that of {leader_epoch}"
            )
        yield batch, header
        log_is_empty = False
        epoch = batch_epoch
        next_offset = base_offset + last_offset_delta + 1
        position += batch_size


def append_fetched(log: ReplicaLog, records: Buffer, leader_epoch: int, now_ms: int) -> None:
    """Append what may follow the log (LOG-6); an empty log begins with the batch in which its leader's starts (TRUNC-5).

    Neither log start nor high watermark falls by that: what is below them in the batch stays hidden.

    Raises:
        CorruptionError, MisplacedBatchError: the next batch cannot be taken; those before it were.
        ApiError: KAFKA_STORAGE_ERROR.
        OSError: the log could not be begun anew; it is offline.
    """
    for batch, header in _batches(log, records, leader_epoch):
        start_offset = log.log_end_offset
        if header.base_offset < start_offset:
            high_watermark = log.high_watermark
            log.truncate_fully_and_start_at(header.base_offset)
            log.append(batch, header, now_ms)
            log.high_watermark = high_watermark
            log.raise_log_start(start_offset)
        else:
            log.append(batch, header, now_ms)


def must_begin_below(log: ReplicaLog, records: Buffer, leader_epoch: int) -> bool:
    """Whether :func:`append_fetched` will begin the log anew, at an earlier offset: whoever cuts a log holds its locks."""
    if log.log_start_offset != log.log_end_offset or len(records) < HEADER_SIZE:
        return False
    if read_header(memoryview(records)).base_offset >= log.log_end_offset:
        return False
    try:
        return next(_batches(log, records, leader_epoch), None) is not None
    except CorruptionError:
        return False


def _batches(log: ReplicaLog, records: Buffer, leader_epoch: int) -> Iterator[tuple[memoryview, BatchHeader]]:
    return iterate_fetched(
        records,
        next_offset=log.log_end_offset,
        latest_epoch=log.leader_epochs.latest,
        leader_epoch=leader_epoch,
        log_is_empty=log.log_start_offset == log.log_end_offset,
    )
