"""A share coordinator: Kafka's answers, the order of answers, snapshots, pruning, and logs that lack parts."""

import uuid
from dataclasses import replace

import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.schemas.share_state_records import (
    RecordState,
    ShareSnapshotRecord,
    ShareStateKey,
    ShareUpdateRecord,
    StateBatch,
)
from esp.share.coordinator.requests import Done, Refused
from esp.share.persister import PersistedRead, PersistedSummary
from tests.unit.share.coordinator.world import KEY, SETTINGS, TOPIC, World, accepted

FENCED_LEADER, FENCED_STATE = ErrorCode.fenced_leader_epoch, ErrorCode.fenced_state_epoch
INVALID, UNKNOWN = ErrorCode.invalid_request, ErrorCode.unknown_topic_or_partition
UNAVAILABLE = ErrorCode.coordinator_not_available
COLD, OTHER = KEY._replace(group_id="cold"), KEY._replace(group_id="other")


def begun(**options):
    """A world in which the share partition is initialised."""
    world = World(**options)
    world.begin()
    return world


def error_of(result):
    return result.error if isinstance(result, Refused) else ErrorCode.none


def test_nothing_is_known_of_a_share_partition_that_was_not_initialized():
    world = World()
    assert world.read() == Refused(INVALID, "Read operation on uninitialized share partition not allowed.")
    assert world.write() == Refused(INVALID, "Write operation on uninitialized share partition not allowed.")
    assert world.summary() == PersistedSummary(0, 0, -1, -1)
    assert world.delete() == Done()
    assert world.log == []
    assert world.coordinator._entries == {}


def test_written_states_are_read():
    world = begun()
    assert world.read() == PersistedRead(1, -1, ())
    assert world.write(accepted(12, 14), start_offset=10, complete_count=2) == Done()
    assert world.write(accepted(14, 15), start_offset=10, complete_count=3) == Done()
    assert world.read() == PersistedRead(1, 10, (accepted(12, 15),))
    assert world.summary() == PersistedSummary(1, 0, 10, 3)


@pytest.mark.parametrize(("start_offset", "complete_count"), [(-1, -1), (0, 0), (30, 0)])
def test_state_begins_where_it_is_asked_for(start_offset, complete_count):
    world = World()
    assert world.begin(state_epoch=4, start_offset=start_offset) == Done()
    assert world.summary() == PersistedSummary(4, 0, start_offset, complete_count)


def test_reader_of_a_newer_epoch_shuts_out_the_leader_before():
    world = begun()
    assert world.read(leader_epoch=3) == PersistedRead(1, -1, ())
    assert error_of(world.read(leader_epoch=2)) is FENCED_LEADER
    assert error_of(world.write(leader_epoch=2)) is FENCED_LEADER
    assert world.read(leader_epoch=-1) == PersistedRead(1, -1, ())
    update = world.records[-1]
    assert isinstance(update, ShareUpdateRecord)
    assert (update.value.leader_epoch, update.value.batches) == (3, ())
    assert error_of(world.restart().write(leader_epoch=2)) is FENCED_LEADER


def test_leader_epoch_is_looked_at_before_the_state_epoch():
    world = begun()
    world.read(leader_epoch=3)
    assert error_of(world.write(state_epoch=0, leader_epoch=2)) is FENCED_LEADER
    assert error_of(world.write(state_epoch=0, leader_epoch=3)) is FENCED_STATE


def test_writes_of_before_an_alteration_are_refused():
    world = begun()
    world.write(accepted(0, 9), start_offset=9)
    assert world.begin(state_epoch=2, start_offset=4) == Done()
    assert error_of(world.write(accepted(9, 10), start_offset=9, state_epoch=1)) is FENCED_STATE
    assert world.read() == PersistedRead(2, 4, ())
    assert error_of(world.begin(state_epoch=1, start_offset=0)) is FENCED_STATE


def test_leader_that_was_shut_out_stays_so_over_an_alteration_and_a_restart():
    world = begun()
    world.read(leader_epoch=4)
    world.begin(state_epoch=2, start_offset=0)
    for one in (world, world.restart()):
        assert error_of(one.write(state_epoch=2, leader_epoch=3)) is FENCED_LEADER


@pytest.mark.parametrize("start_offset", [-1, 0])
def test_initializing_that_comes_late_a_second_time_leaves_what_was_written(start_offset):
    world = World()
    for is_written in (False, True):
        assert world.begin(start_offset=start_offset) == Done()
        if not is_written:
            world.write(accepted(5, 6), start_offset=3)
    assert world.read() == PersistedRead(1, 3, (accepted(5, 6),))


def test_write_that_arrives_late_does_not_move_the_start_back():
    world = begun()
    world.write(accepted(12, 13), start_offset=10, complete_count=1)
    assert world.write(accepted(5, 10), start_offset=5, complete_count=5) == Done()
    assert world.read() == PersistedRead(1, 10, (accepted(12, 13),))
    assert world.summary().complete_count == 1


def test_topics_that_are_not_there():
    world = World()
    gone = KEY._replace(topic_id=TopicId(uuid.UUID(int=9)))
    for key in (gone, KEY._replace(partition=9)):
        assert error_of(world.begin(key)) is UNKNOWN
        assert error_of(world.delete(key)) is UNKNOWN
        assert error_of(world.summary(key)) is UNKNOWN
        assert error_of(world.read(key)) is INVALID
        assert error_of(world.write(key=key)) is INVALID
    negative = KEY._replace(partition=-1)
    message = "The partition id cannot be a negative number."
    for ask in (world.initialize, world.delete, world.summary, world.read):
        assert ask(negative) == Refused(INVALID, message)


@pytest.mark.parametrize(
    "options",
    [
        {"batch": StateBatch(3, 5, RecordState.ACQUIRED, 1)},
        {"batch": StateBatch(-1, 5, RecordState.ACKNOWLEDGED, 1)},
        {"batch": StateBatch(5, 5, RecordState.ACKNOWLEDGED, 1)},
        {"batch": StateBatch(5, 6, RecordState.ACKNOWLEDGED, -1)},
        {"start_offset": -2},
        {"complete_count": -2},
    ],
)
def test_write_of_what_cannot_be_is_refused(options):
    world = begun()
    batches = (options.pop("batch"),) if "batch" in options else ()
    assert error_of(world.write(*batches, **options)) is INVALID
    assert len(world.log) == 1


@pytest.mark.parametrize(("state_epoch", "start_offset"), [(-1, 0), (1, -2)])
def test_state_does_not_begin_with_what_cannot_be(state_epoch, start_offset):
    assert error_of(World().initialize(state_epoch=state_epoch, start_offset=start_offset)) is INVALID


def test_leader_of_a_deleted_state_writes_nothing_into_the_one_that_follows():
    world = begun()
    assert world.write(accepted(5, 6)) == Done()
    world.delete()
    world.initialize()
    assert error_of(world.write(accepted(5, 9))) is FENCED_STATE, "of the same epochs"
    assert error_of(world.restart().write(accepted(5, 9))) is FENCED_STATE
    assert world.read() == PersistedRead(1, -1, ())
    assert world.write(accepted(0, 1)) == Done()


def test_leader_that_has_read_writes_at_the_next_coordinator_too():
    world = begun()
    world.write(accepted(5, 6))
    assert world.restart().write(accepted(6, 7)) == Done()


def test_newer_state_epoch_is_that_of_a_state_before():
    world = begun()
    assert error_of(world.write(accepted(5, 6), state_epoch=2)) is FENCED_STATE


# The log.


def test_nothing_is_answered_before_it_is_committed():
    world = begun()
    world.is_stuck = True
    assert world.write(accepted(5, 6), start_offset=0) is None
    assert world.read() is None
    assert world.write(accepted(6, 7), start_offset=0) is None
    assert world.write(state_epoch=0) is None
    assert len(world.log) == 2, "what comes meanwhile waits"
    world.commit(1)
    assert list(world.answers) == [1, 2, 3]
    assert world.answers[3] == Done()
    world.commit()
    assert list(world.answers) == [1, 2, 3, 4, 5, 6]
    assert world.answers[4] == PersistedRead(1, 0, (accepted(5, 6),))
    assert world.answers[6] == Refused(FENCED_STATE)
    assert len(world.log) == 3, "what waited was decided together"


def test_failed_append_changes_nothing():
    world = begun()
    world.failing = ErrorCode.not_enough_replicas
    assert error_of(world.write(accepted(5, 6), start_offset=5)) is UNAVAILABLE
    assert error_of(world.read(leader_epoch=2)) is UNAVAILABLE
    world.failing = None
    assert world.read() == PersistedRead(1, -1, ())


def test_answer_that_waits_too_long_is_given_up_and_its_record_counts_all_the_same():
    world = begun()
    world.is_stuck = True
    world.write(accepted(5, 6), start_offset=0)
    world.write(accepted(6, 7), start_offset=0)
    world.pass_time(SETTINGS.write_timeout_ms)
    assert [error_of(world.answers[ticket]) for ticket in (3, 4)] == [UNAVAILABLE, UNAVAILABLE]
    world.is_stuck = False
    world.commit()
    assert world.read() == PersistedRead(1, 0, (accepted(5, 6),)), "the second write was not decided any more"


def test_open_requests_are_sent_to_the_next_coordinator():
    world = begun()
    world.is_stuck = True
    world.write(accepted(5, 6))
    world.read()
    world.do(world.coordinator.unload())
    assert [error_of(world.answers[ticket]) for ticket in (3, 4)] == [ErrorCode.not_coordinator] * 2


def test_snapshot_follows_updates():
    world = begun()
    for offset in range(5):
        world.write(accepted(offset * 2, offset * 2 + 1), start_offset=0)
    kinds = [type(record) for record in world.records]
    assert kinds == [ShareSnapshotRecord, *[ShareUpdateRecord] * 3, ShareSnapshotRecord, ShareUpdateRecord]
    assert [record.value.snapshot_epoch for record in world.records] == [0, 0, 0, 0, 1, 1]
    assert world.records[3].value.batches == (accepted(4, 5),)
    assert world.records[4].value.batches == tuple(accepted(offset * 2, offset * 2 + 1) for offset in range(4))


def test_state_that_was_deleted_is_gone():
    world = begun()
    world.write(accepted(5, 6), start_offset=0)
    assert world.delete() == Done()
    assert world.records[-1] == ShareSnapshotRecord(KEY, None)
    for one in (world, world.restart()):
        assert error_of(one.read()) is INVALID
        assert one.summary() == PersistedSummary(0, 0, -1, -1)
    assert world.begin(state_epoch=0) == Done()
    assert world.records[-1].value.snapshot_epoch == 0


def test_state_ends_with_its_topic_but_not_in_the_trash():
    world = begun()
    world.topics.there.clear()
    world.topics.trashed.add(TOPIC)
    world.do(world.coordinator.on_topics_gone(world.now))
    assert error_of(world.read()) is UNKNOWN
    assert len(world.log) == 1
    world.topics.trashed.clear()
    world.do(world.coordinator.on_topics_gone(world.now))
    assert world.records[-1] == ShareSnapshotRecord(KEY, None)


def test_state_of_a_topic_that_went_while_nobody_coordinated_ends_at_the_load():
    world = begun()
    world.topics.there.clear()
    assert world.restart().records[-1] == ShareSnapshotRecord(KEY, None)


def test_tombstone_that_failed_is_tried_again():
    world = begun()
    world.topics.there.clear()
    world.failing = ErrorCode.not_enough_replicas
    world.do(world.coordinator.on_topics_gone(world.now))
    world.failing = None
    assert len(world.log) == 1
    world.pass_time(SETTINGS.cold_snapshot_interval_ms)
    assert world.records[-1] == ShareSnapshotRecord(KEY, None)


def test_updates_without_their_snapshot_are_no_state():
    world = begun()
    world.write(accepted(5, 6), start_offset=0)
    other = World(log=world.log[1:])
    assert error_of(other.read()) is INVALID
    assert other.coordinator.orphans == {KEY}


def test_update_of_another_snapshot_does_not_count():
    world = begun()
    for offset in range(5):
        world.write(accepted(offset, offset + 1), start_offset=0)
    log = [*world.log[:1], *world.log[5:]]
    assert World(log=log).read() == PersistedRead(1, -1, ())


def test_records_of_other_types_are_skipped():
    world = begun()
    (offset, record) = world.log[0]
    strange = record._replace(key=b"\x00\x09" + record.key[2:])
    keyless = record._replace(key=None)
    other = World(log=[(offset, record), (1, strange), (2, keyless)])
    assert other.read() == PersistedRead(1, -1, ())
    assert other.end == 3


# Pruning (SHARE-22).


def write_much(world, key=KEY):
    """Write until more of the log is garbage than is worth keeping."""
    for offset in range(SETTINGS.garbage_min * 2):
        world.write(accepted(offset, offset + 1), key=key, start_offset=offset)


def test_log_is_cut_below_the_oldest_snapshot():
    world = begun()
    world.write(accepted(0, 1), start_offset=0)
    world.pass_time(SETTINGS.prune_interval_ms)
    assert world.pruned == []
    for offset in range(3, 8):
        world.write(accepted(offset, offset + 1), start_offset=0)
    world.pass_time(SETTINGS.prune_interval_ms)
    assert world.pruned == [4]
    assert world.restart().read() == world.read()


def test_snapshot_counts_when_it_is_committed():
    world = begun()
    world.is_stuck = True
    world.begin(state_epoch=2, start_offset=0)
    assert world.coordinator.prune_offset == 0
    world.commit()
    assert world.coordinator.prune_offset == 1


def test_log_without_states_is_cut_as_far_as_it_is_committed():
    world = begun()
    world.delete()
    world.is_stuck = True
    world.begin(COLD)
    assert (world.coordinator.prune_offset, world.committed, world.end) == (2, 2, 3)


def test_cold_snapshots_are_written_again_so_that_the_log_can_be_cut():
    world = begun()
    world.begin(COLD)
    world.begin(OTHER)
    write_much(world)
    world.pass_time(SETTINGS.prune_interval_ms)
    before = [world.summary(key) for key in (COLD, OTHER)]
    fresh = world.log[-3:]
    assert {record.key.group_id for record in world.records[-3:]} == {"g", "cold", "other"}
    world.pass_time(SETTINGS.prune_interval_ms)
    assert world.pruned == [1, fresh[0][0]]
    assert [world.restart().summary(key) for key in (COLD, OTHER)] == before


def test_each_record_of_a_batch_counts_with_its_own_place():
    world = begun()
    world.begin(COLD)
    write_much(world)
    world.is_stuck = True
    world.pass_time(SETTINGS.cold_snapshot_interval_ms)
    assert len(world.waiting) == 1
    world.commit()
    assert world.coordinator.prune_offset == world.log[-2][0]


def test_cold_snapshots_of_a_log_without_garbage_stay_where_they_are():
    world = begun()
    world.begin(COLD)
    for _ in range(3):
        world.pass_time(SETTINGS.cold_snapshot_interval_ms)
    assert len(world.log) == 2


def test_many_records_are_appended_in_several_batches():
    world = World(settings=replace(SETTINGS, garbage_min=1))
    batches = tuple(accepted(offset * 2, offset * 2 + 1) for offset in range(2_500))
    keys = [ShareStateKey(f"g{number}", TOPIC, 0) for number in range(6)]
    for key in keys:
        world.begin(key, start_offset=0)
        world.write(*batches, key=key)
    for state_epoch in range(1, 21):
        world.begin(state_epoch=state_epoch, start_offset=0)
    world.is_stuck = True
    world.pass_time(SETTINGS.cold_snapshot_interval_ms)
    assert len(world.waiting) == 3
    world.commit()
    assert {world.restart().summary(key) for key in keys} == {world.summary(keys[0])}
