"""A reader of committed records: it leaves out what was aborted, by the list that comes with each answer, as Kafka's clients do."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from esp.model.ids import TopicId, TopicPartition
from esp.records.batch_header import BatchHeader
from esp.records.transaction_marker import find_marker
from esp.simulation.checkers.transaction_checker import TransactionChecker
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.workload.consumer import Consumer, split_batches

READ_COMMITTED: Final = 1


def find_delivered(
    batches: Sequence[tuple[BatchHeader, memoryview]], aborted: Sequence[tuple[int, int]]
) -> list[tuple[BatchHeader, bool]]:
    """Each batch, and whether an application gets it.

    Args:
        batches: those of one answer.
        aborted: the aborted transactions of the same answer: producer id and first offset.
    """
    waiting = sorted(aborted, key=lambda one: one[1])
    skipped: set[int] = set()
    found = []
    for header, data in batches:
        while waiting and waiting[0][1] <= header.last_offset:
            skipped.add(waiting.pop(0)[0])
        if header.is_control:
            marker = find_marker(data)  # None for what compaction leaves of one
            if marker is not None and not marker.is_commit:
                skipped.discard(header.producer_id)
            found.append((header, False))
        else:
            found.append((header, not (header.is_transactional and header.producer_id in skipped)))
    return found


class CommittedReader(Consumer):
    """Reads with ``read_committed``; ``checker`` is told of each batch."""

    isolation_level: ClassVar = READ_COMMITTED
    checker: TransactionChecker

    def _take(self, topic: str, topic_id: TopicId, partition: int, offset: int, part: Any) -> int:
        place = TopicPartition(topic, partition)
        if part.last_stable_offset > part.high_watermark:
            raise ViolationError(
                "INV-LSO",
                f"{self._client.name}, {place}",
                f"the last stable offset {part.last_stable_offset} is above the high watermark {part.high_watermark}",
            )
        aborted = [(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()]
        for header, is_delivered in find_delivered(split_batches(part.records, self._is_spoilt), aborted):
            self.checker.on_read(self._client.name, place, header, is_delivered=is_delivered)
        return super()._take(topic, topic_id, partition, offset, part)
