"""Who moves partitions asks for what can be, and remembers what may still be done."""

import asyncio
from random import Random
from types import SimpleNamespace

from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from esp.schemas.metadata_records import BROKER_RESOURCE, ConfigRecord
from esp.settings.rebalance import DRAINING
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.mover import IN_DOUBT_S, PartitionMover
from tests.unit.controller.samples import Cluster

BROKERS = tuple(NodeId(number) for number in (1, 2, 3, 4))


class Connection:
    """Hands each request to a controller, and answers unless it is told not to."""

    def __init__(self, cluster, *, answers):
        self.cluster = cluster
        self.answers = answers
        self.asked = []

    async def call(self, _key, _version, request, _timeout_s):
        (topic,) = request.topics
        (partition,) = topic.partitions
        self.asked.append(partition.replicas)
        wanted = Reassignment(topic.name, partition.partition_index, partition.replicas)
        (error,) = self.cluster.decide(decide_reassignments(self.cluster.image, [wanted]))
        if not self.answers:
            raise NoAnswerError("silence")
        code = ErrorCode.none if error is None else error.code
        outcome = SimpleNamespace(partitions=[SimpleNamespace(error_code=code)])
        return SimpleNamespace(error_code=ErrorCode.none, responses=[outcome])


def moved(*, answers, seconds=60.0, seed=1):
    """A mover after some time, and what it asked for."""
    cluster = Cluster(4, min_insync_replicas=2)
    cluster.create_partition(1, 2, 3)
    connection = Connection(cluster, answers=answers)

    async def any_broker():
        return connection

    client = SimpleNamespace(name="mover", any_broker=any_broker)
    history = History(lambda _who, _what: None)
    mover = PartitionMover(client, Random(seed), history, BROKERS, lambda: cluster.image)

    async def act():
        for _ in range(int(seconds)):
            try:
                await mover._act()
            except NoAnswerError:
                return

    asyncio.run(act())
    return mover, connection, history


def test_partitions_are_moved_and_keep_as_many_replicas_as_must_be_in_sync():
    mover, connection, history = moved(answers=True)
    assert {"reassignment begun", "reassignment changed", "reassignment cancelled"} <= history.done.keys()
    assert {len(replicas) for replicas in connection.asked if replicas is not None} == {2, 3}
    assert mover.doubtful(0.0) == []


def test_patient_mover_leaves_alone_what_waits_for_a_broker_that_is_away_or_drains():
    for makes_wait in (Cluster.fence, drain):
        cluster = Cluster(4)
        cluster.create_partition(1, 2, 3)
        (topic,) = cluster.image.topics_by_name
        wanted = [Reassignment(topic, 0, (NodeId(1), NodeId(2), NodeId(4)))]
        cluster.decide(decide_reassignments(cluster.image, wanted))
        assert asked_by_a_patient_mover(cluster)
        cluster = Cluster(4)
        cluster.create_partition(1, 2, 3)
        cluster.decide(decide_reassignments(cluster.image, wanted))
        makes_wait(cluster, 4)
        assert asked_by_a_patient_mover(cluster) == []


def drain(cluster, number):
    cluster.apply([ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=f"{number}", name=DRAINING, value="true")])


def asked_by_a_patient_mover(cluster):
    connection = Connection(cluster, answers=True)

    async def any_broker():
        return connection

    client = SimpleNamespace(name="mover", any_broker=any_broker)
    history = History(lambda _who, _what: None)
    mover = PartitionMover(client, Random(1), history, BROKERS, lambda: cluster.image, is_patient=True)
    asyncio.run(mover._act())
    return connection.asked


def test_what_was_not_answered_may_still_be_done_for_a_while():
    mover, connection, _ = moved(answers=False)
    (move,) = mover.doubtful(0.0)
    assert move.replicas == connection.asked[0]
    assert mover.doubtful(move.sent_s + IN_DOUBT_S) == []
