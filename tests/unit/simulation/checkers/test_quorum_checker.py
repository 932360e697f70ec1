"""Members of the quorum that contradict one another, or themselves, are found in the turn in which they do."""

from types import SimpleNamespace

import pytest

from esp.simulation.checkers.quorum_checker import QuorumChecker
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.ledger import Ledger
from tests.unit.simulation.checkers.scenes import append_to_all, nodes_with
from tests.unit.simulation.checkers.test_voter_checker import voters
from tests.unit.storage.helpers import append, run


class Scene:
    """Three members with two durable batches each, the first of which leads epoch 1."""

    def __init__(self):
        self.ledger = Ledger(1)
        self.checker = QuorumChecker(self.ledger, lambda: 0.0)
        self.nodes = nodes_with(0)
        self.leader, self.second, self.third = self.nodes
        for node in self.nodes:
            raft = SimpleNamespace(
                log=node.log, is_stepping=False, epoch=1, high_watermark=0, is_leader=False, voters=voters(1, 2, 3)
            )
            node.broker.running = SimpleNamespace(raft=raft)
            node.lost_of_member = None
        self.leader.broker.running.raft.is_leader = True
        for _ in range(2):
            append_to_all(self.nodes, epoch=1)
        self.flush()
        self.look()

    def flush(self, *nodes):
        for node in nodes or self.nodes:
            run(node.log.flush())

    def look(self, *nodes):
        for node in nodes or self.nodes:
            self.checker.look(node)

    def commit(self, node, offset):
        node.broker.running.raft.high_watermark = offset
        self.look(node)

    def elect(self, node, epoch):
        node.broker.running.raft.epoch = epoch
        node.broker.running.raft.is_leader = True
        self.look(node)


def violation(invariant):
    return pytest.raises(ViolationError, match=f"^{invariant} at node")


def test_quorum_that_appends_commits_and_elects_is_well():
    scene = Scene()
    for node in scene.nodes:
        scene.commit(node, 2)
    scene.leader.broker.running.raft.is_leader = False
    scene.elect(scene.second, 2)
    append_to_all(scene.nodes, epoch=2)
    scene.look()
    scene.flush()
    scene.commit(scene.second, 3)
    assert scene.checker.committed.end_offset == 3


def test_the_last_epoch_that_was_led_is_known_when_its_leader_is_gone():
    scene = Scene()
    scene.elect(scene.second, 2)
    scene.second.broker.running = None
    scene.look()
    assert scene.checker.last_led_epoch == 2


def test_controller_that_takes_part_without_what_it_has_lost_is_found():
    scene = Scene()
    scene.third.lives += 1
    scene.third.lost_of_member = "/data/__cluster_metadata-0/quorum-state"
    scene.third.broker.running.raft = SimpleNamespace(**vars(scene.third.broker.running.raft))
    with violation("INV-RAFT-VOTE"):
        scene.look()


def test_node_that_has_not_come_so_far_is_left_alone():
    scene = Scene()
    scene.third.broker.running = None
    scene.look()


def test_commit_of_what_a_majority_has_not_on_its_devices_is_found():
    scene = Scene()
    append_to_all(scene.nodes, epoch=1)
    scene.flush(scene.leader)
    scene.look()
    with violation("INV-RAFT-EVIDENCE"):
        scene.commit(scene.leader, 3)


def test_commit_of_what_a_majority_has_on_its_devices_is_well():
    scene = Scene()
    append_to_all(scene.nodes[:2], epoch=1)
    scene.flush()
    scene.look()
    scene.commit(scene.leader, 3)


def test_device_that_lied_is_believed():
    scene = Scene()
    append_to_all(scene.nodes[:2], epoch=1)
    scene.flush(scene.leader)
    scene.ledger.on_failed_sync(2, 0.0)
    scene.look()
    scene.commit(scene.leader, 3)


def test_committed_record_that_is_cut_is_found():
    scene = Scene()
    scene.commit(scene.leader, 2)
    scene.commit(scene.second, 2)
    scene.second.log.truncate_to(1)
    with violation("INV-NO-TRUNC-BELOW-HW"):
        scene.look(scene.second)


def test_high_watermark_that_falls_is_found():
    scene = Scene()
    scene.commit(scene.second, 2)
    append_to_all(scene.nodes, epoch=1)
    with violation("INV-RAFT-HW-MONO"):
        scene.commit(scene.second, 1)


def test_epoch_that_falls_is_found():
    scene = Scene()
    scene.elect(scene.second, 3)
    scene.second.broker.running.raft.is_leader = False
    scene.second.broker.running.raft.epoch = 2
    with violation("INV-RAFT-EPOCH"):
        scene.look()


def test_node_that_forgot_the_epoch_that_it_led_is_found():
    scene = Scene()
    scene.elect(scene.second, 3)
    again = SimpleNamespace(**vars(scene.second.broker.running.raft))
    again.epoch, again.is_leader = 2, False
    scene.second.broker.running.raft = again
    with violation("INV-RAFT-EPOCH"):
        scene.look()


def test_second_leader_of_an_epoch_is_found():
    scene = Scene()
    with violation("INV-RAFT-ELECTION"):
        scene.elect(scene.second, 1)


def test_leader_that_leads_its_epoch_in_another_life_is_found():
    scene = Scene()
    scene.leader.lives = 2
    scene.leader.broker.running.raft = SimpleNamespace(**vars(scene.leader.broker.running.raft))
    with violation("INV-RAFT-ELECTION"):
        scene.look()


def test_leader_without_what_is_committed_is_found():
    scene = Scene()
    append_to_all(scene.nodes[:2], epoch=1)
    scene.flush()
    scene.look()
    scene.commit(scene.leader, 3)
    with violation("INV-RAFT-COMPLETE"):
        scene.elect(scene.third, 2)


def test_leader_of_an_earlier_epoch_than_that_of_the_last_committed_batch_may_learn_of_its_election_late():
    scene = Scene()
    scene.elect(scene.leader, 3)
    append_to_all(scene.nodes[:2], epoch=3)
    scene.flush()
    scene.look()
    scene.commit(scene.leader, 3)
    scene.elect(scene.third, 2)
    scene.third.broker.running.raft.is_leader = False
    scene.look()
    with violation("INV-RAFT-COMPLETE"):
        scene.elect(scene.third, 4)


def test_another_record_where_one_is_committed_is_found():
    scene = Scene()
    append(scene.leader.log, epoch=1)
    scene.second.take(scene.leader.log.read(2, 1000, 3, at_least_one=True))
    append(scene.third.log, epoch=2)
    scene.flush()
    scene.look()
    scene.commit(scene.leader, 3)
    with violation("INV-COMMIT-STABLE"):
        scene.commit(scene.third, 3)


def test_members_whose_logs_differ_in_one_epoch_are_found():
    scene = Scene()
    append(scene.leader.log, epoch=1)
    append(scene.third.log, epoch=1, size=30)
    with violation("INV-LOGMATCH"):
        scene.look()


def lose_disk(scene, node):
    scene.ledger.strangers[node.node_id] = None
    scene.checker.on_new_disk(node)


def test_what_a_member_had_when_it_lost_its_disk_may_still_count():
    scene = Scene()
    lose_disk(scene, scene.second)
    lose_disk(scene, scene.third)
    scene.commit(scene.leader, 2)


def test_what_came_after_a_member_lost_its_disk_does_not_count():
    scene = Scene()
    lose_disk(scene, scene.second)
    lose_disk(scene, scene.third)
    append_to_all(scene.nodes, epoch=1)
    scene.flush()
    with violation("INV-RAFT-EVIDENCE"):
        scene.commit(scene.leader, 3)
