"""All processes of one consumer group of KIP-848: members that come, go, die, read other topics, and are replaced."""

import asyncio
from collections.abc import Callable, Collection
from random import Random
from typing import Final

from esp.schemas.consumer_group_records import TopicIdPartition
from esp.simulation.checkers.consumer_group_checker import ConsumerGroupChecker
from esp.simulation.checkers.group_checker import GroupChecker
from esp.simulation.nodes_tier.consumer_group_profile import ConsumerGroupProfile
from esp.simulation.workload.classic_consumer import ClassicConsumer
from esp.simulation.workload.consumer_group_member import ConsumerGroupMember
from esp.simulation.workload.consumer_group_requests import Names, Subscription
from esp.simulation.workload.group_client import GroupClient
from esp.simulation.workload.history import History

AnyMember = ConsumerGroupMember | ClassicConsumer

POLL_S: Final = 0.2
EVERYTHING: Final = ".*"


class ConsumerGroupCrew:
    """Starts and ends the members of one group. Each member has a place; in it one process follows another.

    Args:
        profile: the group's.
        names: the names of the topics that stay, by their ids.
        passing: the names of topics that come and go.
        partitions: all partitions of the topics that stay.
        rng: its own stream of randomness.
        history: counts what its members met with.
        checker: sees what they are told.
        offsets: sees which offsets they commit and are told.
        new_client: makes a client of a name.
    """

    def __init__(
        self,
        profile: ConsumerGroupProfile,
        names: Names,
        passing: tuple[str, ...],
        partitions: Callable[[], Collection[TopicIdPartition]],
        rng: Random,
        history: History,
        checker: ConsumerGroupChecker,
        offsets: GroupChecker,
        new_client: Callable[[str, str], GroupClient],
    ) -> None:
        self.profile = profile
        self.members: dict[int, AnyMember] = {}
        """The newest process of each place."""
        self._names = names
        self._passing = passing
        self._partitions = partitions
        self._rng = rng
        self._history = history
        self._checker = checker
        self._offsets = offsets
        self._new_client = new_client
        self._rest: Subscription | None = None
        """The topics that all members read, once nothing befalls them any more."""
        self._is_stopping = False
        self._retired: set[int] = set()
        self._lives = 0
        self._running: set[asyncio.Task[None]] = set()

    async def keep(self, place: int) -> None:
        """See to it that there is a member in a place, and that things befall it, until told to stop."""
        while place not in self._retired:
            member = self.members.get(place)
            if member is None or member.has_ended:
                if self._is_stopping:
                    return
                await asyncio.sleep(self._rng.uniform(0, self.profile.session_s))
                self._begin(place)
            elif self._is_stopping:
                member.is_stopping = True
                await asyncio.sleep(POLL_S)
            elif self._is_calm:
                await asyncio.sleep(POLL_S)
            else:
                await asyncio.sleep(min(self._rng.expovariate(1 / self.profile.calm_s), 2 * self.profile.calm_s))
                if not self._is_calm:
                    self._befall(member)

    def calm(self) -> None:
        """Nothing befalls any member any more; all read everything that stays, and give partitions back at once."""
        for member in self.members.values():
            member.is_hasty = True
        self.read(Subscription(tuple(sorted(self._names.values()))))

    def read(self, subscription: Subscription) -> None:
        """Let all members read this, and what follows them; those that know no expressions leave, if it is one, for others that do."""
        self._rest = subscription
        for member in self.members.values():
            if member.understands(subscription):
                member.subscribe(subscription)
            else:
                member.is_stopping = True

    def stop(self) -> None:
        """Let all members leave."""
        self.calm()
        self._is_stopping = True

    def retire(self) -> AnyMember:
        """Let one member leave for good: its place stays empty."""
        place = min(self.members)
        self._retired.add(place)
        member = self.members.pop(place)
        member.is_stopping = True
        return member

    @property
    def _is_calm(self) -> bool:
        """True if nothing befalls members any more."""
        return self._rest is not None

    @property
    def places(self) -> int:
        """The number of members that the group is to have."""
        return self.profile.members - len(self._retired)

    @property
    def has_ended(self) -> bool:
        """True if no member's process runs any more."""
        return not self._running

    def _begin(self, place: int) -> None:
        self._lives += 1
        profile = self.profile
        name = f"{profile.name} member {place} life {self._lives}"
        client = self._new_client(profile.name, name)
        rng = Random(self._rng.random())  # noqa: S311 - a replay by seed is what this is for
        subscription = self._draw_subscription() if self._rest is None else self._rest
        instance_id = f"{profile.name}-static-{place}" if place < profile.static_members else None
        seen = self._history, self._checker, self._offsets, profile, subscription, self._names
        member: AnyMember
        if profile.classic_share and self._rng.random() < profile.classic_share:
            member = ClassicConsumer(client, rng, *seen, self._partitions, instance_id)
        else:
            member = ConsumerGroupMember(client, rng, *seen, instance_id)
        self.members[place] = member
        member.is_hasty = self._is_calm
        running = asyncio.get_running_loop().create_task(member.run())
        self._running.add(running)
        running.add_done_callback(self._on_end)

    def _on_end(self, running: "asyncio.Task[None]") -> None:
        self._running.discard(running)
        running.result()

    def _draw_subscription(self) -> Subscription:
        rng = self._rng
        names = sorted(self._names.values())
        if rng.random() < self.profile.regex_share:
            return Subscription(regex=rng.choice((EVERYTHING, "topic-.*|passing-0", f"{names[0][:-1]}.", "passing.*")))
        passing = [name for name in self._passing if rng.random() < 0.5]
        return Subscription((*rng.choice((names, names, names[:1])), *passing))

    def _befall(self, member: AnyMember) -> None:
        chance = self._rng.random()
        say = self._history.say
        if chance < 0.25:
            say(member.name, "is to leave")
            member.is_stopping = True
        elif chance < 0.45:
            say(member.name, "dies")
            member.die()
        elif chance < 0.7:
            seconds = self._rng.uniform(0.3, 2) * self.profile.session_s
            say(member.name, f"stands still for {seconds:.2f} s")
            member.stand_still(seconds)
        else:
            subscription = self._draw_subscription()
            say(member.name, f"reads {subscription}")
            member.subscribe(subscription)
