"""The raft core of a quorum of one; rule ids are those of the replication rules (RAFT-*)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.ids import LeaderEpoch, NodeId
from esp.raft.node import LogEnd, RaftNode
from esp.raft.quorum_state import QuorumState
from esp.raft.roles import Role
from esp.records.batch import iterate_records
from esp.records.batch_header import read_header
from esp.schemas.control_records import ControlType
from tests.unit.raft.samples import LOCAL, NOW_MS, VOTERS


def _control_types(batch):
    return [int.from_bytes(record.key[2:], "big") for record in iterate_records(batch)]


def test_the_first_epoch_begins_with_leader_kraft_version_and_voters_in_one_batch():
    node = RaftNode(LOCAL, VOTERS, None, LogEnd(0, 0))
    effects = node.start(NOW_MS)
    header = read_header(effects.batch)
    assert _control_types(effects.batch) == [
        ControlType.LEADER_CHANGE,
        ControlType.KRAFT_VERSION,
        ControlType.KRAFT_VOTERS,
    ]
    assert (header.base_offset, header.leader_epoch, header.is_control, header.max_timestamp) == (0, 1, True, NOW_MS)
    assert effects.persist == QuorumState(leader_epoch=LeaderEpoch(1), leader_id=NodeId(5))
    assert effects.begin_epoch == 1
    assert node.role is Role.LEADER


def test_a_later_epoch_begins_with_the_leader_alone():
    node = RaftNode(LOCAL, VOTERS, QuorumState(LeaderEpoch(3), NodeId(5)), LogEnd(17, 3))
    effects = node.start(NOW_MS)
    assert _control_types(effects.batch) == [ControlType.LEADER_CHANGE]
    assert read_header(effects.batch).base_offset == 17


def test_a_node_that_restarts_in_an_epoch_it_led_has_resigned():
    node = RaftNode(LOCAL, VOTERS, QuorumState(LeaderEpoch(3), NodeId(5)), LogEnd(17, 3))
    assert node.role is Role.RESIGNED  # RAFT-5


def test_a_node_whose_log_knows_a_later_epoch_is_unattached_in_it():
    node = RaftNode(LOCAL, VOTERS, QuorumState(LeaderEpoch(3), NodeId(5)), LogEnd(17, 6))
    assert (node.role, node.epoch) == (Role.UNATTACHED, 6)  # RAFT-4


@given(st.none() | st.tuples(st.integers(0, 9), st.sampled_from((-1, 5))), st.integers(0, 9), st.integers(1, 99))
def test_a_restart_never_leads_an_epoch_again(state, log_epoch, log_end):
    quorum_state = state and QuorumState(LeaderEpoch(state[0]), NodeId(state[1]))
    node = RaftNode(LOCAL, VOTERS, quorum_state, LogEnd(log_end, log_epoch))
    effects = node.start(NOW_MS)
    assert effects.persist.leader_epoch > max(log_epoch, state[0] if state else 0)  # RAFT-2, RAFT-5
    assert read_header(effects.batch).leader_epoch == effects.persist.leader_epoch == node.epoch


def test_nothing_is_committed_before_the_leader_change_is_flushed():
    node = RaftNode(LOCAL, VOTERS, QuorumState(LeaderEpoch(3), NodeId(5)), LogEnd(17, 3))
    node.start(NOW_MS)
    node.propose([b"value"], NOW_MS)
    assert node.on_flushed(17).high_watermark is None  # RAFT-13
    assert node.high_watermark is None
    assert node.on_flushed(18).high_watermark == 18


def test_only_what_is_flushed_is_committed():
    node = RaftNode(LOCAL, VOTERS, None, LogEnd(0, 0))
    node.start(NOW_MS)
    node.on_flushed(3)
    effects = node.propose([b"one", b"two"], NOW_MS)
    assert read_header(effects.batch).base_offset == 3
    assert (node.high_watermark, node.log_end_offset) == (3, 5)  # RAFT-12
    assert node.on_flushed(3).high_watermark is None
    assert node.on_flushed(5).high_watermark == 5
    assert node.high_watermark == 5


def test_a_node_that_does_not_lead_proposes_nothing():
    node = RaftNode(LOCAL, VOTERS, None, LogEnd(0, 0))
    with pytest.raises(AssertionError):
        node.propose([b"value"], NOW_MS)


@pytest.mark.parametrize("offset", [2, 6])
def test_a_flush_that_goes_back_or_beyond_the_log_is_a_bug(offset):
    node = RaftNode(LOCAL, VOTERS, None, LogEnd(0, 0))
    node.start(NOW_MS)
    node.propose([b"one", b"two"], NOW_MS)
    node.on_flushed(3)
    with pytest.raises(AssertionError):
        node.on_flushed(offset)
