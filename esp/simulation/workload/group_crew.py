"""All processes of one consumer group: members that come, go, die and are replaced, and an onlooker from outside."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from random import Random
from typing import Final

from esp.model.errors import ErrorCode
from esp.model.ids import OFFSETS_TOPIC, TopicPartition
from esp.simulation.checkers.group_checker import NO_OFFSET, GroupChecker
from esp.simulation.nodes_tier.expiry_profile import RECESS_MEAN_S, RECESS_S, ExpiryProfile
from esp.simulation.nodes_tier.group_profile import GroupProfile
from esp.simulation.workload.connection import NoAnswerError, RefusedError
from esp.simulation.workload.group_client import GroupClient
from esp.simulation.workload.group_dialects import CURRENT, GroupDialect, draw_dialect
from esp.simulation.workload.group_member import GroupMember
from esp.simulation.workload.group_requests import Identity
from esp.simulation.workload.history import History
from esp.simulation.workload.offsets_client import OffsetsClient, is_passing

HURRY_S: Final = 0.02
"""Between two questions of an onlooker that has lost the coordinator."""

POLL_S: Final = 0.5
OFFSET_MAX: Final = 1_000

KEPT: Final = TopicPartition(OFFSETS_TOPIC, 0)
"""The partition of which an offset never expires, as an old client asked for a long retention: so its group is never removed, and the
group's generations do not begin anew."""

KEPT_S: Final = 30 * 86_400.0
"""The retention: longer than the wall clocks of a run go."""


@dataclass(frozen=True, slots=True)
class CrewExpiry:
    """The expiry of a group's offsets."""

    profile: ExpiryProfile
    rng: Random
    """The stream of the times at which the group is empty."""


class GroupCrew:
    """Starts and ends the members of one group. Each member has a place; in it one process follows another.

    Args:
        profile: the group's.
        partitions: the partitions of which a client outside the group commits offsets, and which the members read.
        rng: its own stream of randomness.
        history: counts what its members met with.
        checker: sees what they are told.
        new_client: makes a client of a name that speaks a dialect.
        looks_closely: whether its onlooker asks again and again while there is no coordinator: what a new one tells first is worth most.
        expiry: the expiry of its offsets; None if they do not expire.
        dialects: chooses the release of each process; None if all are of the present one.
    """

    def __init__(
        self,
        profile: GroupProfile,
        partitions: Collection[TopicPartition],
        rng: Random,
        history: History,
        checker: GroupChecker,
        new_client: Callable[[str, str, GroupDialect], GroupClient],
        *,
        looks_closely: bool = False,
        expiry: CrewExpiry | None = None,
        dialects: Random | None = None,
    ) -> None:
        self.profile = profile
        self.partitions = self._known = tuple(partitions)
        """The partitions that the members read."""
        if expiry is not None and expiry.profile.reads_part:
            self.partitions = tuple(one for one in self._known if one.topic == self._known[0].topic)
        self._expiry = expiry
        self._dialects = dialects
        self.old_members = 0
        """Processes of members that were of an older release."""
        self._is_kept = expiry is None or not profile.members
        self._is_away = False
        self.members: dict[int, GroupMember] = {}
        """The newest process of each place."""
        self._rng = rng
        self._history = history
        self._checker = checker
        self._new_client = new_client
        self._looks_closely = looks_closely
        self._is_calm = self._is_stopping = False
        self._lives = 0
        self._former: list[GroupMember] = []
        """Processes of which another one has the name."""
        self._running: set[asyncio.Task[None]] = set()
        self._outside = new_client(profile.name, f"{profile.name} outside", self._draw_dialect())
        self._outside_offsets = OffsetsClient(self._outside, checker)

    async def keep(self, place: int) -> None:
        """See to it that there is a member in a place, and that things befall it, until told to stop."""
        while not (self._is_kept or self._is_stopping):  # a client outside the group does it  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
        while True:
            member = self.members.get(place)
            if member is None or member.has_ended:
                if self._is_stopping:
                    return
                if self._is_away:
                    await asyncio.sleep(POLL_S)
                    continue
                await asyncio.sleep(self._rng.uniform(0, 2 * self.profile.session_s))
                self._begin(place)
            elif self._is_stopping:
                member.is_stopping = True
                await asyncio.sleep(POLL_S)
            elif self._is_calm:
                await asyncio.sleep(POLL_S)
            else:
                await asyncio.sleep(min(self._rng.expovariate(1 / self.profile.calm_s), 2 * self.profile.calm_s))
                if not self._is_calm:
                    self._befall(place, member)

    async def look_on(self) -> None:
        """Ask for all offsets now and then, and commit some if the profile says so, which may be less than before."""
        is_in_hurry = False
        if not self._is_kept:
            await self._keep_group()
        while not self._is_stopping:
            was_in_hurry, is_in_hurry = is_in_hurry, False
            try:
                if self.profile.has_outsider and not was_in_hurry and self._rng.random() < 0.5:
                    count = self._rng.randint(1, len(self._known))
                    chosen = self._rng.sample(self._known, count)
                    offsets = {partition: self._rng.randrange(OFFSET_MAX) for partition in chosen}
                    await self._outside_offsets.commit(Identity(self.profile.name), offsets)
                else:
                    await self._outside_offsets.fetch(self._asked)
            except NoAnswerError as error:
                self._history.on_no_answer(self._outside.client.name, str(error))
                is_in_hurry = self._looks_closely
            except RefusedError as error:
                if is_passing(error.code):
                    self._outside.forget_coordinator()
                elif error.code is not ErrorCode.unknown_member_id:
                    self._history.on_refusal(self._outside.client.name, error.code.name)
            await asyncio.sleep(HURRY_S if is_in_hurry else self._rng.uniform(0.1, 2))

    async def read_back(self) -> None:
        """Ask for all offsets, until there is an answer."""
        while True:
            try:
                await self._outside_offsets.fetch(self._asked)
            except NoAnswerError:
                await asyncio.sleep(POLL_S)
            else:
                return

    async def await_expiry(self) -> None:
        """Ask for all offsets until none is left but the one that is kept."""
        while True:
            try:
                offsets = await self._outside_offsets.fetch(self._asked)
            except NoAnswerError:
                offsets = {}
            if offsets and all(offset == NO_OFFSET for one, offset in offsets.items() if one != KEPT):
                return
            self._outside.forget_coordinator()  # it may be cut off for ever, answer still, and not be able to remove anything
            await asyncio.sleep(POLL_S)

    async def take_recesses(self) -> None:
        """Let all members leave or die together now and then, if offsets expire, so that the group is empty for a while."""
        while self._expiry is not None:
            rng = self._expiry.rng
            await asyncio.sleep(rng.expovariate(1 / RECESS_MEAN_S))
            if self._is_calm:
                return
            self._is_away = True
            dies = rng.random() < 0.3
            self._history.say(self.profile.name, "all members die" if dies else "all members leave")
            for member in self.members.values():
                if dies:
                    member.die()
                else:
                    member.is_stopping = True
            await asyncio.sleep(rng.uniform(*RECESS_S))
            self._is_away = False

    @property
    def _asked(self) -> tuple[TopicPartition, ...]:
        """The partitions of which offsets may be committed."""
        return self._known if self._expiry is None or not self.profile.members else (*self._known, KEPT)

    async def _keep_group(self) -> None:
        """Commit an offset that does not expire, from outside the group, before the group has members.

        The group may lose its coordinator for good before that: then it never has members.
        """
        while not (self._is_kept or self._is_stopping):
            try:
                await self._outside_offsets.commit_retained(KEPT, 1, KEPT_S)
            except NoAnswerError as error:
                self._history.on_no_answer(self._outside.client.name, str(error))
            except RefusedError as error:
                self._outside.forget_coordinator()
                self._history.on_refusal(self._outside.client.name, error.code.name)
            else:
                self._is_kept = True
                return
            await asyncio.sleep(POLL_S)

    def calm(self) -> None:
        """Nothing befalls any member any more, and in each place there is one process."""
        self._is_calm = True
        for former in self._former:
            former.die()

    def stop(self) -> None:
        """Let all members leave."""
        self.calm()
        self._is_stopping = True

    @property
    def has_ended(self) -> bool:
        """True if no member's process runs any more."""
        return not self._running

    def _begin(self, place: int) -> GroupMember:
        self._lives += 1
        profile = self.profile
        name = f"{profile.name} member {place} life {self._lives}"
        instance_id = f"{profile.name}-static-{place}" if place < profile.static_members else None
        dialect = self._draw_dialect(is_static=instance_id is not None)
        if dialect is not CURRENT:
            self.old_members += 1
            self._history.say(name, f"is of {dialect.release}")
        member = self.members[place] = GroupMember(
            self._new_client(profile.name, name, dialect),
            Random(self._rng.random()),  # noqa: S311 - a replay by seed is what this is for
            self._history,
            self._checker,
            profile,
            self.partitions,
            instance_id,
        )
        running = asyncio.get_running_loop().create_task(member.run())
        self._running.add(running)
        running.add_done_callback(self._on_end)
        return member

    def _draw_dialect(self, *, is_static: bool = False) -> GroupDialect:
        return CURRENT if self._dialects is None else draw_dialect(self._dialects, is_static=is_static)

    def _on_end(self, running: "asyncio.Task[None]") -> None:
        self._running.discard(running)
        running.result()

    def _befall(self, place: int, member: GroupMember) -> None:
        chance = self._rng.random()
        say = self._history.say
        if chance < 0.25:
            say(member.name, "is to leave")
            member.is_stopping = True
        elif chance < 0.5:
            say(member.name, "dies")
            member.die()
        elif chance < 0.75 or member.identity.instance_id is None:
            seconds = self._rng.uniform(0.3, 3) * self.profile.session_s
            say(member.name, f"stands still for {seconds:.2f} s")
            member.stand_still(seconds)
        else:
            self._former.append(member)
            say(self._begin(place).name, f"takes the place of {member.name}")
