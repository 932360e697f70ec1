"""The leader against a log that only remembers."""

import dataclasses
import struct

import pytest
from crc32c import crc32c

from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import ZERO_UUID, LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.records.batch import check_batch
from esp.records.batch_header import BatchHeader, HeaderFields, read_header
from esp.records.builder import NewRecord, build_batch
from esp.replication.partition_leader import PartitionLeader
from esp.replication.topic_codec import RecompressionNeededError
from esp.settings.topic import TopicSettings
from esp.storage.leader_epochs import LeaderEpochs

NODE = NodeId(1)
NOW_MS = 1_700_000_000_000


class NoProducers:
    """Every batch is new, but for one that the test names."""

    duplicate_of: int | None = None
    has_transactions = False

    def check(self, header: BatchHeader) -> int | None:
        return self.duplicate_of


class RememberingLog:
    def __init__(self, **settings) -> None:
        self.settings = TopicSettings(**settings)
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.recovery_point = 0
        self.producers = NoProducers()
        self.leader_epochs = LeaderEpochs([(5, 0)])
        self.batches: list[bytes] = []

    def append(self, batch, header: HeaderFields, now_ms: int) -> None:
        header = BatchHeader(*header)
        check_batch(batch, header)
        assert read_header(batch) == header
        assert header.base_offset == self.log_end_offset
        self.batches.append(bytes(batch))
        self.log_end_offset = header.next_offset


def state(*, isr=(NODE,), replicas=(NODE,), epoch=5) -> PartitionState:
    return PartitionState(
        topic_id=TopicId(ZERO_UUID),
        partition=0,
        replicas=replicas,
        isr=isr,
        leader=NODE,
        leader_epoch=LeaderEpoch(epoch),
        partition_epoch=0,
    )


def leader(partition: PartitionState | None = None, **settings) -> tuple[PartitionLeader, RememberingLog]:
    log = RememberingLog(**settings)
    core = PartitionLeader(
        log,
        partition or state(),
        NODE,
        now_us=0,
        lag_time_max_us=30_000_000,
        is_eligible=lambda _node, _epoch: True,
    )
    return core, log


def produced(count=3, **options) -> memoryview:
    records = [NewRecord(value=b"v%d" % i) for i in range(count)]
    options = {"timestamp_ms": NOW_MS} | options
    return memoryview(bytearray(build_batch(records, **options)))


def refusal(core: PartitionLeader, batch: memoryview, acks: int = -1, **options) -> ErrorCode:
    before = bytes(batch)
    with pytest.raises(ApiError) as caught:
        core.append(batch, acks, NOW_MS, **options)
    assert bytes(batch) == before, "a refused batch is left alone"
    return caught.value.code


def test_appended_batches_get_dense_offsets_and_the_leaders_epoch():
    core, log = leader()
    assert core.append(produced(3), -1, NOW_MS) == (0, 3, -1)
    assert core.append(produced(2), 1, NOW_MS) == (3, 5, -1)
    assert [(read_header(b).base_offset, read_header(b).leader_epoch) for b in log.batches] == [(0, 5), (3, 5)]


def test_a_lone_replica_commits_what_it_appends():
    core, log = leader()
    core.append(produced(3), -1, NOW_MS)
    assert log.high_watermark == 3


def test_with_flush_messages_1_only_flushed_records_are_committed():
    core, log = leader(flush_messages=1)
    core.append(produced(3), -1, NOW_MS)
    assert log.high_watermark == 0
    log.recovery_point = 3
    assert core.maybe_advance_high_watermark()
    assert log.high_watermark == 3
    assert not core.maybe_advance_high_watermark()


def test_acks_all_is_refused_below_min_isr_and_acks_1_is_not():
    partition = state(replicas=(NODE, NodeId(2), NodeId(3)))
    core, log = leader(partition, min_insync_replicas=2)
    assert refusal(core, produced(), acks=-1) is ErrorCode.not_enough_replicas
    assert log.batches == []
    core.append(produced(), 1, NOW_MS)
    assert log.high_watermark == 0, "HW-2: nothing is committed below min ISR"


def test_min_isr_above_the_replica_count_counts_as_the_replica_count():
    core, log = leader(min_insync_replicas=3)
    core.append(produced(1), -1, NOW_MS)
    assert log.high_watermark == 1


def test_a_duplicate_is_answered_with_its_first_offset_and_not_appended():
    core, log = leader()
    core.append(produced(4), -1, NOW_MS)
    log.producers.duplicate_of = 0
    assert core.append(produced(4, producer_id=9, producer_epoch=0, base_sequence=0), -1, NOW_MS) == (0, 4, -1)
    assert len(log.batches) == 1


def test_log_append_time_stamps_the_brokers_time_and_keeps_the_checksum_right():
    core, log = leader(message_timestamp_type="LogAppendTime")
    assert core.append(produced(2, timestamp_ms=5), -1, NOW_MS) == (0, 2, NOW_MS)
    header = read_header(log.batches[0])
    assert header.has_log_append_time
    assert header.max_timestamp == NOW_MS
    assert header.base_timestamp == 5


def patched(offset: int, layout: str, value: int, **options) -> memoryview:
    """A batch with one header field overwritten and, so that only that field is wrong, a right checksum."""
    batch = produced(**options)
    struct.pack_into(layout, batch, offset, value)
    if offset >= 21:
        struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return batch


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (memoryview(bytearray(10)), ErrorCode.invalid_record),
        (patched(16, ">b", 1), ErrorCode.invalid_record),
        (patched(8, ">i", 10_000), ErrorCode.invalid_record),
        (patched(16, ">b", 7), ErrorCode.corrupt_message),
        (patched(8, ">i", -1), ErrorCode.corrupt_message),
        (patched(17, ">I", 7), ErrorCode.corrupt_message),
        (memoryview(bytearray(bytes(produced()) * 2)), ErrorCode.invalid_record),
        (patched(0, ">q", 17), ErrorCode.invalid_record),
        (patched(57, ">i", 0), ErrorCode.invalid_record),
        (patched(57, ">i", 2), ErrorCode.invalid_record),
        (patched(23, ">i", -1), ErrorCode.invalid_record),
        (patched(21, ">h", 5), ErrorCode.invalid_record),
        (patched(21, ">h", 0x100), ErrorCode.invalid_record),
        (patched(21, ">h", 0x20), ErrorCode.invalid_record),
        (patched(21, ">h", 0x10), ErrorCode.invalid_txn_state),
        (patched(21, ">h", 0x08), ErrorCode.invalid_timestamp),
        (patched(43, ">q", 4), ErrorCode.invalid_record),
        (produced(timestamp_ms=NOW_MS + 3_600_001), ErrorCode.invalid_timestamp),
    ],
)
def test_a_batch_that_is_wrong_in_one_point_is_refused(batch, code):
    core, log = leader()
    assert refusal(core, batch) is code
    assert log.batches == []


def test_timestamps_are_held_against_the_topics_limits():
    core, _ = leader(message_timestamp_before_max_ms=1000)
    core.append(produced(timestamp_ms=NOW_MS - 1000), -1, NOW_MS)
    assert refusal(core, produced(timestamp_ms=NOW_MS - 1001)) is ErrorCode.invalid_timestamp


def test_a_batch_above_max_message_bytes_is_refused_and_one_of_just_that_size_is_not():
    batch = produced(20)
    core, _ = leader(max_message_bytes=len(batch) - 1)
    assert refusal(core, batch) is ErrorCode.message_too_large
    core.log.settings = dataclasses.replace(core.log.settings, max_message_bytes=len(batch))
    core.append(batch, -1, NOW_MS)


def test_zstd_is_refused_from_requests_that_do_not_know_it():
    core, _ = leader()
    assert refusal(core, produced(codec=4), zstd_allowed=False) is ErrorCode.unsupported_compression_type
    core.append(produced(codec=4), -1, NOW_MS, zstd_allowed=True)


def test_a_batch_of_another_codec_than_its_topic_is_not_touched():
    core, log = leader(compression_type="zstd", message_timestamp_type="LogAppendTime")
    batch = produced(codec=1)
    before = bytes(batch)
    with pytest.raises(RecompressionNeededError):
        core.append(batch, -1, NOW_MS)
    assert (bytes(batch), log.batches) == (before, [])
    core.append(batch, -1, NOW_MS, any_codec=True)
    core.append(produced(codec=4), -1, NOW_MS)
    assert [read_header(kept).codec for kept in log.batches] == [1, 4]


def test_a_batch_that_is_to_be_recompressed_is_checked_first():
    core, _ = leader(compression_type="zstd")
    assert refusal(core, patched(17, ">I", 7)) is ErrorCode.corrupt_message


def test_an_older_state_of_the_partition_is_passed_over():
    core, _ = leader(dataclasses.replace(state(), partition_epoch=3))
    core.update(dataclasses.replace(state(), partition_epoch=2), 0)
    assert core.state.partition_epoch == 3
