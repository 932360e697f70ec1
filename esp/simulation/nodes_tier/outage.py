"""Outages that outlast every time-out: of one node, of most, or of all, for minutes, after the other faults.

By then sessions of brokers, of groups' members and of fetches have ended, requests were given up, connections were idle for too long, and
the quorum may have had no majority all the time. What lasts longer is not reached: the day for which idle producers are remembered, and the
days of retention.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Final

from esp.simulation.machine.links import LinkCondition, LinkRule
from esp.simulation.nodes_tier.outage_profile import CUT_OFF, DEAD, STANDING, OutageProfile
from esp.simulation.nodes_tier.world import World

_BACK_WITHIN_S: Final = 20.0
"""The time within which the nodes that were away are back."""


def leaves_majorities(gone: Collection[int], quorums: Iterable[Collection[int]]) -> bool:
    """True if of each set of voters, by their nodes, more than half are left when those that are ``gone`` do not vote."""
    return all(2 * sum(number in gone for number in quorum) < len(quorum) for quorum in quorums)


class Outage:
    """Carries one out.

    Args:
        world: the cluster that it befalls.
        profile: its kind, its nodes and its length.
    """

    def __init__(self, world: World, profile: OutageProfile) -> None:
        self._world = world
        self._profile = profile
        self._rng = world.random("outage's end")

    async def run(self) -> None:
        """Let it begin, and return when the last node may be back."""
        profile, world = self._profile, self._world
        who = " and ".join(map(str, profile.nodes))
        world.trace.say("nemesis", f"outage: {who} {profile.manner} for {profile.seconds:.0f} s")
        begin = {DEAD: self._kill, CUT_OFF: self._cut_off, STANDING: self._pause}[profile.manner]
        ends = [begin(number) for number in profile.nodes]
        world.away.update(profile.nodes)
        await asyncio.sleep(profile.seconds)
        for end in ends:
            world.loop.call_later(self._rng.uniform(0, _BACK_WITHIN_S), end, context=world.context)
        await asyncio.sleep(_BACK_WITHIN_S)
        world.away.clear()

    def _kill(self, number: int) -> Callable[[], object]:
        node, world = self._world.nodes[number], self._world
        node.kill()
        world.keeps_down[number] = None

        def end() -> None:
            del world.keeps_down[number]
            world.start_later(node, 0.0)

        return end

    def _cut_off(self, number: int) -> Callable[[], object]:
        links = self._world.network.links
        host = frozenset({self._world.nodes[number].host})
        blocked = LinkCondition(is_blocked=True)
        rules = [links.add(LinkRule(blocked, host, None)), links.add(LinkRule(blocked, None, host))]

        def end() -> None:
            for rule in rules:
                links.remove(rule)

        return end

    def _pause(self, number: int) -> Callable[[], object]:
        process = self._world.nodes[number].process
        if process is None or not process.alive:
            return self._kill(number)
        process.pause()
        return process.resume
