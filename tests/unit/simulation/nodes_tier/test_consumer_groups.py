"""When the consumer group of a healed cluster is whole, and a run in which it is."""

import dataclasses
import uuid
from types import SimpleNamespace

import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.simulation.nodes_tier.consumer_group_profile import ConsumerGroupProfile
from esp.simulation.nodes_tier.consumer_groups import ConsumerGroups
from esp.simulation.nodes_tier.group_profile import NO_GROUPS
from esp.simulation.nodes_tier.groups import Groups
from esp.simulation.nodes_tier.profile import Profile, TopicProfile
from esp.simulation.nodes_tier.run import Run
from esp.simulation.nodes_tier.world import World
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.consumer_group_requests import Subscription
from esp.simulation.workload.history import History

GROUP = ConsumerGroupProfile(
    name="group",
    members=2,
    static_members=1,
    regex_share=0.5,
    session_s=1.5,
    assignment_s=0.3,
    rebalance_s=2.0,
    give_back_s=0.5,
    calm_s=2.0,
    assignor=None,
    offsets_partitions=1,
    min_insync_replicas=1,
)
TOPIC = TopicId(uuid.UUID(int=1))
PARTITIONS = tuple(TopicIdPartition(TOPIC, number) for number in range(3))


def profile_with_group(**changes):
    drawn = Profile.draw(5, node_count=1)
    topics = (TopicProfile("topic", 3, 1, 1, {"min.insync.replicas": "1"}),)
    plain = {"topics": topics, "groups": NO_GROUPS, "consumer_group": GROUP, "fault_means_s": {}, "chaos_s": 15.0}
    return dataclasses.replace(drawn, **(plain | changes))


class Scene:
    """A group of two members that have three partitions."""

    def __init__(self):
        world = World(profile_with_group())
        world.loop.close()  # nothing runs in it
        world.spawn = lambda coroutine: coroutine.close()
        history = History(lambda _who, _line: None)
        replicas = SimpleNamespace(is_excused=lambda _key: False, of_partition=lambda _key: None)
        topic = SimpleNamespace(topic_id=TOPIC, name="topic", partitions=(None, None, None))
        image = SimpleNamespace(topics_by_name={"topic": topic}, topics_by_id={TOPIC: topic})
        self.groups = ConsumerGroups(
            world, history, lambda: image, replicas, Groups(world, history, lambda: image, replicas)
        )
        self.groups.begin()
        self.crew = self.groups._crew
        for place, partitions in enumerate((PARTITIONS[:2], PARTITIONS[2:])):
            self.crew.members[place] = SimpleNamespace(
                name=f"member {place}",
                is_settled=True,
                is_stopping=False,
                has_ended=False,
                epoch=3,
                owned=set(partitions),
            )

    @property
    def problems(self):
        return self.groups.find_unstable()


def test_group_in_which_all_is_well_is_whole():
    assert Scene().problems == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"is_settled": False}, "member 0 is not at its target"),
        ({"has_ended": True}, "not all members are there"),
        ({"is_stopping": True}, "not all members are there"),
        ({"epoch": 2}, "members are in different epochs"),
    ],
)
def test_member_that_is_not_where_it_belongs_is_a_problem(change, problem):
    scene = Scene()
    vars(scene.crew.members[0]).update(change)
    assert scene.problems == [problem]


def test_partition_without_member_and_members_without_balance_are_problems():
    scene = Scene()
    scene.crew.members[1].owned = set()
    unbalanced, incomplete = scene.problems
    assert unbalanced == "members own [2, 0] partitions"
    assert incomplete.startswith("members own ")


def test_member_that_is_not_there_is_a_problem_unless_it_has_left_for_good():
    scene = Scene()
    del scene.crew.members[0]
    assert "not all members are there" in scene.problems
    scene = Scene()
    scene.crew.retire()
    scene.crew.members[1].owned = set(PARTITIONS)
    assert scene.problems == []


def test_partitions_of_topics_that_members_do_not_read_are_a_problem():
    (problem,) = Scene().groups.find_unstable([])
    assert problem.endswith("not []")


def test_members_that_know_no_expressions_leave_for_others_when_one_is_read():
    scene = Scene()
    read = []
    for place, member in scene.crew.members.items():
        member.understands = lambda subscription, place=place: subscription.regex is None or place == 1
        member.subscribe = lambda subscription, place=place: read.append((place, subscription))
    expression = Subscription(regex="topic")
    scene.crew.read(expression)
    assert read == [(1, expression)]
    assert [member.is_stopping for member in scene.crew.members.values()] == [True, False]


def test_partition_that_is_added_to_what_an_expression_names_has_a_member_soon():
    run = Run(profile_with_group(consumer_group=dataclasses.replace(GROUP, grows=True)))
    outcome = run.execute()
    assert outcome.violation is None
    assert outcome.administered["topics grown"] == 1
    assert "topics left as they are" not in outcome.administered


def test_partition_that_cannot_be_added_is_counted(monkeypatch):
    async def refuse(_client, _topic):
        return ErrorCode.invalid_replication_factor

    monkeypatch.setattr(ClusterClient, "add_partition", refuse)
    outcome = Run(profile_with_group(consumer_group=dataclasses.replace(GROUP, grows=True))).execute()
    assert outcome.violation is None
    assert "topics grown" not in outcome.administered
    assert outcome.administered["topics left as they are"] == 1


def test_group_of_a_run_without_faults_is_told_commits_and_is_held_against_its_log():
    outcome = Run(profile_with_group()).execute()
    assert outcome.violation is None
    assert outcome.told_partitions > 3
    assert outcome.member_commits > 3
    assert outcome.replayed_groups > 20
