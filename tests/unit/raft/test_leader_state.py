"""What a leader remembers of its voters stays true while they, and their fetches, change."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from esp.model.ids import DirectoryId, NodeId
from esp.raft.roles import LeaderState
from esp.raft.voters import Voter, VoterKey, VoterSet, majority_offset

TIMEOUT_US = 100


def key(number: int) -> VoterKey:
    return VoterKey(NodeId(number), DirectoryId(UUID(int=number + 100)))


def voters_of(*numbers: int) -> VoterSet:
    return VoterSet(tuple(Voter(key(number), ()) for number in sorted(numbers)))


LOCAL = key(1)
STEPS = st.one_of(
    st.tuples(st.just("fetch"), st.integers(1, 4)),
    st.tuples(st.just("wait"), st.integers(0, 150)),
    st.tuples(st.just("voters"), st.sets(st.integers(1, 4), min_size=1)),
)


@given(st.lists(STEPS, max_size=40))
def test_deadline_of_the_quorum_is_due_exactly_when_a_majority_has_been_silent(steps):
    state = LeaderState(local=LOCAL, epoch_start_offset=0, began_us=0)
    contacts = {}
    voters = voters_of(1, 2, 3)
    now_us = 0
    for what, value in steps:
        if what == "fetch" and value != 1:
            state.progress(voters, key(value)).on_contact(now_us)
            contacts[value] = now_us
        elif what == "voters":
            voters = voters_of(*value)
        elif what == "wait":
            now_us += value
        naive_us = TIMEOUT_US + majority_offset(
            now_us if voter.key == LOCAL else contacts.get(voter.key.node_id, 0) for voter in voters.voters
        )
        deadline_us = state.quorum_deadline_us(voters, now_us, TIMEOUT_US)
        assert deadline_us <= naive_us
        assert (deadline_us <= now_us) == (naive_us <= now_us)


def test_progress_of_a_voter_outlives_a_change_of_the_others():
    state = LeaderState(local=LOCAL, epoch_start_offset=0, began_us=0)
    state.progress(voters_of(1, 2), key(2)).log_end_offset = 7
    state.progress(voters_of(1, 2), key(3)).log_end_offset = 5
    held = {other.voter.key.node_id: other.progress.log_end_offset for other in state.others(voters_of(1, 2, 3))}
    assert held == {2: 7, 3: 5}


def test_successors_are_the_other_voters_with_the_longest_log_first():
    state = LeaderState(local=LOCAL, epoch_start_offset=0, began_us=0)
    voters = voters_of(1, 2, 3, 4)
    state.progress(voters, key(3)).log_end_offset = 7
    assert state.successors(voters) == (key(3), key(2), key(4))
