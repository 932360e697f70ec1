"""A quorum of one, and what every member does at its start; rule ids are those of the replication rules (RAFT-*)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.ids import LeaderEpoch, NodeId
from esp.raft.effects import Append, BeginEpoch, Flush, Persist
from esp.raft.messages import FetchRequest
from esp.raft.quorum_state import QuorumState
from esp.raft.roles import Role
from esp.raft.voters import Voter
from esp.records.batch import iterate_records
from esp.records.batch_header import read_header
from esp.schemas.control_records import ControlType
from tests.unit.raft.members import (
    at,
    committed,
    deadline,
    endpoints,
    key,
    log,
    member,
    of_type,
    persisted,
    sent,
    voter_set,
)


def _control_types(batch):
    return [int.from_bytes(record.key[2:], "big") for record in iterate_records(batch)]


def test_the_first_epoch_begins_with_leader_kraft_version_and_voters_in_one_batch():
    node = member(1, (1,))
    effects = node.start(at(0))
    assert isinstance(effects[0], Persist)
    (append,) = of_type(effects, Append)
    assert _control_types(append.batch) == [
        ControlType.LEADER_CHANGE,
        ControlType.KRAFT_VERSION,
        ControlType.KRAFT_VOTERS,
    ]
    header = read_header(append.batch)
    assert (header.base_offset, header.leader_epoch, header.is_control) == (0, 1, True)
    assert header.max_timestamp == at(0).wall_ms
    assert persisted(effects) == [QuorumState(LeaderEpoch(1), NodeId(1))]
    assert of_type(effects, BeginEpoch) == [BeginEpoch(LeaderEpoch(1))]
    assert node.role is Role.LEADER


def test_effects_of_a_victory_come_in_the_order_in_which_a_crash_must_find_them():
    kinds = [type(effect) for effect in member(1, (1,)).start(at(0))]
    order = [kinds.index(kind) for kind in (Persist, BeginEpoch, Append, Flush)]
    assert order == sorted(order)  # RAFT-1, LOG-8


def test_a_later_epoch_begins_with_the_leader_alone():
    node = member(1, (1,), log=log(17, (3, 0)), state=QuorumState(LeaderEpoch(3), NodeId(1)))
    (append,) = of_type(node.start(at(0)), Append)
    assert _control_types(append.batch) == [ControlType.LEADER_CHANGE]
    assert append.header.base_offset == 17


def test_a_node_that_restarts_in_an_epoch_it_led_has_resigned():
    node = member(1, log=log(17, (3, 0)), state=QuorumState(LeaderEpoch(3), NodeId(1)))
    assert node.role is Role.RESIGNED  # RAFT-5
    assert node.leader_id == -1


def test_a_node_whose_log_knows_a_later_epoch_is_unattached_in_it():
    node = member(1, log=log(17, (6, 0)), state=QuorumState(LeaderEpoch(3), NodeId(1), NodeId(2)))
    assert (node.role, node.epoch) == (Role.UNATTACHED, 6)  # RAFT-4


@given(st.none() | st.tuples(st.integers(0, 9), st.sampled_from((-1, 1))), st.integers(0, 9), st.integers(1, 99))
def test_a_restart_never_leads_an_epoch_again(state, log_epoch, log_end):
    quorum_state = state and QuorumState(LeaderEpoch(state[0]), NodeId(state[1]))
    node = member(1, (1,), log=log(log_end, (log_epoch, 0)), state=quorum_state)
    effects = node.start(at(0))
    assert persisted(effects)[-1].leader_epoch > max(log_epoch, state[0] if state else 0)  # RAFT-2, RAFT-5
    (append,) = of_type(effects, Append)
    assert append.header.leader_epoch == persisted(effects)[-1].leader_epoch == node.epoch


def test_nothing_is_committed_before_the_leader_change_is_flushed():
    node = member(1, (1,), log=log(17, (3, 0)), state=QuorumState(LeaderEpoch(3), NodeId(1)))
    node.start(at(0))
    node.propose(at(0), [b"value"])
    assert committed(node.on_flushed(at(0), 17)) == []  # RAFT-13
    assert node.high_watermark is None
    assert committed(node.on_flushed(at(0), 18)) == [18]


def test_only_what_is_flushed_is_committed():
    node = member(1, (1,))
    node.start(at(0))
    node.on_flushed(at(0), 3)
    (append,) = of_type(node.propose(at(0), [b"one", b"two"]), Append)
    assert append.header.base_offset == 3
    assert (node.high_watermark, node.log_end_offset) == (3, 5)  # RAFT-12
    assert committed(node.on_flushed(at(0), 3)) == []
    assert committed(node.on_flushed(at(0), 5)) == [5]


def test_a_node_that_does_not_lead_proposes_nothing():
    node = member(1)
    node.start(at(0))
    with pytest.raises(AssertionError):
        node.propose(at(0), [b"value"])


def test_the_only_voter_writes_its_real_endpoints_into_the_log_once_it_has_committed():
    node = member(1, (1,), own=endpoints(1, port=41234))
    assert len(of_type(node.start(at(0)), Append)) == 1
    effects = node.on_flushed(at(0), 3)
    (append,) = of_type(effects, Append)
    assert _control_types(append.batch) == [ControlType.KRAFT_VOTERS]
    assert node.voters.voters == (Voter(key(1), endpoints(1, port=41234)),)
    assert of_type(node.on_flushed(at(0), 4), Append) == []


def test_a_leader_alone_is_never_called_before_something_happens():
    node = member(1, (1,))
    node.start(at(0))
    node.on_flushed(at(0), 3)
    for _ in range(5):
        before = node.next_deadline_us
        assert node.on_tick(deadline(node)) == []
        assert node.next_deadline_us > before
    assert node.role is Role.LEADER


def test_static_voters_write_no_voters_and_quorum_state_of_version_0():
    node = member(1, (1,), kraft_version=0)
    effects = node.start(at(0))
    (append,) = of_type(effects, Append)
    assert _control_types(append.batch) == [ControlType.LEADER_CHANGE]
    assert persisted(effects)[-1].version == 0
    assert persisted(effects)[-1].voters == (1,)


def test_a_voter_flushes_what_recovery_left_unflushed_before_it_fetches():
    node = member(1, log=log(9, (2, 0), flushed=4), state=QuorumState(LeaderEpoch(2), NodeId(2)))
    effects = node.start(at(0))
    assert of_type(effects, Flush)
    assert not sent(effects, FetchRequest)  # RAFT-11
    assert sent(node.on_flushed(at(0), 9), FetchRequest)[2].fetch_offset == 9


def test_a_node_with_another_disk_is_not_the_voter_that_it_was():
    node = member(1, disk=1)
    assert not node.is_voter  # RAFT-45
    node.start(at(0))
    assert node.role is Role.UNATTACHED
    assert node.voters == voter_set(1, 2, 3)
