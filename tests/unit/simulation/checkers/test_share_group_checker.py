"""Share groups at coordinators, held against the replay of their log."""

import uuid
from random import Random

import pytest

from esp.groups.share.group import ShareGroup
from esp.model.ids import TopicId
from esp.records.builder import NewRecord, build_batch
from esp.schemas.consumer_group_records import GroupEpochValue, TopicIdPartition
from esp.schemas.share_group_record_codec import encode_share_group_key, encode_share_group_value
from esp.schemas.share_group_records import (
    KnownPartitions,
    ShareCurrentValue,
    ShareGroupKey,
    ShareGroupRecord,
    ShareGroupRecordType,
    ShareMemberValue,
    SharePartitionsValue,
)
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.checkers.share_group_checker import ShareGroupChecker
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.file_content import FileContent

GROUP = "queue"
TOPIC = TopicId(uuid.UUID(int=1))
Type = ShareGroupRecordType
MEMBER = ShareMemberValue(None, "client", "host", ("topic",))


def record(type_, value, name=""):
    return ShareGroupRecord(ShareGroupKey(type_, GROUP, name), value)


def epoch(number):
    return record(Type.GROUP_EPOCH, GroupEpochValue(number))


def about(member_id, value=MEMBER):
    return record(Type.MEMBER, value, member_id)


def current(member_id, number):
    value = None if number is None else ShareCurrentValue(number, number - 1, frozenset([TopicIdPartition(TOPIC, 0)]))
    return record(Type.CURRENT, value, member_id)


def initialised(*numbers):
    return record(
        Type.PARTITIONS, SharePartitionsValue(initialised={TOPIC: KnownPartitions("topic", frozenset(numbers))})
    )


def group(*records):
    made = ShareGroup(GROUP)
    for one in records:
        made.apply(one)
    return made


class Scene:
    """A checker, and a log of batches."""

    def __init__(self):
        self.is_excused = False
        self.checker = ShareGroupChecker(lambda _group: self.is_excused, Random(0))

    def log(self, *records):
        new = [
            NewRecord(
                None if one.value is None else encode_share_group_value(one.value), encode_share_group_key(one.key)
            )
            for one in records
        ]
        data = build_batch(new, timestamp_ms=1)
        content = FileContent()
        content.append(bytes(data))
        self.checker.on_committed([BatchView(0, 1, 1, 0, -1, -1, -1, False, content, 0, len(data))])


RECORDS = (epoch(2), about("a"), current("a", 2), initialised(0, 1))


def test_coordinator_has_the_group_that_its_log_tells():
    scene = Scene()
    scene.checker.check_replay("node", GROUP, None)
    scene.log(*RECORDS)
    for _ in range(20):
        scene.checker.check_replay("node", GROUP, group(*RECORDS))
    scene.log(*(one._replace(value=None) for one in RECORDS))
    scene.checker.check_replay("node", GROUP, None)
    assert scene.checker.replays == 22


@pytest.mark.parametrize("left", range(len(RECORDS)))
def test_coordinator_that_lacks_a_record_is_found(left):
    scene = Scene()
    scene.log(*RECORDS)
    shown = group(*RECORDS[:left], *RECORDS[left + 1 :])
    with pytest.raises(ViolationError, match="INV-GROUP-REPLAY"):
        scene.checker.check_replay("node", GROUP, shown)
    scene.is_excused = True
    scene.checker.check_replay("node", GROUP, shown)
