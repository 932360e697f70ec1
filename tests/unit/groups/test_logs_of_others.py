"""Logs that Kafka wrote, and that compaction has changed: what they say is loaded and served."""

import random
import struct
from itertools import permutations

import pytest

from esp.groups.requests import Protocol
from esp.model.errors import ErrorCode
from esp.records.builder import NewRecord
from esp.schemas.consumer_group_record_codec import decode_consumer_group_record, encode_consumer_group_value
from esp.schemas.consumer_group_records import ConsumerGroupRecordType, TargetValue
from tests.unit.groups.consumer.classic_client import assignment, subscription
from tests.unit.groups.share.share_world import ShareWorld
from tests.unit.groups.world import DELAY_MS, Topics

SESSION = {"consumer_assignment_interval_ms": 0}


def current_of(world, member_id):
    """The place of the last record of a member's, with its key in the log."""
    for record in reversed(world.log):
        found = decode_consumer_group_record(record.key, record.value)
        if found is not None and found.key.type is ConsumerGroupRecordType.CURRENT and found.key.name == member_id:
            return record.key, found.value
    raise AssertionError(member_id)


def numbers(world, member_id, epoch, owned):
    """A heartbeat of a member that owns these partitions: its epoch, and the partitions that it has after that."""
    answer = world.answers[world.consume(member_id, epoch, owned=owned)]
    assert answer.error is ErrorCode.none, answer
    return answer.member_epoch, owned if answer.assignment is None else answer.assignment


def settled(world, members, turns=20):
    """Let members send heartbeats until nothing changes."""
    for _ in range(turns):
        world.sleep(1_000)
        for name, (epoch, owned) in tuple(members.items()):
            members[name] = numbers(world, name, epoch, owned)
    return members


def two_members():
    world = ShareWorld(topics=Topics(t=4))
    members = {}
    for name in ("a", "b"):
        answer = world.answers[world.consume(name)]
        members[name] = answer.member_epoch, answer.assignment or frozenset()
    return world, settled(world, members)


@pytest.mark.parametrize("robbed", ["a", "b"])
def test_two_members_that_have_one_partition_by_the_log_are_parted(robbed, caplog):
    """Compaction that runs while a log is written to or copied may take the record by which one gave it back (KAFKA-19862)."""
    world, members = two_members()
    [thief] = members.keys() - {robbed}
    key, place = current_of(world, thief)
    every = dict.fromkeys(world.topics.partitions("t"), place.epoch)
    world.log.append(NewRecord(timestamp=0, key=key, value=encode_consumer_group_value(place._replace(assigned=every))))
    members[thief] = place.epoch, frozenset(every)
    world = world.successor()
    assert "by its log several members have one partition" in caplog.text
    owned = [set(each) for _, each in settled(world, members).values()]
    assert not owned[0] & owned[1]
    assert owned[0] | owned[1] == world.topics.partitions("t")
    assert [len(each) for each in owned] == [2, 2]
    caplog.clear()
    world.successor()
    assert not caplog.text


def test_a_partition_is_free_when_the_last_of_its_rivals_has_given_it_back():
    world, _ = two_members()
    key, place = current_of(world, "a")
    every = dict.fromkeys(world.topics.partitions("t"), place.epoch)
    world.log.append(NewRecord(timestamp=0, key=key, value=encode_consumer_group_value(place._replace(assigned=every))))
    group = world.successor().coordinator._state.consumers.find("group")
    shared = group.contested
    assert len(shared) == 2
    for name, left in (("a", "b"), ("b", None)):
        record = decode_consumer_group_record(current_of(world, name)[0], None)
        group.apply(record)
        assert {group.owner_of(one) for one in shared} == {left}
    assert group.contested == []


def three_kinds():
    """A log with a group of each kind and committed offsets, and half of a conversion: the tombstone of the classic group is not there."""
    world = ShareWorld(topics=Topics(t=2), consumer_session_timeout_ms=45_000)
    world.beat("s", group="sharers")
    world.consume("m", group="consumers")
    world.commit_offsets({("t", 0): 7}, group="offsets")
    world.stable(group="classic")
    world.commit_offsets({("t", 0): 5}, group="moved")
    joined = world.join(group="moved", protocols=(Protocol("range", subscription("t")),))
    world.sleep(DELAY_MS)
    member_id = world.answers[joined].member_id
    world.sync(member_id, 1, {member_id: assignment(("t", 0), ("t", 1))}, group="moved")
    place = len(world.log)
    world.consume("c", group="moved")
    assert [record for record in world.log[place:] if record.value is None], "the classic group goes"
    world.log[place:] = [record for record in world.log[place:] if record.value is not None]
    return world


def check(world):
    found = {name: listed.group_type for name, listed in world.groups().items()}
    assert found == {
        "sharers": "share",
        "consumers": "consumer",
        "offsets": "classic",
        "classic": "classic",
        "moved": "consumer",
    }
    assert world.offsets("offsets") == {("t", 0): 7}
    assert world.offsets("moved") == {("t", 0): 5}
    assert world.beat("s", 2, group="sharers")[0] >= 2
    assert world.answers[world.consume("m", 2, group="consumers")].error is ErrorCode.none
    assert world.answers[world.consume("new", group="moved")].error is ErrorCode.none


def test_logs_with_tombstones_first_and_half_a_conversion_are_served():
    world = three_kinds()
    keys = list(dict.fromkeys(record.key for record in world.log))
    world.log[:0] = [NewRecord(timestamp=0, key=key, value=None) for key in keys]
    check(world.successor())


@pytest.mark.parametrize("seed", range(10))
def test_logs_that_are_compacted_up_to_any_place_are_served(seed):
    """Up to the place each key has its last value only, in the order of these; or a tombstone that is not removed yet."""
    world = three_kinds()
    place = random.Random(seed).randrange(len(world.log) + 1)
    last = {record.key: index for index, record in enumerate(world.log)}
    world.log[:place] = [record for index, record in enumerate(world.log[:place]) if last[record.key] == index]
    check(world.successor())


def test_groups_of_streams_are_passed_over():
    """Kafka has them, in records of types 17 to 23. They stay in the log: a coordinator writes nothing for groups that it does not have."""
    world = three_kinds()
    kept = list(world.log)
    for type_ in range(17, 24):
        for value in (b"\0\0whatever", None, b""):
            world.log.insert(
                type_, NewRecord(timestamp=0, key=struct.pack(">hh", type_, 7) + b"streams" + b"\0\1m", value=value)
            )
    streams = [record for record in world.log if record not in kept]
    world = world.successor()
    check(world)
    assert "streams" not in world.groups()
    assert [record for record in world.log if record in streams] == streams
    assert world.answers[world.delete_group("streams")].error is ErrorCode.group_id_not_found


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_target_of_a_member_that_is_not_there_stays_without_effect(order):
    """Records of a member whose others are gone, in any order."""
    world, _ = two_members()
    key, _ = current_of(world, "a")
    gone = key[:-1] + b"z"
    records = [
        NewRecord(timestamp=0, key=gone, value=None),
        NewRecord(timestamp=0, key=b"\0\7" + gone[2:], value=encode_consumer_group_value(TargetValue(frozenset()))),
        NewRecord(timestamp=0, key=b"\0\5" + gone[2:], value=None),
    ]
    world.log += [records[index] for index in order]
    world = world.successor()
    assert {member.member_id for member in world.coordinator.describe_consumer_group("group").members} == {"a", "b"}
