"""Share groups on the coordinators of a cluster: members get partitions with states, whatever becomes of coordinators on either side."""

import asyncio
from random import Random

import pytest

from esp.broker.groups.config import coordinator_config
from esp.broker.groups.coordinators import GroupCoordinators
from esp.broker.groups.share_states import GIVE_UP_MS
from esp.groups.requests import ListGroups
from esp.groups.share.requests import (
    LEAVE_EPOCH,
    AlteredOffset,
    AlterShareGroupOffsets,
    DeleteShareGroupOffsets,
    DescribeShareGroupOffsets,
    ShareGroupHeartbeat,
)
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId, TopicPartition
from esp.schemas.share_state_records import ShareStateKey
from tests.unit.broker.groups.memory_states import MemoryStates
from tests.unit.broker.replica_cluster import clustered

OFFSETS = "__consumer_offsets"
INTERVAL_S = 1.1
BEATS = 200
"""Heartbeats that one member sends at most before a test gives up."""


class Groups:
    """The coordinators of a cluster, and members of the share group ``g``."""

    def __init__(self, cluster, states=None, partitions=3, *, offered=True):
        self.cluster = cluster
        self.states = states or MemoryStates()
        for broker in cluster.brokers.values():
            broker.groups = GroupCoordinators(
                broker.env,
                coordinator_config(broker.settings, broker.replicas.on_disk_error),
                broker.metadata,
                broker.tasks,
                self.states if offered else None,
            )
        self.topic_id = cluster.controller.create("t", partitions=partitions)
        cluster.controller.create(OFFSETS)

    @property
    def coordinator(self):
        leader = self.cluster.controller.state(OFFSETS).leader
        return self.cluster[leader].groups.coordinator_of("g")

    def is_served(self):
        try:
            return bool(self.coordinator.core)
        except ApiError:
            return False

    async def until_served(self):
        await self.cluster.until(self.is_served)

    async def ask(self, name, request):
        """The answer to a request, from whichever node coordinates; NOT_COORDINATOR is worth another attempt."""
        while True:
            await self.until_served()
            one = self.coordinator
            answer = await one.ask(getattr(one.core.shares, name), request)
            if answer.error is not ErrorCode.not_coordinator:
                return answer
            await asyncio.sleep(0.1)

    async def beat(self, member, epoch=0, topics=("t",)):
        names = topics if epoch == 0 else None
        return await self.ask(
            "heartbeat", ShareGroupHeartbeat(group_id="g", member_id=member, member_epoch=epoch, topic_names=names)
        )

    async def until_assigned(self, member, numbers, *, topics=("t",)):
        """Let a member send heartbeats until it has these partitions; returns its epoch."""
        epoch, assigned = 0, None
        for _ in range(BEATS):
            answer = await self.beat(member, epoch, topics)
            if answer.error is ErrorCode.none:
                epoch = answer.member_epoch
                if answer.assignment is not None:
                    assigned = sorted(one.partition for one in answer.assignment)
                if assigned == sorted(numbers):
                    return epoch
            elif answer.error in (ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch):
                epoch = 0
            await asyncio.sleep(INTERVAL_S)
        raise AssertionError(f"{member} has {assigned}, not {numbers}")

    async def leave(self, member):
        return (await self.beat(member, LEAVE_EPOCH)).error

    async def delete_group(self):
        one = self.coordinator
        return (await one.ask(one.core.delete_group, "g")).error

    def key(self, number):
        return ShareStateKey("g", self.topic_id, number)

    def has_open_questions(self):
        """True if a coordinator that serves waits for share coordinators."""
        return bool(self.coordinator.core.shares._requests._waiting)

    async def quiet(self):
        await self.until_served()
        await self.cluster.until(lambda: not self.has_open_questions())

    def move(self, node):
        self.cluster.controller.change(OFFSETS, leader=NodeId(node))


@clustered()
async def test_members_are_assigned_what_share_coordinators_have_initialised(cluster):
    groups = Groups(cluster)
    await groups.until_served()
    answer = await groups.beat("a")
    assert (answer.error, answer.member_epoch, answer.assignment) == (ErrorCode.none, 2, frozenset())
    await groups.until_assigned("a", [0, 1, 2])
    assert groups.states.numbers() == [0, 1, 2]
    assert {state.start_offset for state in groups.states.states.values()} == {-1}
    assert len(groups.states.asked) == 3


@clustered()
async def test_partitions_whose_share_coordinator_is_away_are_asked_for_again_while_the_others_are_read(cluster):
    groups = Groups(cluster)
    groups.states.away.add(groups.key(1))
    await groups.until_assigned("a", [0, 2])
    began = cluster.loop.time()
    assert began < GIVE_UP_MS / 1000 + 5, "the others do not wait for its return"
    groups.states.away.clear()
    await groups.until_assigned("a", [0, 1, 2])


@clustered()
async def test_the_next_coordinator_goes_on_with_what_the_last_one_had_asked_for(cluster):
    groups = Groups(cluster)
    groups.states.away.add(groups.topic_id)
    await groups.until_served()
    await groups.beat("a")
    await asyncio.sleep(1)
    before = groups.coordinator
    groups.states.away.clear()
    groups.move(2)
    await groups.until_assigned("a", [0, 1, 2])
    assert before.has_ended
    assert groups.states.numbers() == [0, 1, 2]


@clustered()
async def test_a_deletion_that_the_coordinator_does_not_survive_may_be_asked_for_again(cluster):
    groups = Groups(cluster)
    await groups.until_assigned("a", [0, 1, 2])
    assert await groups.leave("a") is ErrorCode.none
    groups.states.away.add(groups.key(2))
    one = groups.coordinator
    deleting = one.ask(one.core.delete_group, "g")
    await asyncio.sleep(1)
    groups.move(3)
    assert (await deleting).error is ErrorCode.not_coordinator
    await groups.until_served()
    assert groups.states.numbers() == [2]
    assert await groups.delete_group() is ErrorCode.coordinator_not_available
    groups.states.away.clear()
    assert await groups.delete_group() is ErrorCode.none
    assert groups.states.numbers() == []
    assert groups.coordinator.core.list_groups(ListGroups()) == []


@clustered()
async def test_epochs_of_a_deleted_group_go_on_at_the_next_coordinator(cluster):
    """SHARE-50: the log still has the last epoch before the tombstone."""
    groups = Groups(cluster)
    reached = await groups.until_assigned("a", [0, 1, 2])
    assert await groups.leave("a") is ErrorCode.none
    assert await groups.delete_group() is ErrorCode.none
    before = groups.coordinator
    groups.move(2)
    await groups.until_served()
    assert await groups.until_assigned("b", [0, 1, 2]) > reached + 2
    assert before.has_ended


@clustered()
async def test_a_refusal_of_the_share_coordinator_is_the_answer_of_the_partition(cluster):
    groups = Groups(cluster)
    await groups.until_assigned("a", [0, 1, 2])
    assert await groups.leave("a") is ErrorCode.none
    groups.states.refusal = ErrorCode.coordinator_not_available
    place = TopicPartition("t", 1)
    described = await groups.ask("describe_offsets", DescribeShareGroupOffsets(group_id="g", partitions=(place,)))
    assert described.offsets[0].error is ErrorCode.coordinator_not_available
    alter = AlterShareGroupOffsets(group_id="g", offsets=(AlteredOffset(place, 5),))
    altered = await groups.ask("alter_offsets", alter)
    assert altered.partitions[0].error is ErrorCode.coordinator_not_available
    groups.states.refusal = None
    altered = await groups.ask("alter_offsets", alter)
    assert altered.partitions[0].error is ErrorCode.none
    described = await groups.ask("describe_offsets", DescribeShareGroupOffsets(group_id="g", partitions=(place,)))
    assert described.offsets[0].start_offset == 5


@clustered()
async def test_a_topic_that_is_gone_leaves_no_state(cluster):
    groups = Groups(cluster)
    await groups.until_assigned("a", [0, 1, 2])
    cluster.controller.delete("t")
    await cluster.until(lambda: groups.states.numbers() == [])
    await groups.quiet()
    assert groups.coordinator.core.shares.topic_ids == []
    cluster.controller.create("t", partitions=2)
    await groups.until_assigned("a", [0, 1])
    assert groups.states.numbers() == [0, 1]


@clustered()
async def test_a_topic_that_went_while_nobody_coordinated_is_forgotten_by_the_next_coordinator(cluster):
    groups = Groups(cluster)
    await groups.until_assigned("a", [0, 1, 2])
    hosted = cluster[1].hosted(OFFSETS)
    for broker in cluster.brokers.values():
        broker.groups.close()
    cluster.controller.delete("t")
    await cluster.applied()
    assert groups.states.numbers() == [0, 1, 2]
    groups.move(2)
    await groups.until_served()
    await cluster.until(lambda: groups.states.numbers() == [])
    assert groups.coordinator.core.shares.topic_ids == []
    assert hosted is not None


@clustered()
async def test_a_coordinator_with_older_metadata_than_its_own_leadership_takes_no_topic_for_gone(cluster):
    groups = Groups(cluster)
    await groups.until_assigned("a", [0, 1, 2])
    one = groups.coordinator
    one._has_looked_at_topics = False
    image = one._topics._metadata.image
    topic = image.topics_by_name[OFFSETS]
    one._topics.find_gone = list
    one._topics.leader_epoch = lambda _partition: topic.partitions[0].leader_epoch - 1
    one.look_at_topics(have_gone=True)
    assert one.core.shares.topic_ids == [groups.topic_id]
    del one._topics.leader_epoch
    one.look_at_topics(have_gone=False)
    assert one.core.shares.topic_ids == []


@clustered()
async def test_where_share_groups_are_not_offered_none_is_loaded(cluster):
    groups = Groups(cluster)
    await groups.until_assigned("a", [0, 1, 2])
    broker = cluster[2]
    broker.groups = GroupCoordinators(
        broker.env,
        coordinator_config(broker.settings, broker.replicas.on_disk_error),
        broker.metadata,
        broker.tasks,
    )
    groups.move(2)
    await groups.until_served()
    assert groups.coordinator.core.list_groups(ListGroups()) == []
    groups.move(3)
    await groups.until_served()
    [listed] = groups.coordinator.core.list_groups(ListGroups())
    assert (listed.group_id, listed.group_type, listed.state) == ("g", "share", "Stable")


@pytest.mark.parametrize("seed", range(10))
@clustered()
async def test_groups_come_to_rest_whatever_happened_before(cluster, seed):
    """Members, administrators, both kinds of coordinators and topics do what they like; then all is as it should be."""
    rng = Random(seed)
    groups = Groups(cluster, MemoryStates(rng), partitions=rng.randint(1, 4))
    ends = asyncio.get_running_loop().time() + 120

    async def member(name):
        epoch = 0
        while asyncio.get_running_loop().time() < ends:
            leaves = epoch > 0 and rng.random() < 0.1
            answer = await groups.beat(name, LEAVE_EPOCH if leaves else epoch)
            epoch = answer.member_epoch if answer.error is ErrorCode.none and not leaves else 0
            await asyncio.sleep(rng.choice((0.2, 1, 5)))
        await groups.leave(name)

    async def administrator():
        while asyncio.get_running_loop().time() < ends:
            await asyncio.sleep(rng.choice((1, 5, 10)))
            place = TopicPartition("t", rng.randint(0, 3))
            match rng.randrange(5):
                case 0:
                    request = AlterShareGroupOffsets(group_id="g", offsets=(AlteredOffset(place, rng.randint(-1, 9)),))
                    await groups.ask("alter_offsets", request)
                case 1:
                    await groups.ask("delete_offsets", DeleteShareGroupOffsets(group_id="g", topics=("t",)))
                case 2:
                    await groups.ask("describe_offsets", DescribeShareGroupOffsets(group_id="g", partitions=None))
                case 3:
                    await groups.until_served()
                    await groups.delete_group()
                case 4:
                    cluster.controller.delete("t")
                    await asyncio.sleep(rng.choice((0.01, 1)))
                    groups.topic_id = cluster.controller.create("t", partitions=rng.randint(1, 4))

    async def mover():
        while asyncio.get_running_loop().time() < ends:
            await asyncio.sleep(rng.choice((3, 10, 20)))
            groups.move(rng.randint(1, 3))

    async with asyncio.TaskGroup() as actors:
        for one in (member("a"), member("b"), administrator(), mover()):
            actors.create_task(one)
    groups.states.chance = 0
    await groups.quiet()
    count = len(cluster.controller.image.topics_by_name["t"].partitions)
    await groups.until_assigned("c", range(count))
    known = groups.coordinator.core.shares._state.shares.find("g").partitions.initialised
    assert list(known) == [groups.topic_id]
    assert {key for key in groups.states.states if key.topic_id == groups.topic_id} == set(
        map(groups.key, range(count))
    )
    assert await groups.leave("c") is ErrorCode.none
    assert await groups.delete_group() is ErrorCode.none
    assert not {key for key in groups.states.states if key.topic_id == groups.topic_id}
    await groups.quiet()
