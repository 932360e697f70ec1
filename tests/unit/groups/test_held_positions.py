"""The offsets by which groups hold records against retention (HOLD-1, HOLD-4, HOLD-6)."""

from esp.groups.held_positions import HeldPosition
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from tests.unit.groups.test_deletion import CHECK_MS, RETENTION_MS
from tests.unit.groups.world import Topics, World

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def find(world, *names, partition=T0):
    found = world.coordinator.find_held_positions({partition: names})
    assert all(each.partition == partition for each in found)
    return {each.group_id: each.offset for each in found}


def test_groups_are_meant_by_name_and_by_pattern():
    world = World()
    for number, group in enumerate(("a", "ab", "b")):
        world.commit_offsets({("t", 0): number, ("u", 0): 9}, group=group)
    assert find(world, "a") == {"a": 0}
    assert find(world, "a*") == {"a": 0, "ab": 1}
    assert find(world, "b", "*") == {"a": 0, "ab": 1, "b": 2}
    assert find(world, "c") == find(world, "*", partition=T1) == {}


def test_partitions_are_asked_for_with_groups_of_their_own():
    world = World()
    world.commit_offsets({("t", 0): 1, ("t", 1): 2}, group="a")
    world.commit_offsets({("t", 0): 3, ("t", 1): 4}, group="b")
    found = world.coordinator.find_held_positions({T0: ["a"], T1: ["b"]})
    assert sorted(found) == [HeldPosition("a", T0, 1), HeldPosition("b", T1, 4)]


def test_a_commit_on_its_way_counts_if_it_goes_back():
    world = World()
    world.commit_offsets({("t", 0): 5}, group="a")
    world.is_stuck = True
    world.commit_offsets({("t", 0): 7}, group="a")
    assert find(world, "a") == {"a": 5}
    world.commit_offsets({("t", 0): 2}, group="a")
    world.commit_offsets({("t", 0): 1}, group="b")
    assert find(world, "*") == {"a": 2}, "the first commit of another group is not answered yet"
    while world.waiting:
        world.fail(ErrorCode.not_leader_or_follower)
    assert find(world, "a") == {"a": 5}


def test_a_deletion_on_its_way_ends_nothing():
    world = World()
    world.commit_offsets({("t", 0): 5}, group="a")
    world.is_stuck = True
    world.delete_group("a")
    assert find(world, "a") == {"a": 5}
    world.commit()
    assert find(world, "a") == {}


def test_an_offset_that_holds_records_does_not_expire():
    topics = Topics(t=1, u=1)
    topics.holds["t"] = ("a", "b-*")
    world = World(offsets_retention_ms=RETENTION_MS, topics=topics)
    for group in ("a", "b-1", "c"):
        world.commit_offsets({("t", 0): 1, ("u", 0): 2}, group=group)
    world.sleep(RETENTION_MS + CHECK_MS)
    assert set(world.groups()) == {"a", "b-1"}
    assert world.offsets("a") == world.offsets("b-1") == {("t", 0): 1}
    topics.holds.clear()
    world.sleep(CHECK_MS)
    assert world.groups() == {}
