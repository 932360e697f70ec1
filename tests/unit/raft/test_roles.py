"""Every pair of roles: legal or not."""

import pytest

from esp.raft.node import LogEnd, RaftNode
from esp.raft.roles import TRANSITIONS, Role
from tests.unit.raft.samples import LOCAL, VOTERS

_LEGAL = {
    (Role.UNATTACHED, Role.CANDIDATE),
    (Role.RESIGNED, Role.CANDIDATE),
    (Role.CANDIDATE, Role.LEADER),
}


@pytest.mark.parametrize("before", Role)
@pytest.mark.parametrize("after", Role)
def test_a_role_follows_another_only_where_the_table_says_so(before, after):
    node = RaftNode(LOCAL, VOTERS, None, LogEnd(0, 0))
    node.role = before
    assert (after in TRANSITIONS[before]) == ((before, after) in _LEGAL)
    if (before, after) in _LEGAL:
        node._become(after)
        assert node.role is after
    else:
        with pytest.raises(AssertionError):
            node._become(after)
