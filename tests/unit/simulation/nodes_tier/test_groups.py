"""When the groups of a healed cluster are whole, and a run in which they are."""

import dataclasses
from types import SimpleNamespace

from esp.controller.image import EMPTY_IMAGE
from esp.model.ids import TopicPartition
from esp.ports.network import Address
from esp.simulation.nodes_tier.cluster import node_host
from esp.simulation.nodes_tier.expiry_profile import ExpiryProfile
from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.group_profile import GroupProfile, GroupsProfile
from esp.simulation.nodes_tier.groups import Groups
from esp.simulation.nodes_tier.profile import Profile, TopicProfile
from esp.simulation.nodes_tier.run import Run
from esp.simulation.nodes_tier.world import World
from esp.simulation.workload.group_requests import Identity
from esp.simulation.workload.history import History

GROUP = GroupProfile(
    name="group",
    members=2,
    static_members=1,
    session_s=1.0,
    rebalance_s=2.0,
    calm_s=2.0,
    has_outsider=True,
)
PARTITIONS = (TopicPartition("topic", 0), TopicPartition("topic", 1))
SINCE_S = 0.0


def profile_with_groups(**changes):
    drawn = Profile.draw(5, node_count=1)
    topics = (TopicProfile("topic", 2, 1, 1, {"min.insync.replicas": "1"}),)
    plain = {"topics": topics, "groups": GroupsProfile((GROUP,), 1, 1), "fault_means_s": {}}
    return dataclasses.replace(drawn, **(plain | changes))


class Scene:
    """A group of two members, of which each owns one partition of two; all is committed."""

    def __init__(self):
        world = World(profile_with_groups())
        world.loop.close()  # nothing runs in it
        history = History(lambda _who, _line: None)
        replicas = SimpleNamespace(is_excused=lambda _key: False, of_partition=lambda _key: None)
        self.groups = Groups(world, history, lambda: EMPTY_IMAGE, replicas)
        (self.crew,) = self.groups._crews
        for place, partition in enumerate(PARTITIONS):
            self.crew.members[place] = SimpleNamespace(
                is_at_work=True, identity=Identity(GROUP.name, None, f"member-{place}", 3), positions={partition: 5}
            )
        for partition in PARTITIONS:
            self.commit(partition)

    def commit(self, partition, *, is_acked=True):
        checker = self.groups.checker
        commits = checker.on_commit_sent(Identity(GROUP.name), {partition: 1}, "text")
        if is_acked:
            checker.on_committed(partition, commits[partition])

    @property
    def problems(self):
        return self.groups.find_unstable(SINCE_S, ())


def test_group_that_is_whole_has_no_problem():
    assert Scene().problems == []


def test_member_without_assignment_is_found():
    scene = Scene()
    scene.crew.members[0].is_at_work = False
    assert scene.problems == ["group: not all members have their assignments"]


def test_member_that_is_missing_is_found():
    scene = Scene()
    del scene.crew.members[0]
    assert "group: not all members have their assignments" in scene.problems


def test_members_of_two_generations_are_found():
    scene = Scene()
    scene.crew.members[0].identity = scene.crew.members[0].identity._replace(generation_id=2)
    assert scene.problems == ["group: members are of different generations"]


def test_partition_that_two_or_none_own_is_found():
    scene = Scene()
    scene.crew.members[0].positions = dict(scene.crew.members[1].positions)
    (problem,) = scene.problems
    assert problem.startswith("group: members own ")


def test_partition_without_a_commit_since_the_cluster_is_whole_is_found():
    scene = Scene()
    assert len(scene.groups.find_unstable(1.0, ())) == 2
    history = scene.groups.checker.group(GROUP.name)
    history.commits[PARTITIONS[0]].clear()
    scene.commit(PARTITIONS[0], is_acked=False)
    assert scene.problems == [f"group: nothing is committed for {PARTITIONS[0]}"]


def test_silence_counts_from_nodes_that_must_answer_and_for_new_questions_only():
    scene = Scene()
    client = scene.groups.new_client(GROUP.name, "somebody")
    client._on_silence(Address(node_host(1), 9092), 4.0)
    assert scene.groups.find_silent(5.0, {1}) == []
    assert scene.groups.find_silent(3.0, {2}) == []
    assert scene.groups.find_silent(3.0, {1}) == ["node 1 did not answer the request of 4.000"]


def test_group_of_a_calm_run_rebalances_and_commits():
    lines = []
    outcome = Run(profile_with_groups(chaos_s=15.0), keep=lines.append).execute()
    assert outcome.violation is None
    assert outcome.group_commits > 20
    assert outcome.group_generations > 1
    assert any("member" in line for line in lines)


def test_offsets_of_a_calm_run_expire_only_when_their_time_is_over():
    expiry = ExpiryProfile(check_interval_ms=200, lapse_mean_s=4.0, reads_part=False)
    profile = profile_with_groups(
        chaos_s=40.0, groups=GroupsProfile((GROUP,), 1, 1, expiry), fault_means_s={FaultKind.LAPSE: 4.0}
    )
    outcome = Run(profile).execute()
    assert outcome.violation is None
    assert outcome.expired_offsets > 2
    assert outcome.expired_answers > 2
    assert outcome.unwitnessed_expiries == 0
