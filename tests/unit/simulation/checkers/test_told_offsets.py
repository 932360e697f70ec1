"""What clients are told of offsets is held against what others were told before."""

import pytest

from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.told_offsets import REPLACED_S, Asked, Position, Role, ToldOffsets
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, tallied
from tests.unit.simulation.checkers.scenes import KEY
from tests.unit.storage.helpers import PARTITION, TOPIC_ID

COMMITTED = 100


class Scene:
    """One partition of which 100 offsets are committed; leader epochs 3 and 4 are led by the nodes 3 and 4."""

    def __init__(self):
        self.now_s = 0.0
        self.newest_epoch = 4
        self.log_start = 0
        self.committed = CommittedLog(PARTITION, TOPIC_ID)
        self.committed.end_offset = COMMITTED
        self.told = ToldOffsets(
            {KEY: self.committed}, lambda *_key: self.newest_epoch, lambda _key: self.log_start, lambda: self.now_s
        )

    def asked(self, epoch=4, *, named=-1, sent_s=None, is_leader=True, role=...):
        role = Role(1, is_leader, epoch) if role is ... else role
        self.now_s += 1
        return Asked("asker", KEY, epoch, self.now_s - 0.5 if sent_s is None else sent_s, role, named), role

    def latest(self, offset, epoch=4, **asked):
        self.told.on_latest(*self.asked(epoch, **asked), offset, epoch)

    def fetched(self, high_watermark, epoch=4, *, log_start=0, reads=(), **asked):
        self.told.on_fetched(*self.asked(epoch, **asked), high_watermark, log_start, list(reads))


def violation(invariant, says=""):
    return pytest.raises(ViolationError, match=f"^{invariant} at .*{says}")


def test_latest_offsets_rise_from_epoch_to_epoch():
    scene = Scene()
    scene.latest(50, 3)
    scene.latest(50, 4)
    scene.latest(60, 4)
    assert scene.told.answers == 3


@pytest.mark.parametrize("epoch", [3, 4])
def test_latest_offset_that_goes_back_is_found(epoch):
    scene = Scene()
    scene.latest(50, 3)
    with violation("INV-READ-MONO", "answered in epoch"):
        scene.latest(49, epoch)


def test_answer_under_way_when_another_one_came_may_be_behind_it_in_one_epoch():
    scene = Scene()
    scene.latest(50, 4)
    scene.latest(49, 4, sent_s=0.2)


def test_answer_of_a_later_epoch_is_never_behind_an_earlier_one():
    scene = Scene()
    scene.latest(50, 3)
    with violation("INV-READ-MONO"):
        scene.latest(49, 4, sent_s=0.2)


def test_latest_offset_is_not_behind_what_was_acknowledged():
    scene = Scene()
    scene.now_s = 1
    scene.told.on_ack(KEY, 70)
    with violation("INV-READ-MONO"):
        scene.latest(69)


def test_replaced_leader_may_be_behind_and_is_counted():
    scene = Scene()
    scene.latest(50, 4)
    scene.latest(20, 3)
    assert scene.told.stale == 1


def test_offset_that_is_not_committed_is_found():
    scene = Scene()
    with violation("INV-READ-COMMITTED-HW"):
        scene.latest(COMMITTED + 1)
    with violation("INV-READ-COMMITTED-HW"):
        scene.fetched(COMMITTED + 1, is_leader=False)


def test_high_watermark_of_a_new_leader_may_lag_until_it_has_told_the_latest_offset():
    scene = Scene()
    scene.fetched(50, 3)
    scene.fetched(40, 4)
    scene.latest(50, 4)
    with violation("INV-READ-MONO", "high watermark 49, after 50"):
        scene.fetched(49, 4)


def test_high_watermark_of_one_leader_does_not_fall():
    scene = Scene()
    scene.fetched(40, 4)
    with violation("INV-READ-MONO"):
        scene.fetched(39, 4)


def test_follower_may_be_behind_its_leader():
    scene = Scene()
    scene.latest(50, 4)
    scene.fetched(10, 4, is_leader=False)


def test_what_a_follower_told_counts():
    scene = Scene()
    scene.fetched(50, 4, is_leader=False)
    with violation("INV-READ-MONO"):
        scene.latest(49)


def test_answer_for_another_epoch_than_was_named_is_found():
    scene = Scene()
    with violation("INV-READ-EPOCH"):
        scene.fetched(10, 3, named=4)
    with violation("INV-READ-EPOCH"):
        scene.latest(10, 3, named=4)


def test_broker_that_changed_its_role_is_held_against_what_is_committed_only():
    scene = Scene()
    scene.latest(50, 4)
    asked, _ = scene.asked(3)
    scene.told.on_fetched(asked, Role(1, False, 4), 10, 0, [])
    assert scene.told.unplaced == 1
    with violation("INV-READ-COMMITTED-HW"):
        scene.told.on_fetched(asked, None, COMMITTED + 1, 0, [])


def test_broker_that_did_not_have_the_partition_may_speak_of_an_older_topic_of_the_name():
    scene = Scene()
    scene.latest(COMMITTED + 1, role=None)
    assert (scene.told.answers, scene.told.unplaced) == (0, 1)


@pytest.mark.parametrize("reason", ["excused", "deleted"])
def test_nothing_is_asked_of_a_partition_that_is_excused_or_gone(reason):
    scene = Scene()
    if reason == "excused":
        scene.committed.is_excused = True
    else:
        scene.newest_epoch = -1
    with tallied() as excuses:
        scene.latest(COMMITTED + 1)
    assert scene.told.answers == 0
    assert excuses == ({} if reason == "excused" else {"answers_of_deleted": 1})


# Log starts.


def test_log_start_of_one_leader_does_not_fall():
    scene = Scene()
    scene.fetched(50, log_start=7)
    with violation("INV-READ-MONO", "log start 6, after 7"):
        scene.told.on_earliest(*scene.asked(), 6)


def test_log_start_of_the_next_leader_may_be_lower_and_is_counted():
    scene = Scene()
    scene.fetched(50, 3, log_start=7)
    scene.fetched(50, 4, log_start=6)
    assert scene.told.lower_starts == 1


# Offsets out of range.


@pytest.mark.parametrize("named", [-1, 4])
def test_offset_that_was_told_is_never_out_of_range(named):
    scene = Scene()
    scene.latest(50, 3)
    with violation("INV-READ-POSITION"):
        scene.told.on_out_of_range(*scene.asked(4, named=named, is_leader=False), 50)


def test_offset_beyond_what_was_told_or_below_a_log_start_may_be_out_of_range():
    scene = Scene()
    scene.latest(50)
    scene.log_start = 10
    scene.told.on_out_of_range(*scene.asked(), 51)
    scene.told.on_out_of_range(*scene.asked(), 9)


def test_reader_that_names_the_epoch_before_a_log_start_may_be_out_of_range_and_is_counted():
    scene = Scene()
    scene.fetched(50)
    scene.log_start = 10
    with tallied() as excuses:
        scene.told.on_out_of_range(*scene.asked(4), 10, 3)
    assert excuses == {Excuse.FORGOTTEN_EPOCHS: 1}
    for offset, last_epoch in ((10, -1), (11, 3)):
        with violation("INV-READ-POSITION"):
            scene.told.on_out_of_range(*scene.asked(4), offset, last_epoch)


def test_replaced_leader_may_deny_an_offset_for_a_while():
    scene = Scene()
    scene.latest(50, 4)
    scene.told.on_out_of_range(*scene.asked(3), 50)
    assert scene.told.stale == 1
    scene.now_s += REPLACED_S
    with violation("INV-READ-POSITION", "replaced"):
        scene.told.on_out_of_range(*scene.asked(3), 50)


# Times.


def test_record_of_a_time_is_found_where_it_is_known_to_be_or_before():
    scene = Scene()
    scene.now_s = 1
    scene.told.on_record(KEY, 1000, 20)
    assert scene.told.known_time(KEY, 0.99) == 1000
    scene.told.on_time(*scene.asked(), 1000, 1000, 20)
    scene.told.on_time(*scene.asked(), 1000, 1001, 19)


@pytest.mark.parametrize("offset", [-1, 21])
def test_record_of_a_time_that_is_not_found_any_more_is_missed(offset):
    scene = Scene()
    scene.now_s = 1
    scene.told.on_record(KEY, 1000, 20)
    with violation("INV-READ-MONO"):
        scene.told.on_time(*scene.asked(), 1000, 1000, offset)
    scene.log_start = 21  # retention has taken it
    scene.told.on_time(*scene.asked(), 1000, 1000, offset)


def test_record_that_is_older_than_was_asked_for_is_found():
    with violation("INV-READ-MONO"):
        scene = Scene()
        scene.told.on_time(*scene.asked(), 1000, 999, 20)


def test_largest_time_does_not_fall():
    scene = Scene()
    scene.told.on_max_timestamp(*scene.asked(3), 1000, 20)
    with violation("INV-READ-MONO"):
        scene.told.on_max_timestamp(*scene.asked(4), 999, 19)
    scene.log_start = 21
    scene.told.on_max_timestamp(*scene.asked(4), 999, 22)


def test_largest_time_that_is_not_committed_is_counted():
    scene = Scene()
    scene.told.on_max_timestamp(*scene.asked(), -1, -1)
    assert scene.told.unknown_newest == 1


# Epochs.

READ = (10, Position(20, 3))


def test_epoch_reaches_as_far_as_it_was_read():
    scene = Scene()
    scene.fetched(50, 3, reads=[READ])
    scene.told.on_epoch_end(*scene.asked(4), 3, 3, 20)


@pytest.mark.parametrize(("epoch", "end_offset"), [(3, 19), (2, 20), (-1, -1)])
def test_epoch_that_ends_before_what_was_read_of_it_is_found(epoch, end_offset):
    scene = Scene()
    scene.fetched(50, 3, reads=[READ])
    with violation("INV-EPOCH-END"):
        scene.told.on_epoch_end(*scene.asked(4), 3, epoch, end_offset)


def test_epoch_that_ends_beyond_the_first_record_of_a_later_one_is_found():
    scene = Scene()
    scene.fetched(50, 3, reads=[READ])
    with violation("INV-EPOCH-END", "stands a record of epoch 3"):
        scene.told.on_epoch_end(*scene.asked(4), 2, 2, 11)


def test_leader_of_before_does_not_know_what_was_read_later():
    scene = Scene()
    scene.fetched(50, 4, reads=[(10, Position(20, 4))])
    scene.told.on_epoch_end(*scene.asked(3), 4, -1, -1)
    scene.told.on_epoch_end(*scene.asked(3), 3, 3, 15)


def test_reader_of_committed_records_does_not_diverge():
    scene = Scene()
    scene.fetched(50, 3, reads=[READ])
    with violation("INV-EPOCH-END"):
        scene.told.on_diverging(*scene.asked(4), Position(20, 3), 3, 19)
    scene.told.on_diverging(*scene.asked(4), Position(21, 3), 3, 20)
