import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from tests.unit.groups.world import DELAY_MS, GROUP, World

MINUTE_MS = 60_000
CHECK_MS = 10 * MINUTE_MS
RETENTION_MS = 60 * MINUTE_MS


def world_with_retention(**more):
    return World(offsets_retention_ms=RETENTION_MS, **more)


def delete_partitions(world, *partitions):
    wanted = [TopicPartition(*partition) for partition in partitions]
    world.do(world.coordinator.on_partitions_deleted(wanted, world.now))


class TestDeleteGroup:
    def test_empty_group_goes_with_its_offsets_in_one_batch(self):
        world = World()
        world.commit_offsets({("t", 0): 1, ("t", 1): 2})
        world.is_stuck = True
        ticket = world.delete_group()
        (records,) = world.waiting.values()
        assert [record.value for record in records] == [None, None, None]
        assert [record.key[:2] for record in records] == [b"\0\1", b"\0\1", b"\0\2"]
        assert GROUP in world.groups()
        world.commit()
        assert world.error(ticket) is ErrorCode.none
        for it in (world, world.restart()):
            assert it.groups() == {}
            assert it.offsets() == {}

    def test_group_with_members_stays(self):
        world = World()
        world.stable()
        assert world.error(world.delete_group()) is ErrorCode.non_empty_group
        assert world.state() == "Stable"

    def test_group_that_is_not_there_is_not_found(self):
        world = World()
        assert world.error(world.delete_group()) is ErrorCode.group_id_not_found

    def test_group_whose_tombstone_fails_is_there_again(self):
        world = World()
        world.commit_offsets({("t", 0): 1})
        world.is_stuck = True
        ticket = world.delete_group()
        assert world.error(world.delete_group()) is ErrorCode.group_id_not_found
        world.fail(ErrorCode.not_leader_or_follower)
        assert world.error(ticket) is ErrorCode.not_coordinator
        assert world.offsets() == {("t", 0): 1}
        again = world.delete_group()
        world.commit()
        assert world.error(again) is ErrorCode.none
        assert world.groups() == {}

    def test_new_group_of_the_name_outlives_the_tombstone_of_the_old_one(self):
        world = World()
        world.commit_offsets({("t", 0): 1})
        world.is_stuck = True
        world.delete_group()
        world.join(group_instance_id="one")
        world.commit()
        assert world.state() == "PreparingRebalance"
        assert world.offsets() == {}

    def test_offset_that_is_committed_behind_the_tombstone_makes_a_new_group(self):
        world = World()
        world.commit_offsets({("t", 0): 1})
        world.is_stuck = True
        world.delete_group()
        world.commit_offsets({("t", 1): 2})
        world.commit()
        for it in (world, world.restart()):
            assert it.offsets() == {("t", 1): 2}
            assert set(it.groups()) == {GROUP}

    def test_offset_that_is_committed_before_the_tombstone_is_forgotten(self):
        world = World()
        world.commit_offsets({("t", 0): 1})
        world.is_stuck = True
        world.commit_offsets({("t", 1): 2})
        world.delete_group()
        world.commit()
        assert world.offsets() == {}
        assert world.groups() == {}
        assert world.restart().groups() == {}


class TestExpiry:
    def test_offsets_of_a_simple_group_expire_after_their_commit_and_the_group_with_them(self):
        world = world_with_retention()
        world.commit_offsets({("t", 0): 1})
        world.sleep(RETENTION_MS // 2)
        world.commit_offsets({("t", 1): 2})
        world.sleep(RETENTION_MS // 2 + CHECK_MS)
        assert world.offsets() == {("t", 1): 2}
        world.sleep(RETENTION_MS // 2)
        assert world.offsets() == {}
        assert world.groups() == {}
        assert world.restart().groups() == {}

    def test_offsets_of_a_group_with_members_stay_while_they_read_the_topic(self):
        world = world_with_retention()
        (member,) = world.stable(session_ms=1_800_000, rebalance_ms=1_800_000)
        world.commit_offsets({("t", 0): 1, ("u", 0): 2}, member_id=member, generation_id=1)
        for _ in range(8):
            world.sleep(CHECK_MS)
            world.beat(member, 1)
        assert world.offsets() == {("t", 0): 1}, "nobody reads u any more"

    def test_time_of_a_group_without_members_runs_from_when_it_became_empty(self):
        world = world_with_retention()
        (member,) = world.stable(session_ms=1_800_000)
        world.commit_offsets({("t", 0): 1}, member_id=member, generation_id=1)
        for _ in range(3):
            world.sleep(2 * CHECK_MS)
            world.beat(member, 1)
        world.leave(member)
        world.sleep(RETENTION_MS - 1)
        assert world.offsets() == {("t", 0): 1}
        world.sleep(CHECK_MS)
        assert world.offsets() == {}
        assert world.groups() == {}

    def test_offsets_do_not_expire_while_members_join(self):
        world = World(offsets_retention_ms=1, offsets_retention_check_interval_ms=1_000)
        world.commit_offsets({("u", 0): 2})
        world.join()
        world.sleep(DELAY_MS - 1)
        assert world.offsets() == {("u", 0): 2}

    def test_offsets_of_groups_whose_subscriptions_are_not_known_do_not_expire(self):
        world = world_with_retention()
        (member,) = world.stable(protocol_type="connect", session_ms=1_800_000)
        world.commit_offsets({("u", 0): 2}, member_id=member, generation_id=1)
        for _ in range(8):
            world.sleep(CHECK_MS)
            world.beat(member, 1)
        assert world.offsets() == {("u", 0): 2}

    @pytest.mark.parametrize("retention_ms", [0, MINUTE_MS, 2 * RETENTION_MS])
    def test_retention_that_a_client_asked_for_goes_before_the_settings(self, retention_ms):
        world = world_with_retention()
        world.commit_offsets({("t", 0): 1}, retention_ms=retention_ms)
        world = world.restart(offsets_retention_ms=RETENTION_MS)
        world.sleep(max(retention_ms - 1, 0))
        assert world.offsets() == {("t", 0): 1}
        world.sleep(CHECK_MS + 1)
        assert world.offsets() == {}

    def test_offsets_of_exempt_groups_do_not_expire(self):
        world = world_with_retention(offsets_retention_exempt_groups=("other", "esp-sink.*"))
        for group in ("esp-sink.flights", "esp-sinks", "others"):
            world.commit_offsets({("t", 0): 1}, group=group)
        world.commit_offsets({("t", 1): 1}, group="esp-sink.flights", retention_ms=1)
        world.sleep(RETENTION_MS + CHECK_MS)
        assert set(world.groups()) == {"esp-sink.flights"}
        assert world.offsets("esp-sink.flights") == {("t", 0): 1, ("t", 1): 1}

    def test_group_to_which_a_client_is_about_to_come_is_not_forgotten(self):
        world = World(offsets_retention_check_interval_ms=1_000)
        member = world.answers[world.join(known=True)].member_id
        world.sleep(2_000)
        ticket = world.join(member, known=True)
        world.sleep(DELAY_MS)
        assert world.error(ticket) is ErrorCode.none

    def test_many_groups_are_looked_at_in_slices_and_an_offset_that_is_committed_between_two_stays(self):
        world = world_with_retention()
        names = [f"group-{number}" for number in range(200)]
        for name in names:
            world.commit_offsets({("t", 0): 1}, group=name)
        world.is_busy = True
        world.wall_ms += 2 * RETENTION_MS
        world.sleep(CHECK_MS)
        assert world.groups().keys() == set(names)
        world.work(1)
        left = world.groups().keys()
        assert 0 < len(left) < len(names)
        reader = next(name for name in reversed(names) if name in left)
        world.commit_offsets({("t", 0): 2}, group=reader)
        world.work()
        assert world.groups().keys() == {reader}
        assert world.offsets(reader) == {("t", 0): 2}
        world.is_busy = False
        world.wall_ms += 2 * RETENTION_MS
        world.sleep(CHECK_MS)
        assert not world.groups(), "they are looked for again and again"

    def test_thousands_of_offsets_are_forgotten_in_batches_of_bounded_size(self):
        world = world_with_retention()
        world.commit_offsets({("t", number): 1 for number in range(1_700)})
        world.is_stuck = True
        world.sleep(RETENTION_MS)
        sizes = [len(records) for records in world.waiting.values()]
        assert sizes == [500, 500, 500, 201]
        world.commit()
        assert world.groups() == {}


class TestDeletedPartitions:
    def test_offsets_of_partitions_that_are_gone_are_forgotten_in_all_groups(self):
        world = World()
        world.commit_offsets({("t", 0): 1, ("u", 0): 2})
        world.commit_offsets({("t", 0): 3}, group="other")
        delete_partitions(world, ("t", 0), ("t", 1))
        for it in (world, world.restart()):
            assert it.offsets() == {("u", 0): 2}
            assert it.offsets("other") == {}

    def test_offsets_that_are_not_committed_yet_are_forgotten_too(self):
        world = World(is_stuck=True)
        world.commit_offsets({("t", 0): 1})
        delete_partitions(world, ("t", 0))
        world.commit()
        assert world.offsets() == {}

    def test_nothing_is_written_where_nothing_is_to_forget(self):
        world = World()
        world.commit_offsets({("t", 0): 1})
        before = len(world.log)
        delete_partitions(world, ("u", 0))
        assert len(world.log) == before
