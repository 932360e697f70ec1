import pytest

from esp.model.ids import NodeId
from esp.settings.addresses import QuorumServer, QuorumVoter
from esp.settings.quorum import QuorumError, check_quorum, parse_servers, parse_voters
from esp.settings.setting import SettingError

ONE, TWO = QuorumVoter(NodeId(1), "a", 9093), QuorumVoter(NodeId(2), "::1", 9094)


def test_voters_are_read_by_id():
    assert parse_voters(["2@[::1]:9094", "1@a:9093", "1@a:9093"]) == (ONE, TWO)
    assert [str(voter) for voter in (ONE, TWO)] == ["1@a:9093", "2@[::1]:9094"]


@pytest.mark.parametrize("entry", ["a:9093", "x@a:9093", "1@a", "1@a:70000", "-1@a:1", ""])
def test_what_is_no_voter_is_refused(entry):
    with pytest.raises(SettingError):
        parse_voters([entry])


def test_a_voter_with_two_addresses_is_refused():
    with pytest.raises(SettingError, match="two addresses"):
        parse_voters(["1@a:1", "1@a:2"])


def test_servers_are_read_in_their_order_each_once():
    assert parse_servers(["b:1", "[::1]:2", "b:1"]) == (QuorumServer("b", 1), QuorumServer("::1", 2))
    assert str(QuorumServer("::1", 2)) == "[::1]:2"


@pytest.mark.parametrize(
    ("node_id", "roles", "voters", "servers"),
    [
        (1, ("broker", "controller"), (), ()),
        (1, ("broker", "controller"), (ONE, TWO), ()),
        (1, ("controller",), (ONE, TWO), ()),
        (3, ("broker",), (ONE, TWO), ()),
        (3, ("broker",), (), (QuorumServer("a", 9093),)),
        (1, ("controller",), (), ()),
    ],
)
def test_nodes_with_a_place_in_the_quorum_are_taken(node_id, roles, voters, servers):
    check_quorum(node_id=NodeId(node_id), roles=roles, voters=voters, servers=servers)


@pytest.mark.parametrize(
    ("node_id", "roles", "voters", "setting"),
    [
        (3, ("broker", "controller"), (ONE, TWO), "controller.quorum.voters"),
        (1, ("broker",), (ONE, TWO), "controller.quorum.voters"),
        (1, ("broker",), (), "process.roles"),
        (1, (), (), "process.roles"),
        (1, ("broker", "broker"), (ONE,), "process.roles"),
    ],
)
def test_nodes_without_a_place_in_the_quorum_are_refused(node_id, roles, voters, setting):
    with pytest.raises(QuorumError) as caught:
        check_quorum(node_id=NodeId(node_id), roles=roles, voters=voters, servers=())
    assert caught.value.name == setting
