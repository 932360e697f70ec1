"""Deliveries of leaders of share partitions: each promise broken once, and what excuses a delivery."""

import uuid
from types import SimpleNamespace

import pytest

from esp.broker.share.led_partition import Wanted
from esp.broker.share.log_reads import ReadBatches
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.schemas.share_state_records import RecordState, ShareStateKey, StateBatch
from esp.share.acknowledgements import AcknowledgementBatch, AcknowledgeType
from esp.share.acquiring import AcquiredRecords, AcquireMode, FetchedBatch
from esp.share.coordinator.requests import Write
from esp.share.partition import PersistedState, SharePartition, ShareSettings
from esp.simulation.checkers.share_checker import ShareChecker, _Read
from esp.simulation.checkers.share_state_log import NO_EPOCH, Life
from esp.simulation.checkers.violation import ViolationError

KEY = ShareStateKey("queue", TopicId(uuid.UUID(int=1)), 0)
LOCK_S = 10.0
SETTINGS = ShareSettings(
    record_lock_duration_ms=int(LOCK_S * 1000), delivery_count_limit=3, partition_max_record_locks=10
)


class Share:
    """A share partition at a leader."""

    def __init__(self, leader_epoch=1, log_start=0):
        self.key = KEY
        self.error = None
        self.core = SharePartition(PersistedState(1, 0), SETTINGS)
        self._hosted = SimpleNamespace(log=SimpleNamespace(log_start_offset=log_start))
        self._leader = SimpleNamespace(leader_epoch=leader_epoch)
        self._parts = SimpleNamespace(persister=object())


class Done:
    """The result of a write."""

    def __init__(self, error=ErrorCode.none, *, is_done=True):
        self._error = error
        self.is_done = is_done

    def done(self):
        return self.is_done

    def cancelled(self):
        return False

    def result(self):
        return self._error


class Scene:
    """One life of a share partition, and whoever leads it."""

    def __init__(self):
        self.now_s = 0.0
        self.is_excused = False
        self.leader_epoch = 1
        self.life = Life(0, 1)
        self.state = None
        self.found = []
        self.ended_epoch = NO_EPOCH
        states = SimpleNamespace(
            life=lambda _key, _epoch=None: self.life,
            state=lambda _key: self.state,
            ended_epoch=lambda _key: self.ended_epoch,
        )
        self.checker = ShareChecker(
            states,
            lambda: self.now_s,
            lambda _key: self.is_excused,
            lambda _key: self.leader_epoch,
            self.found.append,
            lambda check: check(),
        )

    def deliver(self, share, member_id, *pieces):
        read = ReadBatches(0, b"", (FetchedBatch(0, 10),), (0,))
        records = [AcquiredRecords(*piece) for piece in pieces]
        self.checker._on_acquired(share, read, Wanted(member_id, 10, 10, AcquireMode.BATCH_OPTIMIZED), records)

    def persist(self, *batches):
        """Let the log have these counts of available records."""
        available = [StateBatch(start, end, RecordState.AVAILABLE, count) for start, end, count in batches]
        self.state = SimpleNamespace(start_offset=0, batches=available)
        return available

    def read(self, share, *batches, number=1):
        """Let a leader have read these counts."""
        leader_epoch = share._leader.leader_epoch
        self.checker._on_read(share._parts.persister, KEY, _Read(number, leader_epoch, self.persist(*batches)))

    def say(self, share, member_id, type_, offset, future):
        self.checker._on_words(share, member_id, [AcknowledgementBatch(offset, offset, [type_])], future)


def test_record_of_one_member_goes_to_another_when_its_lock_is_over():
    scene, share = Scene(), Share()
    scene.deliver(share, "a", (0, 2, 1))
    scene.now_s = LOCK_S
    scene.deliver(share, "b", (0, 2, 2))
    assert (scene.checker.delivered, scene.checker.delivered_again) == (4, 2)


def test_record_has_one_member():
    scene, share = Scene(), Share()
    scene.deliver(share, "a", (0, 2, 1))
    with pytest.raises(ViolationError, match=r"INV-SHARE-ONE.*b gets 1"):
        scene.deliver(share, "b", (1, 2, 2))


def test_released_record_is_free_once_that_is_written():
    scene, share, write = Scene(), Share(), Done(is_done=False)
    scene.deliver(share, "a", (0, 1, 1))
    scene.say(share, "a", AcknowledgeType.RELEASE, 0, write)
    with pytest.raises(ViolationError, match="INV-SHARE-ONE"):
        scene.deliver(share, "b", (0, 1, 2))
    write.is_done = True
    scene.deliver(share, "b", (0, 1, 2))


def test_end_of_a_session_frees_its_records():
    scene, share = Scene(), Share()
    scene.deliver(share, "a", (0, 1, 1))
    scene.checker._on_released(share, "a")
    scene.deliver(share, "b", (0, 1, 2))


def test_renewed_lock_begins_again():
    scene, share = Scene(), Share()
    scene.deliver(share, "a", (0, 1, 1))
    scene.now_s = LOCK_S / 2
    scene.say(share, "a", AcknowledgeType.RENEW, 0, None)
    scene.now_s = LOCK_S
    with pytest.raises(ViolationError, match="INV-SHARE-ONE"):
        scene.deliver(share, "b", (0, 1, 2))


@pytest.mark.parametrize("type_", [AcknowledgeType.ACCEPT, AcknowledgeType.REJECT])
def test_record_that_is_done_with_does_not_come_back_at_the_next_leader(type_):
    scene, share = Scene(), Share()
    scene.deliver(share, "a", (0, 1, 1))
    scene.say(share, "a", type_, 0, Done())
    assert scene.life.reasons == {0}
    with pytest.raises(ViolationError, match="INV-SHARE-ACK"):
        scene.deliver(Share(), "b", (0, 1, 1))


def test_record_whose_write_failed_comes_back():
    scene, share = Scene(), Share()
    scene.deliver(share, "a", (0, 1, 1))
    scene.say(share, "a", AcknowledgeType.ACCEPT, 0, Done(ErrorCode.coordinator_not_available))
    scene.deliver(Share(), "b", (0, 1, 1))


def test_replaced_leader_may_deliver_what_was_accepted():
    scene, former, share = Scene(), Share(), Share(leader_epoch=2)
    scene.leader_epoch = 2
    scene.deliver(share, "a", (0, 1, 1))
    scene.say(share, "a", AcknowledgeType.ACCEPT, 0, Done())
    scene.deliver(former, "b", (0, 1, 1))
    assert scene.checker.replaced == 1


def test_alteration_lets_accepted_records_come_back():
    scene, share = Scene(), Share()
    scene.deliver(share, "a", (0, 1, 1))
    scene.say(share, "a", AcknowledgeType.ACCEPT, 0, Done())
    scene.life = Life(1, 2)
    scene.deliver(Share(), "b", (0, 1, 1))


def test_member_is_believed_what_it_was_answered():
    scene = Scene()
    scene.life.words = {0: "a", 1: "a", 2: "b"}
    scene.checker.on_done(KEY, "a", scene.life, [0, 2])
    scene.checker.on_done(KEY, "a", Life(7, 1), [1])
    assert scene.life.done == {0}
    with pytest.raises(ViolationError, match="INV-SHARE-ACK"):
        scene.deliver(Share(), "b", (0, 1, 1))
    scene.deliver(Share(), "b", (1, 2, 1))


def test_deliveries_are_counted_one_by_one():
    scene, share = Scene(), Share()
    scene.deliver(share, "a", (0, 1, 1))
    scene.now_s = LOCK_S
    with pytest.raises(ViolationError, match="INV-SHARE-COUNT"):
        scene.deliver(share, "b", (0, 1, 3))


def test_leader_counts_on_from_the_state_that_it_has_read():
    scene, share = Scene(), Share()
    scene.read(share, (0, 2, 2), (4, 5, 1))
    scene.deliver(share, "a", (0, 2, 3), (2, 4, 1), (4, 5, 2), (5, 6, 1))
    for piece in ((0, 1, 1), (1, 2, 2), (4, 5, 1), (5, 6, 2)):
        share = Share()
        scene.read(share, (0, 2, 2), (4, 5, 1))
        with pytest.raises(ViolationError, match=r"INV-SHARE-COUNT.*follows the persisted count"):
            scene.deliver(share, "a", piece)


def test_read_that_is_answered_late_is_of_a_leader_that_has_ended():
    scene, share = Scene(), Share()
    scene.read(share, (0, 1, 2), number=7)
    scene.read(share, (0, 1, 1), number=6)
    scene.deliver(share, "a", (0, 1, 3))


def test_record_that_was_given_back_has_its_attempt_in_the_log():
    scene, share = Scene(), Share()
    scene.persist()
    scene.deliver(share, "a", (0, 2, 1))
    scene.say(share, "a", AcknowledgeType.RELEASE, 0, Done())
    scene.say(share, "a", AcknowledgeType.RELEASE, 1, Done())
    scene.persist((0, 1, 1))
    scene.deliver(share, "b", (0, 1, 2))
    with pytest.raises(ViolationError, match=r"INV-SHARE-COUNT.*1 was given back after delivery 1.*count is 0"):
        scene.deliver(share, "b", (1, 2, 2))


@pytest.mark.parametrize("end", ["of the lock", "of the session"])
def test_attempt_that_ended_by_itself_need_not_be_persisted_and_is_one_more(end):
    scene, share = Scene(), Share()
    scene.persist()
    for count in (1, 2, 3):
        scene.deliver(share, "a", (0, 1, count))
        scene.now_s += LOCK_S if end == "of the lock" else 0
        scene.checker._on_released(share, "a")
    assert scene.life.attempts[0].unwritten == 2
    for number in range(3):  # each of them is one more change of leader
        scene.deliver(Share(), "a", (0, 1, 1))
        assert scene.life.attempts[0].leaders == number + 2


def test_more_deliveries_than_the_limit_and_the_changes_of_leader_are_found():
    scene, share, following = Scene(), Share(), Share()
    scene.persist((0, 1, 3))
    for count in (1, 2, 3):
        scene.deliver(share, "a", (0, 1, count))
        scene.now_s += LOCK_S
    scene.deliver(following, "a", (0, 1, 1))
    scene.now_s += LOCK_S
    with pytest.raises(ViolationError, match=r"INV-SHARE-COUNT.*0 is delivered 5 times, by 2 leaders"):
        scene.deliver(following, "a", (0, 1, 2))


@pytest.mark.parametrize("why", ["replaced", "excused", "altered"])
def test_deliveries_of_leaders_that_do_not_count_are_not_judged(why):
    scene, share = Scene(), Share()
    scene.deliver(share, "a", (0, 1, 1))
    scene.say(share, "a", AcknowledgeType.RELEASE, 0, Done())
    scene.persist()
    if why == "replaced":
        scene.leader_epoch = 2
    elif why == "excused":
        scene.is_excused = True
    else:
        scene.life = Life(1, 2)
    scene.deliver(share, "b", (0, 1, 2))


def test_last_attempt_is_a_reason_and_no_more_follow():
    scene, share = Scene(), Share()
    scene.deliver(share, "a", (0, 1, 3))
    assert scene.life.reasons == {0}
    with pytest.raises(ViolationError, match="INV-SHARE-COUNT"):
        scene.deliver(share, "a", (1, 2, 4))


def test_nothing_below_the_log_start_is_delivered():
    scene = Scene()
    with pytest.raises(ViolationError, match="INV-SPSO"):
        scene.deliver(Share(log_start=1), "a", (0, 1, 1))


def test_late_writes_do_not_count():
    scene = Scene()
    scene.checker._on_written(Write(KEY, 1, 4, 0, 0, ()), 4, scene.life)
    with pytest.raises(ViolationError, match=r"INV-SHARE-FENCE.*leader epoch 3"):
        scene.checker._on_written(Write(KEY, 1, 3, 0, 0, ()), 4, scene.life)
    with pytest.raises(ViolationError, match=r"INV-SHARE-FENCE.*state epoch 0"):
        scene.checker._on_written(Write(KEY, 0, 4, 0, 0, ()), 4, scene.life)
    scene.is_excused = True
    scene.checker._on_written(Write(KEY, 0, 3, 0, 0, ()), 4, scene.life)


def test_reads_of_a_state_before_its_deletion_fence_no_write_to_the_next_one():
    """A leader that was replaced, and does not know it, may be the first to read the state that a new group begins."""
    scene = Scene()
    scene.checker._read_epochs[KEY] = {1: 5, 19: 3}
    for ended_epoch, state_epoch, leader_epoch, counts in (
        (1, 19, 3, True),
        (1, 19, 2, False),
        (1, 1, 3, False),
        (NO_EPOCH, 19, 3, False),
    ):
        scene.ended_epoch = ended_epoch
        on_written = scene.checker.judge(Write(KEY, state_epoch, leader_epoch, 0, 0, ()))
        if counts:
            on_written()
        else:
            with pytest.raises(ViolationError, match=rf"INV-SHARE-FENCE.*leader epoch {leader_epoch}"):
                on_written()


def test_lock_without_a_timer_is_found():
    scene, share = Scene(), Share()
    share.core.acquire("a", [FetchedBatch(0, 2)], 0, 0, records_max=2, batch_size=2)
    scene.checker._check_held(KEY, share.core, None)
    share.core._next_lock_us = None
    with pytest.raises(ViolationError, match="INV-SHARE-LOCK"):
        scene.checker._check_held(KEY, share.core, None)


def test_records_are_held_by_open_sessions():
    scene, share = Scene(), Share()
    share.core.acquire("a", [FetchedBatch(0, 2)], 0, 0, records_max=2, batch_size=2)
    leaders = SimpleNamespace(_sessions=SimpleNamespace(_sessions={}), _to_release={})
    with pytest.raises(ViolationError, match="INV-SHARE-SESSION"):
        scene.checker._check_held(KEY, share.core, leaders)
