"""Which nodes suffice. Nodes here are what the choice asks of them."""

import dataclasses
import uuid
from random import Random
from types import SimpleNamespace

import pytest

from esp.model.ids import DirectoryId, NodeId
from esp.raft.voters import Voter, VoterKey, VoterSet
from esp.simulation.nodes_tier.core import choose_core
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.run import Run
from esp.simulation.workload.mover import Move
from tests.unit.storage.helpers import TOPIC_ID


def voter_set(numbers):
    return VoterSet(
        tuple(Voter(VoterKey(NodeId(number), DirectoryId(uuid.UUID(int=number))), ()) for number in numbers)
    )


def node(number, voters, *, disk=None, is_serving=True, disk_was_faulty=False):
    local = VoterKey(NodeId(number), DirectoryId(uuid.UUID(int=disk or number)))
    raft = SimpleNamespace(voters=voter_set(voters), config=SimpleNamespace(local=local))
    return SimpleNamespace(
        is_serving=is_serving,
        disk_was_faulty=disk_was_faulty,
        broker=SimpleNamespace(running=SimpleNamespace(raft=raft)),
    )


def image(*partitions, min_isr=2):
    """Metadata with partitions of nodes 1 to 3: each the ISR, and the ELR if there is one."""
    states = [
        (
            SimpleNamespace(name="flights"),
            SimpleNamespace(
                topic_id=TOPIC_ID,
                partition=0,
                replicas=(1, 2, 3),
                target_replicas=(1, 2, 3),
                isr=isr,
                elr=elr[0] if elr else (),
                last_known_elr=(),
            ),
        )
        for isr, *elr in partitions
    ]
    return SimpleNamespace(partitions=lambda: states, min_insync_replicas=lambda _topic, _factor: min_isr)


def cores(nodes, metadata, doubtful=(), moves=(), **minimums):
    return {tuple(sorted(choose_core(Random(seed), nodes, metadata, doubtful, moves, minimums))) for seed in range(60)}


def three(**states):
    return {number: node(number, (1, 2, 3), **states.get(f"n{number}", {})) for number in (1, 2, 3)}


def test_any_two_of_three_suffice():
    assert cores(three(), image(((1, 2, 3),))) == {(1, 2), (1, 3), (2, 3)}


def test_what_may_still_be_moved_counts_as_well():
    assert cores(three(), image(((1, 2, 3),)), (), [Move((TOPIC_ID, 0), (1, 2), 0.0)]) == {(1, 2)}


def test_all_are_needed_where_the_minimum_is_all_or_may_still_become_so():
    assert cores(three(), image(((1, 2, 3),)), flights=5) == {(1, 2, 3)}
    assert cores(three(), image(((1, 2, 3),)), trains=5) == {(1, 2), (1, 3), (2, 3)}
    assert cores(three(), image(((1, 2, 3),), min_isr=3)) == {(1, 2, 3)}


def test_somebody_complete_is_among_them():
    assert cores(three(), image(((1,),), min_isr=1)) == {(1, 2), (1, 3)}
    assert cores(three(), image(((), (3,)))) == {(1, 3), (2, 3)}
    assert cores(three(n1={"disk_was_faulty": True}), image(((1, 3),))) == {(1, 3), (2, 3)}


def test_all_are_needed_if_nobody_complete_is_left():
    assert cores(three(n1={"is_serving": False}), image(((1,),))) == {(1, 2, 3)}


def test_every_set_of_voters_that_anybody_knows_has_a_majority():
    nodes = three() | {4: node(4, (1, 2, 3, 4))}
    assert all(len(set(core) & {1, 2, 3, 4}) == 3 for core in cores(nodes, image(((1, 2, 3),))))


def test_a_voter_with_another_disk_does_not_vote():
    assert cores(three(n3={"disk": 33}), image(((1, 2, 3),))) == {(1, 2)}


def test_a_change_of_the_voters_that_may_still_be_done_counts_as_done():
    nodes = {number: node(number, (1,)) for number in (1, 2, 3)}
    assert (1, 3) in cores(nodes, image(((1, 2, 3),)))
    assert cores(nodes, image(((1, 2, 3),)), [2]) == {(1, 2)}


@pytest.mark.parametrize("seed", [14, 22])
def test_a_cluster_recovers_without_the_nodes_that_it_does_not_need(seed):
    profile = Profile.draw(seed)
    run = Run(dataclasses.replace(profile, heals_core_only=True, chaos_s=5.0, fault_means_s={}, moves_partitions=False))
    outcome = run.execute()
    assert outcome.violation is None
    assert outcome.abandoned_nodes > 0
