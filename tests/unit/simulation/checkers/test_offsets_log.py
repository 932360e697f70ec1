"""Tombstones of committed offsets: each reason for which an offset stays, and the tombstones that the rule allows (KIP-211)."""

import pytest

from esp.groups.group import PROTOCOL_TYPE
from esp.model.ids import OFFSETS_TOPIC, TopicPartition
from esp.records.builder import NewRecord, build_batch
from esp.schemas.consumer_group_record_codec import encode_consumer_group_key, encode_consumer_group_value
from esp.schemas.consumer_group_records import ConsumerGroupKey, ConsumerGroupRecordType, MemberValue
from esp.schemas.group_record_codec import (
    encode_group_metadata_key,
    encode_group_metadata_value,
    encode_offset_commit_key,
    encode_offset_commit_value,
)
from esp.schemas.group_records import (
    GroupMember,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from esp.simulation.checkers.offsets_log import NO_GENERATION, OffsetsLog
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.file_content import FileContent
from esp.simulation.workload.group_requests import _subscription

GROUP, TOPIC = "group", "topic"
PARTITION = TopicPartition(TOPIC, 0)
LOG = TopicPartition(OFFSETS_TOPIC, 0)
RETENTION_MS = 60_000


class Scene:
    """A log that records are appended to; the coordinator is at the generation that it has written, unless the test says otherwise."""

    def __init__(self):
        self.now_s = 0.0
        self.is_excused = False
        self.is_exempt = False
        self.written = NO_GENERATION
        self.generation_at = lambda: self.written
        self.log = OffsetsLog(
            lambda: self.now_s,
            RETENTION_MS,
            lambda _group: self.is_excused,
            lambda group: group == GROUP,
            lambda _group: self.is_exempt,
            lambda _partition, _epoch, _group: self.generation_at(),
        )

    def append(self, key, value, wall_ms):
        data = build_batch([NewRecord(value, key)], timestamp_ms=wall_ms)
        content = FileContent()
        content.append(bytes(data))
        batch = BatchView(
            base_offset=0,
            next_offset=1,
            leader_epoch=1,
            crc=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            is_control=False,
            content=content,
            position=0,
            size=len(data),
        )
        self.log.on_committed(LOG, [batch])

    def commit(self, at_ms, metadata="m", expire_ms=-1):
        value = OffsetCommitValue(5, -1, metadata, at_ms, expire_ms)
        self.append(_key(), encode_offset_commit_value(value), at_ms)

    def expire(self, at_ms):
        self.append(_key(), None, at_ms)

    def generation(self, number, at_ms, *topics, protocol_type=PROTOCOL_TYPE):
        members = (GroupMember("m", None, "c", "h", 1, 1, _subscription(topics), b""),) if topics else ()
        value = GroupMetadataValue(protocol_type, number, "range", None, at_ms, members)
        self.written = number
        self.append(encode_group_metadata_key(GroupMetadataKey(GROUP)), encode_group_metadata_value(value), at_ms)

    def member(self, *topics):
        """A group of KIP-848 has one member, that reads these; or none, and is not there any more."""
        key = encode_consumer_group_key(ConsumerGroupKey(ConsumerGroupRecordType.MEMBER, GROUP, "m"))
        value = MemberValue(None, None, "c", "h", topics, None, 1, None) if topics else None
        self.append(key, None if value is None else encode_consumer_group_value(value), 0)

    def remove(self):
        self.append(encode_group_metadata_key(GroupMetadataKey(GROUP)), None, 0)


def _key():
    return encode_offset_commit_key(OffsetCommitKey(GROUP, TOPIC, 0))


def violation():
    return pytest.raises(ViolationError, match=r"^INV-GROUP-EXPIRY at ")


def test_offset_of_a_group_of_offsets_alone_expires_by_the_time_of_its_commit():
    scene = Scene()
    scene.commit(1_000)
    scene.expire(61_000)
    assert scene.log.expiries == 1
    scene.commit(70_000)
    with violation():
        scene.expire(129_999)


def test_offset_of_an_exempt_group_stays():
    scene = Scene()
    scene.is_exempt = True
    scene.commit(0)
    with violation():
        scene.expire(10 * RETENTION_MS)


def test_offset_of_a_topic_that_members_read_stays():
    scene = Scene()
    scene.commit(0)
    scene.generation(1, 0, TOPIC)
    with violation():
        scene.expire(10 * RETENTION_MS)


def test_offset_of_a_topic_that_no_member_reads_expires():
    scene = Scene()
    scene.commit(0)
    scene.generation(1, 0, "another")
    scene.expire(RETENTION_MS)
    assert scene.log.expiries == 1


def test_offset_in_a_group_with_unknown_subscriptions_stays():
    scene = Scene()
    scene.commit(0)
    scene.generation(1, 0, "another", protocol_type="connect")
    with violation():
        scene.expire(10 * RETENTION_MS)


def test_time_of_emptiness_counts_for_a_group_that_had_members():
    scene = Scene()
    scene.commit(0)
    scene.generation(2, 50_000)
    with violation():
        scene.expire(109_999)
    scene.commit(109_000)
    scene.expire(110_000)
    assert scene.log.expiries == 2


def test_retention_that_a_client_asked_for_counts_alone():
    scene = Scene()
    scene.commit(0, expire_ms=5_000)
    scene.expire(5_000)
    scene.commit(0, expire_ms=10 * RETENTION_MS)
    with violation():
        scene.expire(9 * RETENTION_MS)


@pytest.mark.parametrize("present", [None, 2])
def test_group_that_could_not_write_that_it_is_empty_is_excused_and_counted(present):
    scene = Scene()
    scene.commit(0)
    scene.generation(1, 0, TOPIC)
    scene.generation_at = lambda: present
    scene.expire(RETENTION_MS)
    assert scene.log.unwitnessed == 1


def test_all_commits_before_a_tombstone_have_expired_and_none_after_it():
    scene = Scene()
    scene.commit(0, "first")
    scene.commit(0, "second")
    scene.now_s = 7.0
    scene.expire(RETENTION_MS)
    scene.commit(RETENTION_MS, "third")
    assert scene.log.expired(GROUP, PARTITION) == {"first": 7.0, "second": 7.0}
    assert scene.log.expired("another", PARTITION) == {}


def test_group_is_not_removed_while_it_has_offsets_or_members():
    scene = Scene()
    scene.commit(0)
    with violation():
        scene.remove()
    scene.expire(RETENTION_MS)
    scene.generation(1, 0, TOPIC)
    with violation():
        scene.remove()
    scene.generation(2, 0)
    scene.remove()


def test_partition_that_lost_more_than_is_promised_is_followed_and_not_judged():
    scene = Scene()
    scene.is_excused = True
    scene.commit(0)
    scene.expire(1)
    assert scene.log.expiries == 0
    assert scene.log.expired(GROUP, PARTITION) == {"m": 0.0}


def test_offset_of_a_topic_that_members_of_a_consumer_group_read_stays():
    scene = Scene()
    scene.commit(0)
    scene.member(TOPIC)
    with violation():
        scene.expire(10 * RETENTION_MS)


def test_offset_in_a_consumer_group_expires_by_the_time_of_its_commit_when_no_member_reads_the_topic():
    scene = Scene()
    scene.generation_at = lambda: None  # what would excuse a group of the other protocol
    scene.commit(1_000)
    scene.member("another")
    scene.expire(61_000)
    assert scene.log.expiries == 1
    scene.commit(70_000)
    with violation():
        scene.expire(129_999)


def test_consumer_group_is_removed_when_its_offsets_are():
    scene = Scene()
    scene.member(TOPIC)
    scene.commit(0)
    assert scene.log.find_left(GROUP) == ["group has an offset of topic-0", "group is there"]
    with violation():
        scene.member()
    scene = Scene()
    scene.member(TOPIC)
    scene.member()
    assert scene.log.find_left(GROUP) == []
