import uuid
from types import SimpleNamespace

import pytest

from esp.broker.replication.hosted_partition import HostedPartition
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicId, TopicPartition


class Played:
    """A partition whose calls for waking and flushing are written down."""

    def __init__(self, **settings):
        settings = SimpleNamespace(**{"flush_messages": 2**63 - 1, "flush_ms": 2**63 - 1} | settings)
        self.log = SimpleNamespace(
            log_end_offset=0, high_watermark=0, recovery_point=0, unflushed_batches=0, settings=settings
        )
        self.woken, self.flushed = [], []
        self.hosted = HostedPartition(
            TopicPartition("t", 3), TopicId(uuid.UUID(int=7)), self.log, self.woken.append, self.flushed.append
        )

    def lead(self, epoch=4, *, advances=False):
        self.hosted.leader = SimpleNamespace(leader_epoch=epoch, maybe_advance_high_watermark=lambda: advances)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-1, None), (4, None), (3, ErrorCode.fenced_leader_epoch), (5, ErrorCode.unknown_leader_epoch)],
)
def test_only_clients_of_this_leader_epoch_or_of_none_are_served(epoch, code):
    played = Played()
    played.lead(4)
    if code is None:
        assert played.hosted.leading(epoch) is played.hosted.leader
    else:
        with pytest.raises(ApiError) as caught:
            played.hosted.leading(epoch)
        assert caught.value.code is code


def test_who_does_not_lead_serves_nobody():
    with pytest.raises(ApiError) as caught:
        Played().hosted.leading()
    assert caught.value.code is ErrorCode.not_leader_or_follower


@pytest.mark.parametrize(
    ("asked", "code"),
    [(-1, 6), (4, 6), (3, ErrorCode.fenced_leader_epoch), (5, ErrorCode.unknown_leader_epoch)],
)
def test_who_does_not_lead_tells_of_the_epoch_before_it_tells_of_the_role(asked, code):
    hosted = Played().hosted
    hosted.state = SimpleNamespace(leader_epoch=4)
    with pytest.raises(ApiError) as caught:
        hosted.leading(asked)
    assert caught.value.code == code


def test_a_replica_whose_disk_failed_says_so():
    hosted = Played().hosted
    hosted.is_offline = True
    with pytest.raises(ApiError) as caught:
        hosted.leading()
    assert caught.value.code is ErrorCode.kafka_storage_error


def test_an_append_wakes_only_if_it_committed_something_and_somebody_waits():
    played = Played()
    hosted, log = played.hosted, played.log
    hosted.appended()
    hosted.committed()
    assert not played.woken
    hosted.wait(print)
    hosted.wake()
    hosted.appended()
    assert not played.woken, "it is not committed yet"
    log.high_watermark = 1
    hosted.appended()
    hosted.committed()
    assert played.woken == [hosted] * 2


def test_the_only_waiter_is_not_woken_for_its_own_append():
    played = Played()
    hosted, log = played.hosted, played.log
    hosted.wait(print)
    log.high_watermark = 1
    hosted.appended(print)
    hosted.appended()
    assert not played.woken, "it looks by itself"
    log.high_watermark = 2
    hosted.appended(repr)
    assert played.woken == [hosted], "the append is of another one"
    hosted.wake()
    hosted.wait(repr)
    log.high_watermark = 3
    hosted.appended(print)
    assert played.woken == [hosted] * 2, "another one waits, too"


class Watcher:
    """A follower's session that writes down what it is told."""

    def __init__(self):
        self.told = []

    def on_change(self, hosted):
        self.told.append("change")

    def on_commit(self, hosted):
        self.told.append("commit")


def test_followers_are_told_of_appends_commits_and_roles():
    hosted = Played().hosted
    watcher = Watcher()
    hosted.watch(watcher)
    hosted.watch(watcher)
    hosted.appended()
    hosted.committed()
    hosted.role_changed()
    assert watcher.told == ["change", "commit", "change"]
    hosted.unwatch(watcher)
    hosted.unwatch(watcher)
    hosted.appended()
    assert len(watcher.told) == 3


def test_waiters_are_called_when_something_changed_for_them_and_only_then():
    played = Played()
    hosted, log = played.hosted, played.log
    called = []
    hosted.wait(lambda: called.append(log.high_watermark))
    log.high_watermark = 5
    hosted.wake()
    hosted.wake()
    assert called == [5]
    hosted.role_changed()
    hosted.wake()
    assert called == [5, 5]
    log.high_watermark = 3  # the log was cut
    hosted.wait(called.clear)
    hosted.forget(called.clear)
    log.high_watermark = 5
    hosted.wake()
    assert called == [5, 5, 5]


@pytest.mark.parametrize(("unflushed", "is_due"), [(2, False), (3, True), (10, True)])
def test_an_append_asks_for_a_flush_once_so_many_records_are_not_flushed(unflushed, is_due):
    played = Played(flush_messages=3)
    played.log.recovery_point = 7
    played.log.log_end_offset = 7 + unflushed
    played.hosted.appended()
    assert played.flushed == ([played.hosted] if is_due else [])


def test_a_flush_wakes_if_it_committed_something():
    played = Played()
    played.hosted.flushed()
    played.lead(advances=False)
    played.hosted.flushed()
    assert not played.woken
    played.lead(advances=True)
    played.hosted.wait(print)
    played.hosted.flushed()
    assert played.woken == [played.hosted]


def test_a_flush_is_due_when_something_has_waited_for_it_long_enough():
    played = Played(flush_ms=5)
    hosted, log = played.hosted, played.log
    assert not hosted.flush_is_due(0)
    log.unflushed_batches = 1
    assert not hosted.flush_is_due(1000)
    assert not hosted.flush_is_due(5999)
    assert hosted.flush_is_due(6000)
    hosted.flushed()
    log.unflushed_batches = 0
    assert not hosted.flush_is_due(20_000)
    log.unflushed_batches = 1
    assert not hosted.flush_is_due(21_000)


def test_a_flush_that_was_asked_for_at_an_append_and_did_not_sync_all_is_due_at_once():
    played = Played(flush_messages=1)
    played.log.log_end_offset = played.log.unflushed_batches = 3
    assert played.hosted.flush_is_due(0)
    played.log.recovery_point = 3
    assert not played.hosted.flush_is_due(0)


def test_waiters_may_forget_themselves_and_one_another_while_they_are_called():
    hosted = Played().hosted
    called = []

    def first():
        called.append("first")
        hosted.forget(first)
        hosted.forget(second)

    def second():
        called.append("second")

    def third():
        called.append("third")
        hosted.wait(fourth)

    def fourth():
        called.append("fourth")

    for waiter in (first, second, third):
        hosted.wait(waiter)
    hosted.wake()
    assert called == ["first", "third"]
    hosted.role_changed()
    hosted.wake()
    assert called == ["first", "third", "third", "fourth"]
    hosted.forget(first)
