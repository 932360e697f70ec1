"""Leaders here are logs in memory, with what a checker asks of them; the sweeps show that real ones pass."""

import uuid
from types import SimpleNamespace

import pytest

from esp.model.ids import DirectoryId, NodeId
from esp.raft.voters import Voter, VoterEndpoint, VoterKey, VoterSet
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.schemas.control_records import encode_control_record
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.checkers.voter_checker import VoterChecker, find_quorum_problems, read_voters
from esp.simulation.machine.file_content import FileContent


def voters(*numbers):
    return VoterSet(
        tuple(
            Voter(
                VoterKey(NodeId(number), DirectoryId(uuid.UUID(int=number))),
                (VoterEndpoint("CONTROLLER", f"10.0.0.{number}", 9093),),
            )
            for number in numbers
        )
    )


def batch(offset, epoch, named=None):
    """One record: the voters, or anything."""
    if named is None:
        record, is_control = NewRecord(b"anything"), False
    else:
        encoded = encode_control_record(named.to_record())
        record, is_control = NewRecord(encoded.value, encoded.key), True
    data = build_batch([record], timestamp_ms=0, control=is_control)
    content = FileContent()
    content.append(data)
    crc = read_header(data).crc
    return BatchView(offset, offset + 1, epoch, crc, -1, -1, -1, is_control, content, 0, len(data))


class Scene:
    """A leader, its log, and the logs of others."""

    def __init__(self, *known):
        self.now_s = 0.0
        self.checker = VoterChecker(lambda: self.now_s)
        self.checker.on_voters(voters(*known))
        self.driver = SimpleNamespace(high_watermark=0, voters=voters(*known), is_leader=True, epoch=1)
        self.node = SimpleNamespace(
            node_id=1, name="node 1", is_alive=True, broker=SimpleNamespace(running=SimpleNamespace(raft=self.driver))
        )
        self.view = SimpleNamespace(batches=[], end_offset=0)
        self.others = {}

    def append(self, epoch, named=None, *, committed=None):
        offset = self.view.end_offset
        added = batch(offset, epoch, named)
        self.view.batches.append(added)
        self.view.end_offset = offset + 1
        if committed is not None:
            self.driver.high_watermark = committed
        self.checker.on_append(self.node, self.view, added, self.others.get)
        return added

    def hold(self, number, end_offset):
        self.others[number] = SimpleNamespace(end_offset=end_offset)


def test_voters_are_read_from_their_record_only():
    assert read_voters(batch(0, 1, voters(1, 2))) == voters(1, 2)
    assert read_voters(batch(0, 1)) is None


def test_one_voter_at_a_time_is_no_violation():
    scene = Scene(1)
    scene.append(1)
    scene.hold(2, 1)
    first = scene.append(1, voters(1, 2), committed=1)
    scene.checker.on_committed([first])
    scene.append(1, voters(1), committed=2)


def test_two_voters_at_once_are_caught():
    scene = Scene(1)
    scene.append(1)
    with pytest.raises(ViolationError, match="RAFT-41"):
        scene.append(1, voters(1, 2, 3), committed=1)


def test_a_change_while_another_is_open_is_caught():
    scene = Scene(1)
    scene.append(1)
    scene.hold(2, 1)
    scene.append(1, voters(1, 2), committed=1)
    with pytest.raises(ViolationError, match="is not committed"):
        scene.append(1, voters(1))


def test_a_change_before_anything_of_the_epoch_is_committed_is_caught():
    scene = Scene(1, 2)
    scene.append(1)
    scene.append(2)
    with pytest.raises(ViolationError, match="before a commit of its epoch"):
        scene.append(2, voters(1), committed=1)


def test_a_voter_that_lags_is_caught():
    scene = Scene(1)
    scene.append(1)
    scene.append(1)
    scene.hold(2, 1)
    scene.now_s = 60.0
    with pytest.raises(ViolationError, match="RAFT-42"):
        scene.append(1, voters(1, 2), committed=2)


def test_a_voter_may_lag_by_what_came_just_now():
    scene = Scene(1)
    scene.append(1)
    scene.now_s = 60.0
    scene.append(1)
    scene.hold(2, 1)
    scene.append(1, voters(1, 2), committed=1)


def test_a_commit_that_skips_a_set_of_voters_is_caught():
    scene = Scene(1)
    scene.checker.on_committed([batch(5, 1, voters(1, 2))])
    with pytest.raises(ViolationError, match=r"\[1, 2\] become \[2, 3\]"):
        scene.checker.on_committed([batch(6, 1, voters(2, 3))])


def test_a_member_that_counts_voters_that_were_cut_away_is_caught():
    scene = Scene(1, 2)
    scene.view.batches = [batch(0, 1, voters(1)), batch(1, 1)]
    with pytest.raises(ViolationError, match="RAFT-40"):
        scene.checker.check_newest(scene.node, scene.view)
    scene.driver.voters = voters(1)
    scene.checker.check_newest(scene.node, scene.view)


def test_a_leader_that_is_no_voter_is_a_problem_and_so_is_a_node_that_does_not_know():
    scene = Scene(1, 2)
    assert find_quorum_problems([scene.node]) == []
    scene.driver.voters = voters(2)
    assert find_quorum_problems([scene.node]) == ["node 1 leads the quorum and is no voter"]
    raft = SimpleNamespace(is_leader=False, epoch=1, voters=voters(1, 2))
    behind = SimpleNamespace(
        node_id=3, name="node 3", is_alive=True, broker=SimpleNamespace(running=SimpleNamespace(raft=raft))
    )
    scene.driver.voters = voters(1)
    assert find_quorum_problems([scene.node, behind]) == ["node 3 does not know the voters of node 1"]
    assert find_quorum_problems([behind]) == ["the quorum has no leader"]
