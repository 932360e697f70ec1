import pytest

from esp.replication.read_replica import preferred_read_replica
from tests.unit.replication.logs import ME, B, C, fetch, leading, state


def racks(**changed):
    return ({ME: "r1", B: "r2", C: "r2"} | {C: changed.get("c", "r2"), ME: changed.get("me", "r1")}).get


def led(isr=(ME, B, C)):
    leader = leading([1, 1], state(isr=isr))
    fetch(leader, B, 1, last_epoch=1)
    fetch(leader, C, 2, last_epoch=1)
    return leader


def test_the_follower_furthest_on_in_the_clients_rack_is_preferred():
    assert preferred_read_replica(led(), 1, "r2", racks()) == C
    assert preferred_read_replica(led(), 1, "r2", racks(c="r3")) == B


@pytest.mark.parametrize("rack", ["", "r1", "elsewhere"])
def test_the_leader_serves_clients_without_a_nearer_replica(rack):
    assert preferred_read_replica(led(), 1, rack, racks()) is None


def test_replicas_that_are_not_in_sync_or_lack_the_offset_or_do_not_serve_are_not_preferred():
    assert preferred_read_replica(led(isr=(ME, B)), 2, "r2", racks()) is None
    assert preferred_read_replica(led(isr=(ME, C)), 1, "r2", racks(c=None)) is None
