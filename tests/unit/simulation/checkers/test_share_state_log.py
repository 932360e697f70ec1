"""The log of share states: start offsets that pass records, lives that follow one another, and epochs that fall."""

import uuid

import pytest

from esp.model.ids import TopicId
from esp.records.builder import NewRecord, build_batch
from esp.schemas.share_state_record_codec import (
    encode_share_snapshot_key,
    encode_share_snapshot_value,
    encode_share_update_key,
    encode_share_update_value,
)
from esp.schemas.share_state_records import (
    NO_COMPLETE_COUNT,
    NO_START_OFFSET,
    RecordState,
    ShareSnapshotValue,
    ShareStateKey,
    ShareUpdateValue,
    StateBatch,
)
from esp.share.coordinator.draft import Snapshot
from esp.share.coordinator.state import ShareState
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.checkers.share_state_log import KeptState, ShareStateLog
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.file_content import FileContent

KEY = ShareStateKey("queue", TopicId(uuid.UUID(int=1)), 0)


class Scene:
    """A log that records are appended to."""

    def __init__(self):
        self.is_excused = False
        self.log_start = 0
        self.for_nobody = set()
        self.log = ShareStateLog(
            lambda _key: self.is_excused,
            lambda _key: self.log_start,
            lambda _key, offsets: [offset for offset in offsets if offset not in self.for_nobody],
        )

    def append(self, key, value):
        data = build_batch([NewRecord(value, key)], timestamp_ms=1)
        content = FileContent()
        content.append(bytes(data))
        self.log.on_committed(0, [BatchView(0, 1, 1, 0, -1, -1, -1, False, content, 0, len(data))])

    def snapshot(self, state_epoch=1, start=0, leader_epoch=0, epoch=0, batches=(), complete_count=0):
        value = ShareSnapshotValue(epoch, state_epoch, leader_epoch, start, 0, 0, tuple(batches), complete_count)
        self.append(encode_share_snapshot_key(KEY), encode_share_snapshot_value(value))

    def update(self, start, leader_epoch=0, epoch=0, batches=()):
        value = ShareUpdateValue(epoch, leader_epoch, start, tuple(batches), 0)
        self.append(encode_share_update_key(KEY), encode_share_update_value(value))

    def delete(self):
        self.append(encode_share_snapshot_key(KEY), None)


def test_records_that_somebody_has_done_with_are_passed():
    scene = Scene()
    scene.snapshot()
    scene.log.life(KEY).reasons.update((0, 1))
    scene.update(2)
    assert scene.log.passed == 2


def test_a_state_that_begins_at_an_offset_has_a_lag():
    scene = Scene()
    scene.snapshot(start=NO_START_OFFSET, complete_count=NO_COMPLETE_COUNT)
    with pytest.raises(ViolationError, match="INV-SHARE-LAG"):
        scene.snapshot(state_epoch=2, start=5, complete_count=NO_COMPLETE_COUNT)


def test_records_below_the_log_start_are_passed():
    scene = Scene()
    scene.snapshot()
    scene.log_start = 5
    scene.update(5)


def test_offsets_without_a_record_for_members_are_passed():
    scene = Scene()
    scene.snapshot()
    scene.for_nobody.add(0)
    scene.update(1)
    with pytest.raises(ViolationError, match=r"INV-SHARE-LOSS.*passes .1., "):
        scene.update(2)


def test_a_leader_begins_where_records_were_delivered_before():
    scene = Scene()
    scene.snapshot(start=NO_START_OFFSET)
    scene.log.life(KEY).first_delivered = 3
    with pytest.raises(ViolationError, match=r"INV-SHARE-LOSS.*passes .3, 4., "):
        scene.update(5)


def test_the_first_leader_begins_anywhere():
    scene = Scene()
    scene.snapshot(start=NO_START_OFFSET)
    scene.update(5)


def test_no_other_record_is_passed():
    scene = Scene()
    scene.snapshot()
    scene.log.life(KEY).reasons.add(0)
    with pytest.raises(ViolationError, match=r"INV-SHARE-LOSS.*passes .1., "):
        scene.update(2)


def test_excuse_counts_for_records_that_are_passed():
    scene = Scene()
    scene.snapshot()
    scene.is_excused = True
    scene.update(2)


def test_first_start_offset_of_a_life_passes_nothing():
    scene = Scene()
    scene.snapshot(start=-1)
    assert scene.log.first_open(KEY) == -1
    scene.update(17)
    assert scene.log.first_open(KEY) == 17


def test_first_open_record_is_behind_those_that_are_done_with():
    scene = Scene()
    scene.snapshot()
    scene.update(0, batches=[StateBatch(0, 4, RecordState.ACKNOWLEDGED, 1), StateBatch(5, 6, RecordState.ARCHIVED, 2)])
    assert scene.log.first_open(KEY) == 4


def test_start_offset_falls_in_another_life_only():
    scene = Scene()
    scene.snapshot(start=9)
    scene.snapshot(start=3, state_epoch=2, epoch=1)
    assert scene.log.life(KEY, 1).number == 0
    assert scene.log.life(KEY).number == 1
    with pytest.raises(ViolationError, match="INV-SPSO"):
        scene.update(2, epoch=1)


def test_state_after_a_deletion_is_another_life_in_the_same_epoch():
    scene = Scene()
    scene.snapshot(start=9, leader_epoch=4)
    assert scene.log.ended_epoch(KEY) == -1
    scene.delete()
    assert scene.log.ended_epoch(KEY) == scene.log.life(KEY).state_epoch
    assert scene.log.keys == ()
    assert scene.log.state(KEY) is None
    scene.snapshot(start=0)
    assert scene.log.life(KEY).number == 1
    assert scene.log.keys == (KEY,)


def test_leader_epoch_does_not_fall():
    scene = Scene()
    scene.snapshot(leader_epoch=4)
    with pytest.raises(ViolationError, match=r"INV-SHARE-FENCE.*from 4 to 3"):
        scene.update(0, leader_epoch=3)


def test_state_epoch_does_not_fall():
    scene = Scene()
    scene.snapshot(state_epoch=4)
    with pytest.raises(ViolationError, match=r"INV-SHARE-FENCE.*from 4 to 3"):
        scene.snapshot(state_epoch=3, epoch=1)


def test_update_belongs_to_the_snapshot_before_it():
    scene = Scene()
    scene.snapshot()
    with pytest.raises(ViolationError, match="INV-SHARE-FENCE"):
        scene.update(0, epoch=7)


def kept(start=0, complete=0, leader_epoch=0, epoch=0, updates=0):
    return KeptState(ShareState(1, leader_epoch, start, complete, ()), Snapshot(epoch, 0), 0, updates)


def test_share_coordinator_has_the_states_that_its_log_tells():
    scene = Scene()
    scene.log.check_replay("node", 0, {})
    scene.snapshot()
    scene.log.check_replay("node", 0, {KEY: kept()})
    scene.update(0, leader_epoch=2)
    scene.log.check_replay("node", 0, {KEY: kept(leader_epoch=2, updates=1)})
    scene.log.check_replay("node", 1, {})
    assert scene.log.replays == 4
    scene.delete()
    scene.log.check_replay("node", 0, {})


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {KEY: kept()},
        {KEY: kept(leader_epoch=2, updates=1, complete=1)},
        {KEY: kept(leader_epoch=2, updates=1, start=1)},
        {KEY: kept(leader_epoch=2, updates=1, epoch=1)},
        {KEY: kept(leader_epoch=2, updates=1), KEY._replace(partition=1): kept()},
    ],
)
def test_share_coordinator_with_another_state_than_its_log_is_found(wrong):
    scene = Scene()
    scene.snapshot()
    scene.update(0, leader_epoch=2)
    with pytest.raises(ViolationError, match="INV-GROUP-REPLAY"):
        scene.log.check_replay("node", 0, wrong)
    scene.is_excused = True
    scene.log.check_replay("node", 0, wrong)
