"""The nodes that must suffice for a cluster to recover, and what remains of the others.

A full recovery would hide a cluster that hangs on one node that is dead, or deaf, or cut off. So a *core* is chosen in which every
partition has copies enough and a complete one to lead it, and the quorum a majority. It is healed; a node outside it never recovers.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from random import Random
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.controller.image import ClusterImage
from esp.model.ids import NodeId
from esp.raft.voters import is_majority
from esp.simulation.checkers import probe
from esp.simulation.machine.links import LinkCondition, LinkRule
from esp.simulation.nodes_tier.cluster import CLIENT_HOST
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.world import World
from esp.simulation.workload.mover import Move

_BLOCKED: Final = LinkCondition(is_blocked=True)


class Quorum(NamedTuple):
    """The number of voters, and the nodes that can vote as one of them."""

    size: int
    able: frozenset[int]


def choose_core(
    rng: Random,
    nodes: Mapping[int, SimulatedNode],
    image: ClusterImage,
    doubtful: Iterable[int],
    moves: Collection[Move] = (),
    minimums: Mapping[str, int] = MappingProxyType({}),
) -> frozenset[int]:
    """Some least set of nodes that suffices; all of them if only all do.

    Args:
        rng: chooses among the least sets.
        nodes: all, as the faults left them.
        image: the newest committed metadata.
        doubtful: controllers that are about to become voters, or to be voters no more, as far as can be seen.
        moves: of partitions, that may still be done.
        minimums: of in-sync replicas, by topic, that may still come into force.
    """
    quorums = _possible_quorums(nodes, doubtful)
    # Others come back with less than they had, or may do so.
    complete = {number for number, node in nodes.items() if node.is_serving and not node.disk_was_faulty}
    core = set(nodes)
    if not _suffices(core, quorums, complete, image, moves, minimums):
        return frozenset(core)
    for number in rng.sample(sorted(core), len(core)):
        if _suffices(core - {number}, quorums, complete, image, moves, minimums):
            core.remove(number)
    return frozenset(core)


def _possible_quorums(nodes: Mapping[int, SimulatedNode], doubtful: Iterable[int]) -> list[Quorum]:
    """Every set of voters that may come to be in force: those that any node knows, and each after a change that is under way."""
    drivers = {number: driver for number, node in nodes.items() if (driver := probe.raft(node)) is not None}
    sets = [driver.voters for driver in drivers.values() if driver.voters.voters]
    known: dict[Quorum, None] = {}
    for voters in sets:
        # A node with another disk than the voter of its number is not that voter (RAFT-45).
        able = frozenset(number for number, driver in drivers.items() if voters.find(driver.config.local) is not None)
        known[Quorum(len(voters.voters), able)] = None
        for number in doubtful:
            is_voter = voters.find_node(NodeId(number)) is not None
            size, able_then = (
                (len(voters.voters) - 1, able - {number}) if is_voter else (len(voters.voters) + 1, able | {number})
            )
            if size:
                known[Quorum(size, able_then)] = None
    return list(known)


def _suffices(
    core: Collection[int],
    quorums: Iterable[Quorum],
    complete: Collection[int],
    image: ClusterImage,
    moves: Iterable[Move],
    minimums: Mapping[str, int],
) -> bool:
    if not all(is_majority(len(quorum.able.intersection(core)), quorum.size) for quorum in quorums):
        return False
    for topic, state in image.partitions():
        planned = [move.replicas for move in moves if move.key == (state.topic_id, state.partition)]
        candidates = state.isr or state.elr or state.last_known_elr
        for replicas in (state.replicas, state.target_replicas, *planned):
            copies = [replica for replica in replicas if replica in core]
            minimum = min(minimums.get(topic.name, 0), len(replicas))
            if len(copies) < max(minimum, image.min_insync_replicas(topic, len(replicas))):
                return False
        if not any(candidate in core and candidate in complete for candidate in candidates):
            return False
    return True


def abandon_rest(rng: Random, world: World, core: Collection[int]) -> None:
    """Let every other node fail for ever, if it is not dead already. Faults that lift themselves were lifted before."""
    for number, node in world.nodes.items():
        if number not in core:
            world.keeps_down[number] = None
            world.trace.say(node.name, _abandon(rng, world, node))


def _abandon(rng: Random, world: World, node: SimulatedNode) -> str:
    process = node.process
    if process is None or not process.alive:
        return "stays dead"
    fate = rng.choice(("dies", "is alone", "is cut off from the nodes", "is not heard", "stands still"))
    if fate == "dies":
        node.kill()
    elif fate == "stands still":
        process.pause()
    else:
        for rule in _rules(fate, node, world.nodes.values()):
            world.network.links.add(rule)
    return f"{fate} for ever"


def _rules(fate: str, node: SimulatedNode, nodes: Iterable[SimulatedNode]) -> Iterator[LinkRule]:
    own = frozenset({node.host})
    others = frozenset(other.host for other in nodes if other is not node)
    if fate == "is alone":
        others |= {CLIENT_HOST}
    yield LinkRule(_BLOCKED, own, others)
    if fate != "is not heard":
        yield LinkRule(_BLOCKED, others, own)
