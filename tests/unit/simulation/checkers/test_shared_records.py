"""The records that members of share groups must get, and those that they must not."""

import uuid

import pytest

from esp.model.ids import TopicId, TopicPartition
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.records.transaction_marker import build_marker
from esp.schemas.share_state_records import ShareStateKey
from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.checkers.shared_records import SharedRecords
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.file_content import FileContent

TOPIC = TopicId(uuid.UUID(int=1))
KEY = ShareStateKey("queue", TOPIC, 0)
PRODUCER, OTHER = 7, 8


class Scene:
    """A committed log to which batches of one record are added."""

    def __init__(self, *, is_read_committed=True):
        self.log = CommittedLog(TopicPartition("t", 0), TOPIC)
        self.records = SharedRecords(lambda _key: self.log, is_read_committed=is_read_committed)

    def _add(self, data, producer_id=-1, *, is_control=False):
        offset, content = len(self.log.batches), FileContent()
        content.append(bytes(data))
        crc = read_header(data).crc
        self.log.batches[offset] = BatchView(
            offset, offset + 1, 1, crc, producer_id, 0, 0, is_control, content, 0, len(data)
        )
        return offset

    def plain(self):
        return self._add(build_batch([NewRecord(b"v")], timestamp_ms=1))

    def transactional(self, producer_id=PRODUCER):
        data = build_batch(
            [NewRecord(b"v")],
            timestamp_ms=1,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        return self._add(data, producer_id)

    def end(self, *, is_commit, producer_id=PRODUCER):
        marker = build_marker(producer_id, 0, is_commit=is_commit, coordinator_epoch=0, timestamp_ms=1)
        return self._add(marker, producer_id, is_control=True)

    def deliver(self, offset):
        self.records.on_delivered(KEY, offset, offset + 1)
        self.records.look()


def test_markers_and_aborted_records_are_for_nobody():
    scene = Scene()
    plain, aborted, other = scene.plain(), scene.transactional(), scene.transactional(OTHER)
    end = scene.end(is_commit=False)
    scene.end(is_commit=True, producer_id=OTHER)
    undecided = scene.transactional()
    assert scene.records.find_missed(KEY, (plain, aborted, other, end, undecided)) == [plain, other, undecided]


def test_aborted_records_are_for_groups_that_read_everything():
    scene = Scene(is_read_committed=False)
    aborted = scene.transactional()
    end = scene.end(is_commit=False)
    assert scene.records.find_missed(KEY, (aborted, end)) == [aborted]
    scene.deliver(aborted)


def test_records_count_that_are_not_known_to_be_committed():
    assert Scene().records.find_missed(KEY, (3,)) == [3]


def test_members_get_committed_records():
    scene = Scene()
    plain, committed = scene.plain(), scene.transactional()
    scene.end(is_commit=True)
    scene.transactional()
    scene.deliver(plain)
    scene.deliver(committed)
    assert scene.records.judged == 1


@pytest.mark.parametrize("is_ended", [False, True])
def test_members_get_no_others(is_ended):
    scene = Scene()
    offset = scene.transactional()
    if is_ended:
        scene.end(is_commit=False)
    with pytest.raises(ViolationError, match="INV-SHARE-COMMITTED"):
        scene.deliver(offset)


@pytest.mark.parametrize("is_marker", [False, True])
def test_nothing_is_said_of_a_batch_whose_file_was_cut(is_marker):
    scene = Scene()
    offset = scene.transactional()
    end = scene.end(is_commit=False)
    scene.log.batches[end if is_marker else offset].content.truncate(0)
    scene.deliver(offset)
    assert scene.records.find_missed(KEY, (offset,)) == []


@pytest.mark.parametrize("is_marker", [False, True])
def test_nothing_is_said_of_a_batch_in_whose_place_a_power_loss_left_zeros(is_marker):
    scene = Scene()
    offset, marker = scene.transactional(), scene.end(is_commit=True)
    assert scene.records.find_missed(KEY, [offset]) == [offset]
    content = scene.log.batches[marker if is_marker else offset].content
    content.cached[:] = bytes(len(content.cached))
    assert scene.records.find_missed(KEY, [offset]) == []
