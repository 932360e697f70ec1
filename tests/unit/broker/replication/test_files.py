"""Replicas' files are made and put aside in turns of a worker, with a sync for a turn and none for a replica."""

import asyncio
import uuid

from esp.broker.replication.directories import ReplicaDirectories
from esp.broker.replication.host import TURN_MAX, NewReplica, ReplicaFiles, in_turns
from esp.model.ids import TopicId, TopicPartition
from esp.settings.topic import TopicSettings
from esp.storage.log_directory import LogDirectory
from tests.unit.broker.played_server import in_world

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
