from esp.replication.partition_leader import PartitionLeader
from esp.settings.topic import TopicSettings
from esp.simulation.checkers.rises import Rises
from esp.simulation.partition_tier.memory_log import MemoryLog
from tests.unit.replication.logs import ME, B, fetch, leading, state


def test_a_rise_is_remembered_once_with_the_in_sync_set_that_made_it():
    rises = Rises()
    with rises.watched():
        leader = leading([5, 5, 5], state(isr=(ME,), replicas=(ME,)))
    assert leader.log.high_watermark == 3
    assert rises.take(leader.log) == {10: 1}
    assert rises.take(leader.log) == {}


def test_an_in_sync_set_that_grows_commits_and_shrinks_within_a_turn_is_seen_as_it_was():
    rises = Rises()
    with rises.watched():
        leader = leading([5, 5, 5], state(isr=(ME,), replicas=(ME, B)), min_insync_replicas=2)
        fetch(leader, B, 3, last_epoch=5)
        assert leader.log.high_watermark == 0
        leader.update(state(isr=(ME, B), replicas=(ME, B), partition_epoch=11), 0)
        leader.update(state(isr=(ME,), replicas=(ME, B), partition_epoch=12), 0)
    assert leader.log.high_watermark == 3
    assert rises.take(leader.log) == {11: 2}


def test_a_rise_with_too_few_is_not_hidden_by_a_later_one_with_enough():
    rises, log = Rises(), MemoryLog(TopicSettings())
    rises.note(log, 1, 10)
    rises.note(log, 2, 11)
    assert rises.take(log) == {10: 1, 11: 2}


def test_nothing_is_watched_after_the_block():
    before = PartitionLeader.maybe_advance_high_watermark
    with Rises().watched():
        assert PartitionLeader.maybe_advance_high_watermark is not before
    assert PartitionLeader.maybe_advance_high_watermark is before
