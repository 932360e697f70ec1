"""Loading and unloading."""

import pytest

from esp.broker.groups.config import coordinator_settings
from esp.groups.coordinator import GroupCoordinator
from esp.model.errors import CorruptionError, ErrorCode
from esp.model.now import Now
from esp.settings.broker import BrokerSettings
from esp.simulation.machine.env import SeededRandom
from tests.unit.groups.world import DELAY_MS, GROUP, SESSION_MS, Topics, World


def test_members_go_on_with_a_new_coordinator():
    world = World()
    leader, follower = world.stable(2)
    world.commit_offsets({("t", 0): 1}, member_id=leader, generation_id=1)
    world = world.restart()
    world.sleep(SESSION_MS - 1)
    assert world.beat(leader, 1) is ErrorCode.none
    assert world.beat(follower, 1) is ErrorCode.none
    assert world.answers[world.sync(follower, 1)].assignment == follower.encode()
    assert world.error(world.commit_offsets({("t", 0): 2}, member_id=leader, generation_id=1)) is ErrorCode.none


def test_sessions_of_loaded_members_last_their_full_time_and_no_longer():
    world = World()
    world.stable()
    world = world.restart()
    world.sleep(SESSION_MS - 1)
    assert world.state() == "Stable"
    world.sleep(1)
    assert world.state() == "Empty"


def test_loaded_group_that_is_too_large_rebalances():
    world = World()
    leader, follower = world.stable(2)
    world = world.restart(group_max_size=1)
    assert world.state() == "PreparingRebalance"
    ticket = world.join(leader)
    assert world.error(world.join(follower)) is ErrorCode.group_max_size_reached
    assert world.answers[ticket].generation_id == 2


def test_static_member_is_known_after_loading():
    world = World()
    (former,) = world.stable(group_instance_id="one")
    world = world.restart()
    assert world.answers[world.join(group_instance_id="one")].member_id != former
    assert world.beat(former, 1, instance="one") is ErrorCode.fenced_instance_id


def test_all_that_wait_are_told_to_look_elsewhere():
    world = World()
    joining = world.join()
    world.sleep(DELAY_MS)
    leader = world.answers[joining].member_id
    world.is_stuck = True
    tickets = [world.sync(leader, 1), world.join(group="other"), world.commit_offsets({("t", 0): 1}, group="third")]
    world.do(world.coordinator.unload())
    assert {world.error(ticket) for ticket in tickets} == {ErrorCode.not_coordinator}
    assert world.open_tickets() == set()
    assert len(world.waiting) == 3, "nothing was appended on the way out"


def test_log_that_is_replayed_twice_says_the_same():
    world = World()
    world.stable(2)
    world.commit_offsets({("t", 0): 1}, group="simple")
    world.delete_offsets(("t", 0), group="simple")
    world.commit_offsets({("t", 1): 2}, group="simple")
    once, twice = World(log=world.log), World(log=world.log * 2)
    for group in (GROUP, "simple"):
        assert once.describe(group) == twice.describe(group) == world.describe(group)
        assert once.offsets(group) == twice.offsets(group) == world.offsets(group)


def test_records_of_other_protocols_are_skipped():
    coordinator = GroupCoordinator(coordinator_settings(BrokerSettings()), SeededRandom(None), Topics())
    coordinator.replay(b"\0\3\0\1g", b"\0\0\0\0\0\1\0")
    coordinator.begin(Now(0, 0))
    assert coordinator.describe_group("g").error is ErrorCode.group_id_not_found


def test_record_that_is_none_is_refused():
    coordinator = GroupCoordinator(coordinator_settings(BrokerSettings()), SeededRandom(None), Topics())
    with pytest.raises(CorruptionError):
        coordinator.replay(b"\0\1\0\1g", None)


def test_group_is_deleted_by_its_tombstone():
    world = World()
    world.commit_offsets({("t", 0): 1})
    before = list(world.log)
    world.delete_group()
    again = World(log=before + world.log[len(before) :])
    assert again.groups() == {}


def test_offsets_without_a_group_make_a_simple_one():
    world = World()
    (member,) = world.stable()
    world.commit_offsets({("t", 0): 1}, member_id=member, generation_id=1)
    offsets_only = [record for record in world.log if record.key[:2] == b"\0\1"]
    again = World(log=offsets_only)
    assert again.state() == "Empty"
    assert again.groups()[GROUP].protocol_type == ""


def test_heartbeats_of_thousands_leave_the_deadline_alone():
    world = World()
    (member,) = world.stable()
    before = world.coordinator.next_deadline_us
    for _ in range(1_000):
        assert world.beat(member, 1) is ErrorCode.none
    assert world.coordinator.next_deadline_us == before
