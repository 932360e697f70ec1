"""The refusal of batches of idempotent producers that do not follow on the last one, but may soon (PROD-11, PROD-12).

A producer sends up to five requests before it has an answer to the first. Suppose that the first is refused because the leader is just
changing, and the second is checked a moment later, when the change is done. Then the second does not follow on the end of the log:
OUT_OF_ORDER_SEQUENCE_NUMBER, in Kafka. If the log does not know the producer, the second is even appended. librdkafka takes that error for
a loss: it begins a new epoch, under which it sends all unacknowledged batches again, of all partitions, and so a second time batches that
are in the log (librdkafka #4953). So the second is refused like the first: both come again, in their order. When librdkafka learns of a new
leader, it may also send it a batch while the one before is on its way back from the old leader: that is no loss yet either.

A batch whose checksum is wrong is sent again as well, whether it was refused for that (CORRUPT_MESSAGE) or before its checksum was looked
at. The checksum covers its producer id, epoch and sequence, so these may be wrong, too, and only the fact is remembered. The next batch of
an idempotent producer has to begin where the log expects it, or it is refused with NOT_LEADER_OR_FOLLOWER: that batch is sound, and
CORRUPT_MESSAGE would say otherwise.

Invariants: nothing is appended as a result of these checks. :meth:`RefusedBatches.check` refuses a batch only while the log lacks an
earlier batch of the same producer and epoch, which was refused on the same connection, or directly after a corrupt batch; a batch that
never comes again is the reason of no more than :data:`REFUSED_MAX` refusals in a row.
"""

from collections.abc import Hashable
from typing import Final, NamedTuple

from esp.model.errors import ApiError, ErrorCode
from esp.records.batch_header import HEADER_SIZE, MAGIC, read_fields
from esp.replication.produced_batch import is_sound
from esp.replication.replica_log import ProducerChecks

REFUSED_MAX: Final = 5
"""Remembered for each partition: as many as a client has in flight at most."""

PARTITIONS_MAX: Final = 64
"""Remembered for each connection, in about half a KiB each. The producers that the other code misleads send one partition in a request."""

FOR_NOW: Final = frozenset(
    (
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.not_enough_replicas,
        ErrorCode.kafka_storage_error,
    )
)
"""The error codes after which a producer sends the refused batch again as it is. (So it does after CORRUPT_MESSAGE, see above.)"""

SETTLING_US: Final = 10_000_000
"""The time after a change of leader in which a producer may get batches back from the leader before."""

_SEQUENCES: Final = 1 << 31


def while_settling(error: ApiError, led_us: int) -> ApiError:
    """The error for a producer whose batch was refused by a leader that took over from another one (PROD-12).

    Args:
        error: the reason of the refusal.
        led_us: the time for which the leader has led.
    """
    if error.code is ErrorCode.out_of_order_sequence_number and led_us < SETTLING_US:
        return ApiError(
            ErrorCode.not_leader_or_follower,
            f"{error.message}; an earlier batch may still be on its way back from the previous leader",
        )
    return error


class _Refused(NamedTuple):
    """The latest refusals in one partition of one producer under one epoch: their first sequences, the oldest refusal first."""

    producer_id: int
    epoch: int
    sequences: tuple[int, ...]
    code: ErrorCode


_CORRUPT: Final = _Refused(-1, -1, (), ErrorCode.not_leader_or_follower)
"""The latest refusal was of a corrupt batch: of any producer, from any sequence on."""


class RefusedBatches:
    """The batches that one connection was refused. The callers choose the key by which a partition is known."""

    __slots__ = ("by_partition",)

    def __init__(self) -> None:
        self.by_partition: dict[Hashable, _Refused] = {}
        """Empty, as it nearly always is, it saves its callers :meth:`check`."""

    def check(self, partition: Hashable, records: memoryview | None, producers: ProducerChecks) -> None:
        """Check a batch before it is appended.

        Args:
            partition: the partition that it is for.
            records: the bytes that the producer sent.
            producers: the producers that the partition's log knows.

        Raises:
            ApiError: a batch before it is missing; the code is the one with which that batch was refused.
        """
        refused = self.by_partition.get(partition)
        if refused is None:
            return
        producer_id, epoch, sequence = _read(records)
        if producer_id < 0 or (refused is not _CORRUPT and (producer_id, epoch) != refused[:2]):
            return
        expected = producers.next_sequence(producer_id, epoch)
        if refused is _CORRUPT:
            missing = [expected] if _is_before(expected, sequence) else []
        else:
            missing = [each for each in refused.sequences if not _is_before(each, expected)]
        if not missing:
            del self.by_partition[partition]
        for each in missing:
            if _is_before(each, sequence):
                raise ApiError(refused.code, f"The batch at sequence {each} was refused and must be sent first")

    def refuse(self, partition: Hashable, records: memoryview | None, code: ErrorCode) -> None:
        """A batch was refused, by :meth:`check` or for any other reason. With one that is no matter of time the producer begins anew."""
        refused = self.by_partition.pop(partition, None)
        producer_id, epoch, sequence = _read(records)
        if code is ErrorCode.corrupt_message or (code in FOR_NOW and not is_sound(records)):
            remembered = _CORRUPT
        elif code in FOR_NOW and producer_id >= 0:
            earlier = refused.sequences if refused is not None and refused[:2] == (producer_id, epoch) else ()
            remembered = _Refused(producer_id, epoch, (*earlier, sequence)[-REFUSED_MAX:], code)
        else:
            return
        if len(self.by_partition) == PARTITIONS_MAX:
            del self.by_partition[next(iter(self.by_partition))]
        self.by_partition[partition] = remembered


def _read(records: memoryview | None) -> tuple[int, int, int]:
    """A batch's producer id, epoch and first sequence; an id of -1 if it is none of an idempotent producer, or no batch."""
    if records is None or len(records) < HEADER_SIZE:
        return -1, -1, -1
    _, _, _, magic, _, _, _, _, _, producer_id, epoch, sequence, _ = read_fields(records)
    return (producer_id, epoch, sequence) if magic == MAGIC else (-1, -1, -1)


def _is_before(sequence: int, other: int) -> bool:
    """True if one sequence comes before another; after the highest they begin again."""
    return 0 < (other - sequence) % _SEQUENCES < _SEQUENCES >> 1
