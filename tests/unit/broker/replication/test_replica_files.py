"""Replicas' files are made and put aside in turns of a worker, with a sync for a turn and none for a replica."""

import asyncio
import uuid

from esp.broker.replication.directories import ReplicaDirectories
from esp.broker.replication.host import TURN_MAX, in_turns
from esp.broker.replication.replica_files import NewReplica, ReplicaFiles
from esp.model.ids import BrokerEpoch, TopicId, TopicPartition
from esp.settings.topic import TopicSettings
from esp.storage.log_directory import LogDirectory
from tests.unit.broker.played_server import in_world
from tests.unit.storage.helpers import append

TOPIC_ID = TopicId(uuid.UUID(int=5))


def new(number):
    return NewReplica(TopicPartition("t", number), TOPIC_ID, TopicSettings(), start_offset=0)


def opened(world, *paths):
    directories = [LogDirectory.open_blocking(world.env.disk, path) for path in paths]
    return directories, ReplicaFiles(world.env, ReplicaDirectories(world.env.host, directories))


def test_turns_hold_all_items_in_order_and_no_more_than_a_turn_takes():
    turns = list(in_turns(range(2 * TURN_MAX + 1)))
    assert [len(turn) for turn in turns] == [TURN_MAX, TURN_MAX, 1]
    assert [item for turn in turns for item in turn] == list(range(2 * TURN_MAX + 1))
    assert not list(in_turns([]))


@in_world
async def test_replicas_are_made_without_a_sync_and_divided_among_the_directories(world):
    (first, second), files = opened(world, "/a", "/b")
    world.env.disk.fail("sync", "*", times=1000)
    made = await files.create([new(number) for number in range(10)])
    assert [log.partition.partition for log in made] == list(range(10))
    assert len(first.logs) == len(second.logs) == 5
    assert await files.create([]) == []


@in_world
async def test_one_that_cannot_be_made_does_not_end_the_others(world):
    _, files = opened(world, "/a")
    world.env.disk.fail("create", "/a/t-1*")
    made = await files.create([new(number) for number in range(3)])
    assert [log is not None for log in made] == [True, False, True]


@in_world
async def test_many_are_put_aside_with_one_sync_for_each_directory(world):
    directories, files = opened(world, "/a", "/b")
    made = await files.create([new(number) for number in range(10)])
    for directory in directories:
        world.env.disk.fail("sync", directory.path, after=1)
    assert await files.put_aside(made) == {}
    assert not any(directory.logs for directory in directories)


@in_world
async def test_a_directory_that_fails_meanwhile_is_told_and_the_other_goes_on(world):
    (first, second), files = opened(world, "/a", "/b")
    made = await files.create([new(number) for number in range(4)])
    world.env.disk.fail("sync", "/a")
    failures = await files.put_aside(made)
    assert list(failures) == [first]
    assert isinstance(failures[first], OSError)
    assert not second.logs


@in_world
async def test_the_loop_goes_on_while_replicas_are_made(world):
    _, files = opened(world, "/a")
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(1e-6)

    counting = asyncio.get_running_loop().create_task(count())
    for turn in in_turns([new(number) for number in range(2 * TURN_MAX)]):
        before = turns
        await files.create(turn)
        assert turns > before
    counting.cancel()


@in_world
async def test_a_log_in_the_trash_that_is_damaged_is_kept_as_a_stray_and_the_replica_begins_anew(world, caplog):
    """REC-4: no byte of it is cut; the replica counts as gone (BRK-11), which its caller tells before it asks again."""
    (directory,), files = opened(world, "/a")
    [log] = await files.create([new(0)])
    log.begin_epoch(0)
    append(log)
    log.roll(0)
    append(log)
    directory.trash_logs_blocking([log], 0, 50, lambda _log: 0)
    [[_, path]] = [(each.key, each.path) for each in directory.trashed.by_key.values()]
    world.env.disk.remove(f"{path}/{0:020d}.log")
    left = world.env.disk.read_file(f"{path}/{1:020d}.log")
    assert await files.create([new(0)]) == [None]
    assert f"t-0 is damaged, and is not restored from {path}: " in caplog.text
    assert files.find_trashed(TOPIC_ID, 0) is None
    [made] = await files.create([new(0)])
    assert (made.path, made.log_end_offset) == ("/a/t-0", 0)
    assert world.env.disk.read_file(f"{path}/{1:020d}.log") == left
    directory.close_blocking(BrokerEpoch(0))
    again = LogDirectory.open_blocking(world.env.disk, "/a")
    assert not again.trashed.by_key
    assert world.env.disk.exists(path)
