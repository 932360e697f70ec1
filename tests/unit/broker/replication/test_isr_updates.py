"""How changes of in-sync sets travel, with a controller that answers what the test says."""

import asyncio
from types import SimpleNamespace
from uuid import uuid4

import pytest
from kio.schema.alter_partition.v3.response import AlterPartitionResponse, PartitionData, TopicData

from esp.broker.replication.isr_updates import IsrUpdates, _answers
from esp.broker.tasks import Tasks
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from esp.simulation.machine.clock import SimulatedClock
from esp.simulation.machine.loop import SimulatedLoop
from tests.unit.broker.conversation import produce
from tests.unit.broker.replica_cluster import clustered
from tests.unit.broker.simulated_node import records


async def without_three(cluster, partitions=1):
    """A topic whose replica on broker 3 is not in sync, and a change to take it back that is being asked for."""
    cluster.controller.create(partitions=partitions, leader=1)
    for number in range(partitions):
        cluster.controller.change("t", number, isr=(NodeId(1), NodeId(2)))
    await cluster[1].applied()


def refusing(cluster, code, *, times, whole=False):
    """Make the controller answer ``times`` requests with ``code``, for their partitions or as a whole."""
    controller = cluster.controller

    def answer(message):
        if len(controller.altered) > times:
            return controller._alter(message)
        return AlterPartitionResponse(
            throttle_time=None,
            error_code=code if whole else ErrorCode.none,
            topics=()
            if whole
            else tuple(
                TopicData(
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        PartitionData(
                            partition_index=part.partition_index,
                            error_code=code,
                            leader_id=-1,
                            leader_epoch=-1,
                            partition_epoch=-1,
                        )
                        for part in topic.partitions
                    ),
                )
                for topic in message.topics
            ),
        )

    controller.answer_alter = answer


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_controller,
        ErrorCode.request_timed_out,
        ErrorCode.stale_broker_epoch,
        ErrorCode.unknown_server_error,
    ],
)
def test_what_settles_nothing_is_asked_again_unchanged(code, whole):
    @clustered()
    async def scenario(cluster):
        refusing(cluster, code, times=3, whole=whole)
        await without_three(cluster)
        await cluster.until(lambda: len(cluster.controller.state().isr) == 3)
        first, *others = cluster.controller.altered
        assert len(others) == 3
        assert all(other.topics == first.topics for other in others)

    scenario()


@clustered()
async def test_what_may_have_been_applied_waits_for_newer_metadata(cluster):
    refusing(cluster, ErrorCode.invalid_update_version, times=1)
    await without_three(cluster)
    await cluster.until(lambda: cluster.controller.altered)
    await asyncio.sleep(40)
    assert len(cluster.controller.altered) == 1
    cluster.controller.change(isr=(NodeId(1), NodeId(2)))
    await cluster.until(lambda: len(cluster.controller.state().isr) == 3)


@clustered()
async def test_a_request_says_who_asks_and_which_incarnation_of_whom_is_in_sync(cluster):
    await without_three(cluster)
    await cluster.until(lambda: cluster.controller.altered)
    message = cluster.controller.altered[0]
    assert (message.broker_id, message.broker_epoch) == (1, cluster[1].epoch)
    (part,) = message.topics[0].partitions
    assert (part.partition_index, part.leader_epoch, part.partition_epoch, part.leader_recovery_state) == (0, 0, 1, 0)
    members = {member.broker_id: member.broker_epoch for member in part.new_isr_with_epochs}
    assert set(members) == {1, 2, 3}
    assert (members[1], members[3]) == (cluster[1].epoch, cluster[3].epoch)
    assert members[2] in (-1, cluster[2].epoch)


@clustered()
async def test_while_one_request_is_out_the_others_gather(cluster):
    cluster.controller.delay_s = 0.5
    await without_three(cluster, partitions=20)
    await cluster.until(lambda: all(len(cluster.controller.state("t", number).isr) == 3 for number in range(20)))
    assert len(cluster.controller.altered) <= 3


@clustered()
async def test_the_answer_may_come_before_the_metadata_and_counts_at_once(cluster):
    cluster[1].metadata_delay_s = 0
    cluster.controller.create(leader=1, min_insync_replicas=3)
    cluster.controller.change(isr=(NodeId(1), NodeId(2)))
    await cluster[1].applied()
    cluster[1].metadata_delay_s = 5
    client = await cluster[1].client()
    await cluster.until(cluster[1].hosted().leader.has_enough_replicas, within_s=1)
    assert cluster[1].hosted().state.isr == (1, 2)
    assert (await produce(client, "t", records(b"x"))).error_code is ErrorCode.none


@clustered()
async def test_nothing_is_sent_after_the_end(cluster):
    cluster[1].replicas.disconnect()
    await without_three(cluster)
    await asyncio.sleep(40)
    assert not cluster.controller.altered
    cluster[1].replicas.disconnect()


def test_a_leader_that_need_not_wait_any_more_for_one_about_to_join_wakes_its_producers():
    """HW-4: the high watermark may move while nothing is proposed."""
    told = []

    class Leader:
        log = SimpleNamespace(high_watermark=3)

        def next_isr_change(self, now_us, broker_epoch):
            assert (now_us, broker_epoch) == (2_000_000, 7)
            self.log.high_watermark = 5

    class Hosted:
        leader = Leader()

        def committed(self):
            told.append("committed")

    async def main():
        loop = asyncio.get_running_loop()
        env = SimpleNamespace(clock=SimulatedClock(loop))
        hosted = Hosted()
        updates = IsrUpdates(env, NodeId(1), 4000, None, lambda: 7, Tasks(None), lambda: [hosted])
        await asyncio.sleep(2.5)
        updates.close()
        await asyncio.sleep(3)

    SimulatedLoop().run(main())
    assert told == ["committed"]


@pytest.mark.parametrize("recovering", [False, True])
def test_an_answer_says_whether_the_leader_is_recovering(recovering):
    answered = PartitionData(
        partition_index=0,
        error_code=ErrorCode.none,
        leader_id=1,
        leader_epoch=0,
        partition_epoch=0,
        leader_recovery_state=int(recovering),
    )
    topic = TopicData(topic_id=uuid4(), partitions=(answered,))
    [answer] = _answers(AlterPartitionResponse(throttle_time=None, error_code=ErrorCode.none, topics=(topic,))).values()
    assert answer.recovering is recovering
