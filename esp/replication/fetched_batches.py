"""What of the bytes that a leader sent may be appended (LOG-6): the valid prefix, batch by batch."""

from collections.abc import Iterator
from typing import Final

from esp.model.errors import CorruptionError
from esp.ports.network import Buffer
from esp.records.batch_header import HEADER_SIZE, SIZE_BEFORE_LENGTH_ENDS, BatchHeader, read_header
from esp.records.checks import check_batch

NO_EPOCH: Final = -1


def iterate_fetched(
    records: Buffer, *, next_offset: int, latest_epoch: int | None, leader_epoch: int
) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Yield each whole batch that may follow the log, with its header; a batch that was cut off at the end is left out.

    Args:
        records: the bytes as fetched.
        next_offset: the log end.
        latest_epoch: of the log, None if it has none.
        leader_epoch: of the leader that sent them: no batch can be of a later one (KAFKA-18723).

    Raises:
        CorruptionError: the next batch is not the one that the leader has, or cannot follow.
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
        if base_offset < next_offset:
            raise CorruptionError(f"batch at offset {base_offset} where the log ends at {next_offset}")
        if not epoch <= batch_epoch <= leader_epoch:
            raise CorruptionError(
                f"batch of leader epoch {batch_epoch} after one of {epoch}, from the leader of {leader_epoch}"
            )
        yield batch, header
        epoch = batch_epoch
        next_offset = base_offset + last_offset_delta + 1
        position += batch_size
