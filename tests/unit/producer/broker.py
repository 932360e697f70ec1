"""A broker's side of Produce for one node: partitions that know their producers' last sequences, as the rules PROD-2, 3 and 5 have it."""

from collections import deque

from esp.model.errors import ErrorCode
from esp.producer.producer import PartitionAnswer
from esp.records.batch import check_batch, iterate_records
from esp.records.batch_header import BatchHeader, read_header

BATCHES_KNOWN = 5


class PartitionLog:
    """The values of a partition in order, and the last batches of each producer."""

    def __init__(self, batch_bytes_max: int) -> None:
        self.values: list[bytes | None] = []
        self._batch_bytes_max = batch_bytes_max
        self._last: dict[tuple[int, int], deque[BatchHeader]] = {}

    def append(self, data: bytes) -> PartitionAnswer:
        header = read_header(data)
        check_batch(data, header)
        if len(data) > self._batch_bytes_max:
            return PartitionAnswer(ErrorCode.message_too_large)
        if header.producer_id >= 0:
            last = self._last.setdefault((header.producer_id, header.producer_epoch), deque(maxlen=BATCHES_KNOWN))
            if any(
                (each.base_sequence, each.last_sequence) == (header.base_sequence, header.last_sequence)
                for each in last
            ):
                return PartitionAnswer(ErrorCode.none)
            if last and header.base_sequence != (last[-1].last_sequence + 1) & 0x7FFF_FFFF:
                return PartitionAnswer(ErrorCode.out_of_order_sequence_number)
            last.append(header)
        self.values += [record.value for record in iterate_records(data)]
        return PartitionAnswer(ErrorCode.none)
