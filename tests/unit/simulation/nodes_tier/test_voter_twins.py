"""Second processes of voters: each observes with a disk of its own, is restarted, and is gone when the faults end."""

import asyncio
from dataclasses import replace

import pytest

from esp.model.ids import DirectoryId, LeaderEpoch, NodeId
from esp.raft.quorum_state import FILE_NAME, QuorumState
from esp.simulation.checkers import probe
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.faults import Fault, FaultKind
from esp.simulation.nodes_tier.layout import Layout
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.voter_twin_profile import draw_voter_twins
from esp.simulation.nodes_tier.voter_twins import VoterTwins, is_refused
from esp.simulation.nodes_tier.world import World
from esp.simulation.streams import stream

BRINGING = Fault(0.0, FaultKind.VOTER_TWIN, (2,), 15.0)
SPLIT = Layout(brokers=(1, 2), controllers=(3, 4, 5), first_voters=(3, 4, 5))


def new_world(layout=None):
    profile = Profile.draw(1, node_count=3)
    if layout is not None:
        profile = replace(profile, layout=layout, clock_rates=(1.0,) * len(layout.nodes))
    return World(replace(profile, fault_means_s={}, upgrade=None))


def test_second_process_observes_beside_the_voter_until_its_time_is_over():
    world = new_world()
    twins = VoterTwins(world, lambda: False)
    voted = set()

    async def main():
        await world.boot()
        world.loop.on_turn = lambda touched: voted.update(map(twins.look, touched))
        voters = probe.raft(world.nodes[1]).voters
        node = next(node for node in world.nodes.values() if not probe.leads_quorum(node))
        assert twins.bring(BRINGING, node)
        assert not twins.bring(BRINGING, world.nodes[3]), "one at a time"
        twin = twins._living
        await asyncio.sleep(12)
        assert twin.lives > 1
        assert probe.metadata_log(twin).log_end_offset > 0
        assert probe.raft(world.nodes[1]).voters == voters
        assert all(node.is_serving for node in world.nodes.values())
        await asyncio.sleep(5)
        assert not twin.is_alive
        assert twins._living is None

    world.loop.run(main())
    assert True in voted


def test_second_process_that_has_voted_is_found():
    world = new_world()
    twins = VoterTwins(world, lambda: False)

    async def main():
        await world.boot()
        twins.bring(BRINGING, world.nodes[2])
        await asyncio.sleep(0.5)
        twin = twins._living
        assert twins.look(twin.process)
        voter = probe.raft(world.nodes[1]).voters.voters[0].key
        state = QuorumState(LeaderEpoch(7), NodeId(-1), voter.node_id, DirectoryId(voter.directory_id))
        content = twin.disk.content(f"{probe.metadata_log(twin).path}/{FILE_NAME}")
        content.cached[:] = state.encode()
        with pytest.raises(ViolationError, match=r"^INV-ONE-VOTE at .* votes for node 1 in epoch 7"):
            twins.look(twin.process)
        twins.end()
        assert not twin.is_alive

    world.loop.run(main())


def test_brokers_are_not_started_twice_in_this_way():
    world = new_world(SPLIT)
    twins = VoterTwins(world, lambda: False)
    assert not twins.bring(BRINGING, world.nodes[2])
    world.loop.close()


def test_static_voters_and_a_single_controller_are_left_alone():
    drawn = [draw_voter_twins(stream("voter twins", seed), SPLIT) for seed in range(200)]
    assert 15 < sum(map(bool, drawn)) < 50
    static = replace(SPLIT, has_static_voters=True)
    single = Layout(brokers=(1, 2), controllers=(3,), first_voters=(3,))
    assert not any(draw_voter_twins(stream("x", seed), layout) for seed in range(50) for layout in (static, single))


@pytest.mark.parametrize(
    ("voters", "refused"),
    [("5 (directory.id A)", True), ("6 (directory.id A)", False), ("5 (directory.id A), 6 (directory.id B)", False)],
)
def test_only_the_log_of_a_sole_voter_of_the_same_id_is_a_reason_to_end(voters, refused):
    reason = f"did not come up: /data/__cluster_metadata-0 is the metadata log of the voters {voters}, but this is 5 (directory.id C)."
    assert is_refused(reason, 5) == refused
