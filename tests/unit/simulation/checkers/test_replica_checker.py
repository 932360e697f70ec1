"""Replicas that contradict one another, or themselves, are found in the turn in which they do."""

import uuid
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from esp.model.errors import CorruptionError
from esp.model.ids import TRANSACTIONS_TOPIC, TopicId, TopicPartition
from esp.records.batch_header import read_header
from esp.settings.topic import TopicSettings
from esp.simulation.checkers.replica_checker import ReplicaChecker
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import tallied
from esp.simulation.nodes_tier.ledger import Ledger
from esp.storage.log_directory import LogDirectory
from tests.unit.simulation.checkers.scenes import KEY, Hosted, append_to_all, nodes_with
from tests.unit.storage.helpers import PARTITION, REPLICA, TOPIC_ID, append, make_batch, run


class Scene:
    """Three nodes with three batches each, the first of which leads in epoch 0; two replicas are enough."""

    def __init__(self, *, min_isr=2, is_flushed=False, leader_epoch=0):
        self.ledger = Ledger(1)
        self.checker = ReplicaChecker(
            lambda _topic, _number, _epoch: min_isr,
            lambda _topic, _number, _epoch: min_isr,
            lambda _topic: is_flushed,
            lambda _topic, _number: leader_epoch,
            self.ledger,
        )
        self.nodes = nodes_with(3)
        self.leader, self.second, self.third = self.nodes
        self.leader.hosted.lead(0)
        self.look()

    @property
    def committed(self):
        return self.checker.committed[KEY]

    def look(self, *nodes):
        for node in nodes or self.nodes:
            self.checker.look(node)

    def commit(self, node, offset):
        node.log.high_watermark = offset
        self.look(node)


def host_another(node, partition):
    """Let a node lead another partition, which has one replica; it is the last one that the node hosts."""
    topic_id = TopicId(uuid.UUID(int=1))
    log = node.directory.create_log_blocking(partition, topic_id, TopicSettings())
    log.begin_epoch(0)
    hosted = Hosted(log, topic_id, partition)
    hosted.lead(0, isr=(node.node_id,))
    node.broker.broker.running.replicas.by_topic[topic_id] = {partition.partition: hosted}
    return hosted


def violation(invariant):
    return pytest.raises(ViolationError, match=f"^{invariant} at node")


def test_cluster_that_appends_commits_and_flushes_is_well():
    scene = Scene()
    for offset in (4, 5):
        append_to_all(scene.nodes)
        scene.look()
        for node in scene.nodes:
            scene.commit(node, offset)
    run(scene.second.log.flush())
    scene.look()
    scene.second.log.roll(0)
    append_to_all(scene.nodes)
    scene.look()
    for node in scene.nodes:
        scene.checker.check_deeply(node)
    assert scene.committed.end_offset == 5


def test_committed_batch_that_is_cut_is_found():
    scene = Scene()
    scene.commit(scene.leader, 3)
    scene.leader.log.truncate_to(1)
    with violation("INV-NO-TRUNC-BELOW-HW"):
        scene.look()


def test_batch_that_was_not_known_to_be_committed_may_be_cut():
    scene = Scene()
    scene.commit(scene.leader, 1)
    scene.leader.log.truncate_to(1)
    scene.look()


def test_partition_that_is_excused_may_lose_what_was_committed():
    scene = Scene()
    scene.commit(scene.second, 3)
    scene.committed.is_excused = True
    scene.second.log.truncate_to(1)
    scene.look()
    assert scene.checker.is_excused(KEY)


def test_high_watermark_beyond_the_log_end_is_found():
    scene = Scene()
    with violation("INV-ORDER"):
        scene.commit(scene.leader, 4)


def test_high_watermark_of_a_leader_that_falls_is_found():
    scene = Scene()
    scene.commit(scene.leader, 3)
    with violation("INV-HW-MONO"):
        scene.commit(scene.leader, 2)


def test_high_watermark_of_a_follower_that_falls_is_found():
    scene = Scene()
    scene.commit(scene.second, 3)
    with violation("INV-HW-MONO"):
        scene.commit(scene.second, 2)


def test_high_watermark_falls_with_a_log_that_may_be_cut_and_no_further():
    scene = Scene()
    scene.commit(scene.second, 3)
    scene.committed.is_excused = True
    scene.second.log.truncate_to(2)
    scene.look(scene.second)
    scene.second.log.high_watermark = 1
    with violation("INV-HW-MONO"):
        scene.look(scene.second)


def move_log_start(scene, node, offset):
    scene.checker.log_starts.on_asked(KEY, offset)
    node.log.log_start_offset = offset
    scene.look(node)


def test_records_that_are_committed_and_deleted_within_one_turn_are_known_to_be_committed():
    scene = Scene()
    scene.commit(scene.leader, 1)
    scene.leader.log.high_watermark = 3
    scene.checker.log_starts.on_asked(KEY, 3)
    scene.checker.before_start(scene.leader, scene.leader.log, 3)
    scene.leader.log.raise_log_start(3)
    scene.look()
    assert (scene.committed.end_offset, len(scene.committed.batches)) == (3, 3)


LOOKS = {
    "after the turn": lambda scene: scene.look(scene.leader),
    "before the log starts later": lambda scene: scene.checker.before_start(scene.leader, scene.leader.log, 3),
}
"""The times at which replicas of a node are looked at."""


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_coordinators_record_is_known_before_the_data_that_it_lets_in_within_the_same_turn(look):
    scene, told = Scene(min_isr=1), []
    scene.checker.on_committed = lambda partition, _batches: told.append(partition)
    coordinator = host_another(scene.leader, TopicPartition(TRANSACTIONS_TOPIC, 0))
    append(coordinator.log)
    scene.leader.log.high_watermark, coordinator.log.high_watermark = 3, 1
    scene.checker.log_starts.on_asked(KEY, 3)
    look(scene)
    assert told == [coordinator.name, PARTITION]


def test_retention_that_takes_too_much_just_before_the_log_grows_is_found():
    scene = Scene()
    scene.commit(scene.leader, 3)
    (first, *_) = scene.checker.views[scene.leader.node_id][KEY].batches
    scene.leader.log.settings = TopicSettings(retention_ms=-1, retention_bytes=2 * first.size)
    scene.checker.before_start(scene.leader, scene.leader.log, 1)
    with violation("INV-LOG-START"):
        scene.checker.before_start(scene.leader, scene.leader.log, 2)


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_reader_of_a_topic_that_is_gone_may_be_told_of_its_successor(is_gone):
    log_starts = Scene(leader_epoch=-1 if is_gone else 0).checker.log_starts
    if is_gone:
        log_starts.on_told("reader", KEY, 1)
        assert log_starts.of_successors == 1
        return
    with pytest.raises(ViolationError, match="INV-LOG-START"):
        log_starts.on_told("reader", KEY, 1)


def test_log_that_no_replica_has_may_start_anywhere():
    scene = Scene()
    scene.checker.before_start(scene.leader, scene.second.log, 3)
    assert scene.checker.log_starts.retained == 0


def test_log_start_of_a_follower_that_falls_is_found():
    scene = Scene()
    scene.commit(scene.second, 3)
    move_log_start(scene, scene.second, 2)
    scene.second.log.log_start_offset = 1
    with violation("INV-HW-MONO"):
        scene.look(scene.second)


def test_log_start_of_a_leader_that_falls_is_found():
    scene = Scene()
    scene.commit(scene.leader, 3)
    move_log_start(scene, scene.leader, 2)
    scene.leader.log.log_start_offset = 1
    with violation("INV-LOG-START"):
        scene.look(scene.leader)


def test_log_start_falls_with_a_log_that_may_be_cut():
    scene = Scene()
    scene.commit(scene.second, 3)
    move_log_start(scene, scene.second, 2)
    scene.committed.is_excused = True
    scene.second.log.truncate_to(1)
    scene.look(scene.second)
    assert scene.second.log.log_start_offset == 1
    assert scene.checker.fallen_starts == 1


def test_log_start_that_falls_further_than_the_log_was_cut_is_found():
    scene = Scene()
    scene.commit(scene.second, 1)
    move_log_start(scene, scene.second, 1)
    scene.second.log.truncate_to(2)
    scene.second.log.log_start_offset = 0
    with violation("INV-HW-MONO"):
        scene.look(scene.second)


def test_commit_by_fewer_in_sync_than_the_minimum_is_found():
    scene = Scene()
    scene.leader.hosted.leader.state.isr = (1,)
    with violation("INV-HW-STRICT"):
        scene.commit(scene.leader, 3)


def test_commit_by_an_in_sync_set_that_has_grown_since_is_found():
    scene = Scene()
    scene.checker.rises.note(scene.leader.log, 1, 0)
    with violation("INV-HW-STRICT"):
        scene.commit(scene.leader, 3)


def test_commit_of_what_fewer_than_the_minimum_hold_is_found():
    scene = Scene()
    append(scene.leader.log)
    scene.look()
    with violation("INV-HW-EVIDENCE"):
        scene.commit(scene.leader, 4)


def test_commit_by_the_fetch_of_a_follower_whose_log_went_offline_in_the_turn_in_which_it_appended_is_right():
    scene = Scene()
    append_to_all([scene.leader, scene.second])
    scene.second.log.is_offline = True
    scene.look(scene.leader, scene.second)
    scene.commit(scene.leader, 4)


def test_commit_by_the_fetch_of_a_follower_whose_disk_is_gone_since_is_counted():
    scene = Scene()
    append(scene.leader.log)
    scene.look()
    lost = {node.node_id for node in scene.nodes} - {scene.leader.node_id}
    for node_id in lost:
        scene.ledger.on_copy_lost(node_id, 1.0)
    scene.commit(scene.leader, 4)
    assert scene.checker.late_fetches == 1


def test_commit_in_a_topic_that_is_deleted_proves_nothing_wrong():
    scene = Scene(leader_epoch=-1)
    append(scene.leader.log)
    scene.look()
    scene.commit(scene.leader, 4)


def test_commit_of_what_is_flushed_by_fewer_than_the_minimum_is_found_where_that_counts():
    scene = Scene(is_flushed=True)
    run(scene.leader.log.flush())
    with violation("INV-HW-EVIDENCE"):
        scene.commit(scene.leader, 3)
    scene = Scene(is_flushed=True)
    for node in (scene.leader, scene.third):
        run(node.log.flush())
    scene.commit(scene.leader, 3)


def test_new_leader_without_what_is_committed_is_found():
    scene = Scene()
    append_to_all([scene.leader, scene.second])
    scene.look()
    scene.commit(scene.leader, 4)
    scene.third.hosted.lead(1)
    with violation("INV-LEADER-COMPLETE"):
        scene.look()


def test_new_leader_with_all_that_is_committed_is_well():
    scene = Scene()
    append_to_all([scene.leader, scene.second])
    scene.commit(scene.second, 3)
    scene.third.hosted.lead(1)
    scene.look()
    assert scene.checker.leader_on(3, KEY) is scene.third.hosted.leader


def test_leader_that_another_one_has_followed_already_may_lack_something():
    scene = Scene(leader_epoch=2)
    append_to_all([scene.leader, scene.second])
    scene.look()
    scene.commit(scene.leader, 4)
    scene.third.hosted.lead(1)
    scene.look()


@pytest.mark.parametrize("epoch", [0, 1])
def test_leader_of_a_deleted_topic_may_lack_what_a_later_one_committed(epoch):
    """The newest metadata have no leader epoch of it any more, and its node is behind."""
    scene = Scene(leader_epoch=-1)
    append_to_all([scene.leader, scene.second], epoch=epoch)
    scene.look()
    scene.commit(scene.leader, 4)
    scene.third.hosted.lead(0)
    with nullcontext() if epoch else violation("INV-LEADER-COMPLETE"):
        scene.look()


def test_leader_of_a_deleted_topic_may_lack_what_a_later_one_found_and_committed():
    """The batch is of an epoch before both: the later leader has written nothing itself."""
    scene = Scene(leader_epoch=-1)
    append_to_all([scene.leader, scene.second])
    scene.look()
    scene.second.hosted.lead(2)
    scene.look()
    scene.commit(scene.second, 4)
    scene.third.hosted.lead(1)
    scene.look()


def test_two_leaders_that_append_in_one_epoch_are_found():
    scene = Scene()
    scene.second.hosted.lead(0)
    scene.look()
    append(scene.leader.log)
    append(scene.second.log)
    with violation("INV-EPOCH-LEADER"):
        scene.look()


def test_recovery_point_above_what_the_device_has_is_found():
    scene = Scene()
    scene.second.log.recovery_point = 3
    with violation("INV-DISK-ORDER"):
        scene.look()


def test_node_whose_device_lied_is_not_asked_for_what_it_found_on_it():
    scene = Scene()
    scene.checker.on_end(scene.second, keeps_page_cache=True, has_faulty_disk=True)
    scene.ledger.on_failed_sync(2, 0.0)
    scene.look()
    scene.second.log.recovery_point = 3
    scene.look()


def test_epoch_cache_that_says_something_else_than_the_batches_is_found():
    scene = Scene()
    append_to_all(scene.nodes, epoch=4)
    scene.look()
    scene.third.log.leader_epochs.truncate_from_end(1)
    with violation("INV-EPOCH-CACHE"):
        scene.checker.check_deeply(scene.third)


def test_producer_state_that_says_something_else_than_the_batches_is_found():
    scene = Scene()
    append_to_all(scene.nodes, producer=(7, 0, 0))
    scene.look()
    scene.checker.check_deeply(scene.third)
    scene.third.log.producers.expire(1 << 40, 0)
    with violation("INV-PROD-FOLD"):
        scene.checker.check_deeply(scene.third)


def test_replica_that_comes_back_with_less_than_its_process_had_written_is_found():
    scene = Scene()
    scene.checker.on_end(scene.third, keeps_page_cache=True, has_faulty_disk=False)
    scene.checker.on_start(scene.third)
    scene.third.log.truncate_to(1)
    with violation("INV-RECOVER-PREFIX"):
        scene.look()


def test_replica_that_comes_back_after_a_power_loss_may_lack_what_was_not_flushed():
    scene = Scene()
    scene.checker.on_end(scene.third, keeps_page_cache=False, has_faulty_disk=False)
    scene.third.log.truncate_to(1)
    scene.checker.on_start(scene.third)
    scene.look()


@pytest.mark.parametrize("is_before_the_end", [True, False])
def test_replica_that_its_node_should_not_have_any_more_may_come_back_empty(is_before_the_end):
    scene = Scene()
    if is_before_the_end:  # and the node has not heard of it
        scene.checker.on_unassigned(scene.third.node_id, KEY)
    scene.checker.on_end(scene.third, keeps_page_cache=True, has_faulty_disk=False)
    if not is_before_the_end:
        scene.checker.on_unassigned(scene.third.node_id, KEY)
    scene.checker.on_start(scene.third)
    scene.checker.on_assigned(scene.third.node_id, KEY)
    scene.third.log.truncate_to(0)
    scene.look()
    append(scene.third.log)
    scene.look()
    scene.checker.on_end(scene.third, keeps_page_cache=True, has_faulty_disk=False)
    scene.third.log.truncate_to(0)
    with violation("INV-RECOVER-PREFIX"):
        scene.look()


@pytest.mark.parametrize("led", [6, 8])
@pytest.mark.parametrize("keeps", [2, 3])
def test_leader_that_lost_bytes_is_excused_only_for_what_it_lacks(keeps, led):
    scene = Scene()
    losses = []
    scene.checker.on_loss = lambda *loss: losses.append(loss)
    scene.commit(scene.leader, 3)
    scene.committed.doubt(6)
    assert scene.checker.is_excused(KEY)
    assert not scene.checker.is_given_up(KEY)
    scene.second.log.truncate_to(keeps)
    scene.second.hosted.lead(led)
    scene.look(scene.second)
    assert scene.checker.is_excused(KEY) is scene.checker.is_given_up(KEY) is (keeps < 3)
    assert losses == ([(PARTITION, led, f"node 2, {PARTITION}")] if keeps < 3 else [])


def test_batch_is_retired_when_it_is_committed_and_below_a_log_start():
    scene = Scene()
    for node in scene.nodes:
        append(node.log, size=20)
    scene.look()
    mark = scene.checker.views[scene.leader.node_id][KEY].batches[3].mark
    scene.checker.highest_log_starts[KEY] = 4
    assert not scene.checker.is_retired(KEY, mark)
    scene.commit(scene.leader, 4)
    assert scene.checker.is_retired(KEY, mark)
    scene.checker.highest_log_starts[KEY] = 3
    assert not scene.checker.is_retired(KEY, mark)


def test_partition_that_was_excused_before_stays_so():
    scene = Scene()
    scene.commit(scene.leader, 3)
    scene.committed.excuse()
    scene.committed.doubt(6)
    scene.second.hosted.lead(6)
    scene.look(scene.second)
    assert scene.checker.is_given_up(KEY)


def test_only_an_excused_partition_with_a_replica_offline_awaits_help():
    scene = Scene()
    scene.third.hosted.is_offline = True
    assert not scene.checker.awaits_help(KEY)
    scene.committed.is_excused = True
    assert scene.checker.awaits_help(KEY)


class Move:
    """The log of the second replica is copied to another directory, and is the one there from now on."""

    def __init__(self, *, batches=3, flushes=True):
        self.scene = Scene()
        node = self.scene.second
        run(node.log.flush())
        self.scene.commit(node, 1)
        directory = LogDirectory.open_blocking(node.disk, "more")
        self.log = directory.create_log_blocking(PARTITION, TOPIC_ID, TopicSettings())
        self.log.begin_epoch(0)
        for batch in self.scene.checker.views[2][KEY].batches[:batches]:
            self.take(batch.content.written(batch.position, batch.position + batch.size))
        if flushes:
            run(self.log.flush())
        self.log.high_watermark = 1
        node.hosted.log = self.log

    @property
    def view(self):
        return self.scene.checker.views[2][KEY]

    def take(self, data):
        self.log.append(data, read_header(data), 0)


@pytest.mark.parametrize("has_failed", [True, False])
def test_replica_that_was_given_up_comes_back_only_if_its_directory_had_failed(has_failed):
    scene = Scene()
    node, kept = scene.third, scene.third.log
    broker = node.broker.broker.running
    replicas, broker.lifecycle = broker.replicas, SimpleNamespace(epoch=1)
    replicas.image = SimpleNamespace(topics_by_id={})
    if has_failed:
        kept.take_offline()
    scene.checker.on_unassigned(node.node_id, KEY)
    replicas.by_topic = {}
    scene.look(node)
    scene.checker.on_assigned(node.node_id, KEY)
    other = LogDirectory.open_blocking(node.disk, "more")
    empty = other.create_log_blocking(PARTITION, TOPIC_ID, TopicSettings())
    replicas.by_topic = {TOPIC_ID: {PARTITION.partition: Hosted(empty)}}
    scene.look(node)
    scene.checker.on_end(node, keeps_page_cache=True, has_faulty_disk=has_failed)
    scene.checker.on_start(node)
    replicas.by_topic = {TOPIC_ID: {PARTITION.partition: Hosted(kept)}}
    if has_failed:
        scene.look(node)
    else:
        with violation("INV-RECOVER-PREFIX"):
            scene.look(node)
    assert scene.checker.copies_found == has_failed


class Away:
    """A log directory that is back, with a replica of four batches, three of them flushed; the node has made another elsewhere."""

    def __init__(self, other_batches=0):
        self.scene = Scene()
        self.node, self.kept = self.scene.third, self.scene.third.log
        run(self.kept.flush())
        append_to_all(self.scene.nodes)
        self.scene.look()
        self.end()
        self.scene.checker.on_away(self.node, self.kept.path.rpartition("/")[0])
        more = LogDirectory.open_blocking(self.node.disk, "more")
        self.other = more.create_log_blocking(PARTITION, TOPIC_ID, TopicSettings())
        self.start(self.other)
        self.other.begin_epoch(0)
        for _ in range(other_batches):
            append(self.other)
        self.end()
        self.scene.checker.on_returned(self.node)

    def end(self):
        self.scene.checker.on_end(self.node, keeps_page_cache=True, has_faulty_disk=False)

    def start(self, log):
        self.scene.checker.on_start(self.node)
        self.node.broker.broker.running.replicas.by_topic = {TOPIC_ID: {PARTITION.partition: Hosted(log)}}
        self.scene.look(self.node)


@pytest.mark.parametrize("left", [4, 3])
def test_replica_that_was_away_may_come_back_without_what_had_not_been_flushed(left):
    away = Away()
    away.kept.truncate_to(left)
    away.start(away.kept)
    assert away.scene.checker.copies_found == 1


def test_replica_that_was_away_must_come_back_with_what_had_been_flushed():
    away = Away()
    away.kept.truncate_to(2)
    with violation("INV-RECOVER-PREFIX"):
        away.start(away.kept)


def test_replica_that_its_node_should_not_have_any_more_is_not_expected_back_with_its_directory():
    away = Away()
    away.scene.checker.on_unassigned(away.node.node_id, KEY)
    away.scene.checker.on_assigned(away.node.node_id, KEY)
    away.kept.truncate_to(0)
    away.start(away.kept)


def test_replica_that_was_away_may_have_been_made_again_elsewhere_with_more():
    away = Away(other_batches=5)
    away.start(away.other)
    assert away.scene.checker.copies_found == 0


def test_replica_that_moves_to_another_directory_is_followed_there():
    move = Move()
    move.scene.look()
    assert move.scene.checker.moved == 1
    assert (move.view.path, move.view.end_offset, move.view.recovery_point) == (move.log.path, 3, 3)
    move.scene.second.disk.remove_tree(REPLICA)
    append(move.log)
    move.scene.look()
    assert len(move.view.batches) == 4
    move.scene.checker.check_deeply(move.scene.second)
    move.log.truncate_to(0)
    with violation("INV-NO-TRUNC-BELOW-HW"):
        move.scene.look()


def test_replica_that_has_moved_and_grown_in_one_turn_is_looked_at_when_all_of_it_is_read():
    move = Move()
    append(move.log, producer=(7, 0, 0))
    move.scene.look()
    assert move.view.end_offset == 4
    checker, node = move.scene.checker, move.scene.second
    checker.check_deeply(node)
    move.log.producers.expire(1 << 40, 0)
    with violation("INV-PROD-FOLD"):
        checker.check_deeply(node)


def test_compacted_replica_that_has_grown_in_the_same_turn_is_looked_at_when_all_of_it_is_read():
    scene = Scene()
    files = scene.third.log.files
    scene.checker.replacements = SimpleNamespace(
        under_way={files: 0}, to_look_at={files: None}, take=lambda taken: taken is files
    )
    append_to_all(scene.nodes, producer=(7, 0, 0))
    scene.look()
    assert scene.checker.views[3][KEY].end_offset == 4
    scene.third.log.producers.expire(1 << 40, 0)
    with violation("INV-PROD-FOLD"):
        scene.look()


@pytest.mark.parametrize(
    ("found", "invariant"), [("find_lost_marker", "INV-CLEAN-MARKER"), ("find_lost", "INV-CLEAN-LATEST")]
)
def test_what_a_compacted_replica_lacks_is_excused_only_if_its_log_is_rotten_or_offline(found, invariant):
    scene = Scene()
    searches = {"find_lost_marker": lambda *_: None, "find_lost": lambda *_: None, found: lambda *_: "it is gone"}
    scene.committed.compacted = SimpleNamespace(
        on_commit=lambda _batch: None,
        offsets_in=lambda _batches: frozenset(),
        markers_in=lambda _batches: frozenset(),
        note_bare=lambda _found, _markers: None,
        find_returned=lambda _gone, _found: None,
        **searches,
    )
    log = scene.third.log
    with violation(invariant):
        scene.checker.check_deeply(scene.third)
    log.note_rot(CorruptionError("a bit has flipped"))
    with tallied() as excuses:
        scene.checker.check_deeply(scene.third)
    assert excuses == {"rotten_replicas": 1}
    log.rot = None
    log.take_offline()
    with tallied() as excuses:
        scene.checker.check_deeply(scene.third)
    assert excuses == {"offline_replicas": 1}


def test_a_log_start_that_moves_while_its_log_is_offline_is_not_judged():
    scene = Scene()
    scene.third.log.take_offline()
    with tallied() as excuses:
        scene.checker.before_start(scene.third, scene.third.log, 2)
    assert excuses == {"offline_log_starts": 1}


def test_records_that_were_cut_before_they_were_committed_were_not_compacted_away():
    """What was committed in their place may be compacted already when it arrives."""
    scene = Scene()
    lost = []
    scene.committed.compacted = SimpleNamespace(
        on_commit=lambda _batch: None,
        offsets_in=lambda batches: frozenset(batch.base_offset for batch in batches if batch.leader_epoch == 0),
        markers_in=lambda _batches: frozenset(),
        note_bare=lambda _found, _markers: None,
        find_lost_marker=lambda *_: None,
        find_lost=lambda *_: None,
        find_returned=lambda gone, _found: lost.append(sorted(gone)),
    )
    for node in scene.nodes:
        scene.commit(node, 1)
    scene.checker.check_deeply(scene.third)
    for node in scene.nodes:
        node.log.truncate_to(1)
        append(node.log, epoch=1)
    scene.look()
    for node in scene.nodes:
        scene.commit(node, 2)
    scene.checker.check_deeply(scene.third)
    scene.committed.compacted.offsets_in = lambda _batches: frozenset()
    scene.checker.check_deeply(scene.third)
    assert lost == [[], [], [0]]


@pytest.mark.parametrize("lacks", [{"batches": 2}, {"flushes": False}])
def test_replica_that_leaves_something_behind_when_it_moves_is_found(lacks):
    move = Move(**lacks)
    with violation("INV-MOVED"):
        move.scene.look()


def test_replica_whose_high_watermark_is_left_behind_is_found():
    move = Move()
    move.log.high_watermark = 0
    with violation("INV-HW-MONO"):
        move.scene.look()


def test_other_batch_in_place_of_one_that_should_have_moved_is_found():
    move = Move(batches=2, flushes=False)
    move.take(make_batch(2, size=20))
    run(move.log.flush())
    with violation("INV-LOGMATCH"):
        move.scene.look()


def test_moved_replica_that_only_says_that_it_is_on_the_device_is_found():
    move = Move(flushes=False)
    move.log.recovery_point = 3
    with violation("INV-DISK-ORDER"):
        move.scene.look()
