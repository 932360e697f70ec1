"""Replicas that a simulated client moves between the directories of a broker, and some that it moves back at once."""

import asyncio
from itertools import pairwise
from random import Random
from types import SimpleNamespace

from esp.model.errors import ErrorCode
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.nodes_tier.cluster import DATA, MORE
from esp.simulation.workload.directory_mover import DirectoryMover
from esp.simulation.workload.history import History
from tests.unit.controller.samples import Cluster


class Connection:
    """Takes every move, or refuses all of them."""

    def __init__(self, error):
        self.error = error
        self.asked = []

    async def call(self, _key, _version, request, _timeout_s):
        (directory,) = request.dirs
        names = [(topic.name, topic.partitions[0]) for topic in directory.topics]
        self.asked.append((asyncio.get_running_loop().time(), directory.path, names))
        results = [
            SimpleNamespace(
                topic_name=name, partitions=[SimpleNamespace(partition_index=number, error_code=self.error)]
            )
            for name, number in names
        ]
        return SimpleNamespace(results=results)


def moves(error):
    """The requests of a minute, and those of them that came at the very time of the one before."""
    connection = Connection(error)
    cluster = Cluster(2)
    for topic in ("a", "b"):
        cluster.create_partition(1, 2, topic=topic)

    async def connect(_address):
        return connection

    async def scenario():
        client = SimpleNamespace(name="mover", connect=connect)
        brokers = {1: "one", 2: "two"}
        mover = DirectoryMover(client, Random(1), History(lambda _who, _what: None), lambda: cluster.image, brokers)
        task = asyncio.ensure_future(mover.run())
        await asyncio.sleep(60)
        task.cancel()

    SimulatedLoop().run(scenario(), limit_s=100)
    asked = connection.asked
    return asked, [(one, other) for one, other in pairwise(asked) if one[0] == other[0]]


def test_some_replicas_are_moved_back_at_once():
    asked, back = moves(ErrorCode.none)
    assert {path for _, path, _ in asked} == {DATA, MORE}
    assert 3 < len(back) < len(asked) / 2
    for (_, path, names), (_, path_back, names_back) in back:
        assert {path, path_back} == {DATA, MORE}
        assert len(names_back) == 1
        assert set(names_back) <= set(names)


def test_what_was_refused_is_not_moved_back():
    asked, back = moves(ErrorCode.log_dir_not_found)
    assert asked
    assert not back
