"""All processes of one share group: members that come, go, die and lose connections, and recesses in which an administrator is at work."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from esp.ports.network import Address
from esp.simulation.checkers.share_checker import ShareChecker
from esp.simulation.nodes_tier.share_profile import ShareProfile
from esp.simulation.workload.consumer_group_requests import Names
from esp.simulation.workload.group_client import GroupClient
from esp.simulation.workload.history import History
from esp.simulation.workload.share_administrator import ShareAdministrator
from esp.simulation.workload.share_member import ShareMember

POLL_S: Final = 0.2
LOOK_S: Final = 2.0
"""Mean time between two looks of the administrator."""

OLD_CONNECTIONS_S: Final = (0.1, 3.0)
"""The time for which connections stay open in place of which a member uses others."""

RECESS_MAX_S: Final = 10.0
"""The longest time for which members are waited for that leave for a recess."""

KEPT_ACTS: Final = (1, 2, 3)
"""The number of things that an administrator does to a group in a recess that all members keep."""


class ShareCrew:
    """Starts and ends the members of one group. Each member has a place; in it one process follows another.

    Args:
        group_id: the group.
        profile: that of all share groups of the run.
        names: the names of the topics that it reads, by their ids; more come as topics do.
        rng: its own stream of randomness.
        history: counts what its members met with.
        checker: sees what they are answered.
        new_client: makes a client of a name.
        administrator: the group's.
    """

    def __init__(
        self,
        group_id: str,
        profile: ShareProfile,
        names: Names,
        rng: Random,
        history: History,
        checker: ShareChecker,
        new_client: Callable[[str, str], GroupClient],
        administrator: ShareAdministrator,
    ) -> None:
        self.group_id = group_id
        self.received = 0
        """Records that members got."""
        self._profile = profile
        self._names = names
        self._rng = rng
        self._history = history
        self._checker = checker
        self._new_client = new_client
        self._administrator = administrator
        self._members: dict[int, ShareMember] = {}
        self._is_calm = self._is_stopping = self._is_recess = False
        self._lives = 0
        self._running: set[asyncio.Task[None]] = set()
        self._avoided: frozenset[Address] = frozenset()

    def avoid(self, addresses: frozenset[Address]) -> None:
        """These brokers stay away for good, and may not know that they lead no more: members read nothing there."""
        self._avoided = addresses
        self._administrator.avoid(addresses)
        for member in self._members.values():
            member.avoid(addresses)

    async def keep(self, place: int) -> None:
        """See to it that there is a member in a place, and that things befall it, until told to stop."""
        while True:
            member = self._members.get(place)
            if self._is_stopping or self._is_recess:
                if member is not None:
                    member.is_stopping = True
                if self._is_stopping and (member is None or member.has_ended):
                    return
                await asyncio.sleep(POLL_S)
            elif member is None or member.has_ended:
                await self._wait(self._rng.uniform(0, 0.5 if self._is_calm else self._profile.session_s))
                if not self._is_kept_recess:
                    self._begin(place)
            elif self._is_calm:
                await asyncio.sleep(POLL_S)
            else:
                calm_s = self._profile.calm_s
                await self._wait(min(self._rng.expovariate(1 / calm_s), 2 * calm_s))
                if self._may_befall():
                    self._befall(member)

    def _may_befall(self) -> bool:
        return not (self._is_calm or self._is_kept_recess)

    @property
    def _is_kept_recess(self) -> bool:
        """True during a recess in which no member joins."""
        return self._is_recess and self._profile.keeps_recesses

    async def _wait(self, seconds: float) -> None:
        """Sleep; a recess that is kept ends it, so that the member of a place leaves at once."""
        if not self._profile.keeps_recesses:
            await asyncio.sleep(seconds)
            return
        loop = asyncio.get_running_loop()
        end_s = loop.time() + seconds
        while not self._is_recess and (left_s := end_s - loop.time()) > 0:  # noqa: ASYNC110 - members look each POLL_S, too
            await asyncio.sleep(min(POLL_S, left_s))

    async def administer(self) -> None:
        """Look at the group now and then, and do something to it in each recess."""
        recess_s = self._profile.recess_s
        due_s = self._draw_recess(recess_s)
        while not self._is_calm:
            await asyncio.sleep(min(self._rng.expovariate(1 / LOOK_S), 2 * LOOK_S))
            await self._administrator.look()
            if due_s is not None and asyncio.get_running_loop().time() >= due_s and not self._is_calm:
                await self._take_recess()
                due_s = self._draw_recess(recess_s)

    def _draw_recess(self, mean_s: float | None) -> float | None:
        if mean_s is None:
            return None
        return asyncio.get_running_loop().time() + min(self._rng.expovariate(1 / mean_s), 2 * mean_s)

    async def _take_recess(self) -> None:
        self._history.say(self.group_id, "takes a recess")
        self._is_recess = True
        end_s = asyncio.get_running_loop().time() + RECESS_MAX_S
        # Members that stand still end when their time is over, and that is all there is to be waited for.
        while not self.has_ended and asyncio.get_running_loop().time() < end_s:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
        for _ in range(self._rng.choice(KEPT_ACTS) if self._profile.keeps_recesses else 1):
            if not self._is_calm:
                await self._administrator.act()
        self._is_recess = False

    async def begin_again(self) -> None:
        """Let all members leave, the administrator set the group's offsets back, and members come again."""
        while self._is_recess:  # noqa: ASYNC110 - one that began before the group came to rest ends by itself
            await asyncio.sleep(POLL_S)
        self._is_recess = True
        while not self.has_ended:  # noqa: ASYNC110 - members leave when their requests have ended
            await asyncio.sleep(POLL_S)
        await self._administrator.set_back()
        self._is_recess = False

    def calm(self) -> None:
        """Nothing befalls any member any more; all accept everything at once."""
        self._is_calm = True
        for member in self._members.values():
            member.is_hasty = True

    def stop(self) -> None:
        """Let all members leave."""
        self.calm()
        self._is_stopping = True

    @property
    def has_ended(self) -> bool:
        """True if no member's process runs."""
        return not self._running

    def _begin(self, place: int) -> None:
        self._lives += 1
        name = f"{self.group_id} member {place} life {self._lives}"
        rng = Random(self._rng.random())  # noqa: S311 - a replay by seed is what this is for
        client = self._new_client(self.group_id, name)
        member = ShareMember(client, rng, self._history, self._checker, self._profile, self._names, self._on_records)
        member.is_hasty = self._is_calm
        member.avoid(self._avoided)
        self._members[place] = member
        running = asyncio.get_running_loop().create_task(member.run())
        self._running.add(running)
        running.add_done_callback(self._on_end)

    def end_sessions_of(self, member_id: str, *, dies: bool) -> None:
        """The sessions of a member end at once, if it is there: it dies, or it loses its connections and goes on."""
        for member in self._members.values():
            if member.member_id == member_id and not (member.has_ended or self._is_calm):
                self._history.say(member.name, "dies in a write" if dies else "loses its connections in a write")
                if dies:
                    member.die()
                else:
                    member.lose_connections()

    def _on_records(self, count: int) -> None:
        self.received += count

    def _on_end(self, running: "asyncio.Task[None]") -> None:
        self._running.discard(running)
        running.result()

    def _befall(self, member: ShareMember) -> None:
        chance, say = self._rng.random(), self._history.say
        if chance < 0.2:
            say(member.name, "is to leave")
            member.is_stopping = True
        elif chance < 0.45:
            say(member.name, "dies")
            member.die()
        elif chance < 0.7:
            longest_s = max(self._profile.session_s, self._profile.lock_s)
            seconds = self._rng.uniform(0.3, 2) * longest_s
            say(member.name, f"stands still for {seconds:.2f} s")
            member.stand_still(seconds)
        elif chance < 0.85:
            say(member.name, "loses its connections")
            member.lose_connections()
        else:
            seconds = self._rng.uniform(*OLD_CONNECTIONS_S)
            say(member.name, f"changes its connections, and ends the old ones in {seconds:.2f} s")
            member.change_connections(seconds)
