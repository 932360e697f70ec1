"""One process that is a member of a consumer group (KIP-848): heartbeats, takes partitions and gives them back, commits, leaves or dies."""

import asyncio
import uuid
from random import Random
from typing import Final

from esp.groups.requests import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from esp.model.errors import ErrorCode
from esp.model.ids import uuid_to_base64
from esp.protocol.registry import ApiKey
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.simulation.checkers.consumer_group_checker import ConsumerGroupChecker
from esp.simulation.checkers.group_checker import GroupChecker
from esp.simulation.nodes_tier.cluster import node_rack
from esp.simulation.nodes_tier.consumer_group_profile import ConsumerGroupProfile
from esp.simulation.workload import consumer_group_requests as requests
from esp.simulation.workload.connection import NoAnswerError, RefusedError
from esp.simulation.workload.consumer_group_offsets import ConsumerGroupOffsets
from esp.simulation.workload.consumer_group_requests import Names, Sender, Subscription, Told
from esp.simulation.workload.group_client import TIMEOUT_S, GroupClient
from esp.simulation.workload.history import History
from esp.simulation.workload.offsets_client import is_passing

RACKS: Final = (node_rack(1), node_rack(2), "nowhere")
BACKOFF_S: Final = 0.2
COMMIT_SHARE: Final = 0.4
"""The share of the heartbeats after which the member commits."""

LATE_SHARE: Final = 0.5
"""The share of the times at which a member commits for partitions that it has given back, as a client does that tries again."""

ABANDON: Final = frozenset({ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id, ErrorCode.group_id_not_found})
"""Errors upon which a member gives everything up and joins anew, under the same id."""


class ConsumerGroupMember:
    """One process. It reads no records: what it would have read it takes for read.

    Args:
        client: asks the coordinator.
        rng: its own stream of randomness.
        history: counts what it met with.
        checker: sees what it is told, and what it gives back.
        offsets: sees which offsets it commits and is told.
        profile: the group's.
        subscription: what it reads.
        names: the names of the topics of which it commits offsets, by their ids.
        instance_id: its ``group.instance.id``.
    """

    def __init__(
        self,
        client: GroupClient,
        rng: Random,
        history: History,
        checker: ConsumerGroupChecker,
        offsets: GroupChecker,
        profile: ConsumerGroupProfile,
        subscription: Subscription,
        names: Names,
        instance_id: str | None,
    ) -> None:
        self.is_stopping = False
        """It is to leave in order."""
        self.is_hasty = False
        """It gives partitions back at once."""
        self.has_ended = self.has_left = False
        self.subscription = subscription
        self.instance_id = instance_id
        self.epoch = JOIN_EPOCH
        self.owned: set[TopicIdPartition] = set()
        """The partitions that it uses."""
        self._client = client
        self._rng = rng
        self._history = history
        self._checker = checker
        self._profile = profile
        self._names = names
        takes_regex = subscription.regex is not None
        self._version = requests.REGEX_FROM if takes_regex else rng.choice(requests.HEARTBEAT_VERSIONS)
        self._offsets = ConsumerGroupOffsets(client, offsets, checker, names, rng.choice(requests.OFFSET_VERSIONS))
        makes_id = self._version >= requests.CLIENT_MAKES_ID_FROM
        self.member_id = uuid_to_base64(uuid.UUID(int=rng.getrandbits(128), version=4)) if makes_id else ""
        self._rack_id = rng.choice((None, None, *RACKS))
        self._is_dead = False
        self._still_until_s = 0.0
        self._told_all = False
        """True if the coordinator has heard everything, and nothing of it has changed."""
        self._target: frozenset[TopicIdPartition] = frozenset()
        self._owned_told: frozenset[TopicIdPartition] | None = None
        self._positions: dict[TopicIdPartition, int] = {}
        self._return_s = 0.0
        """The time at which it gives back what it must."""

    @property
    def name(self) -> str:
        """The client id."""
        return self._client.client.name

    @property
    def is_settled(self) -> bool:
        """True if the coordinator knows what it reads, and it has all that it was told of, and no more."""
        return self._told_all and self.epoch > JOIN_EPOCH and self.owned == self._target == self._owned_told

    def die(self) -> None:
        """Be gone: all connections end, and the group is not left."""
        self._is_dead = True
        self._client.client.close()

    def stand_still(self, seconds: float) -> None:
        """Do nothing for a while, and go on as if nothing had happened."""
        self._still_until_s = asyncio.get_running_loop().time() + seconds

    def understands(self, subscription: Subscription) -> bool:
        """True if its version of the heartbeat can say that it reads this."""
        return subscription.regex is None or self._version >= requests.REGEX_FROM

    def subscribe(self, subscription: Subscription) -> None:
        """Read other topics from the next heartbeat on, if it can say so."""
        if self.understands(subscription):
            self.subscription = subscription
            self._told_all = False

    async def run(self) -> None:
        """Take part until told to leave, until it is dead, or until another process has its name."""
        while not self._is_dead:
            try:
                if self.is_stopping:
                    await self._leave()
                    break
                await self._beat()
                await self._use()
                await self._wait()
            except NoAnswerError as error:
                self._history.on_no_answer(self.name, str(error))
                self._told_all = False
                if self.is_stopping:
                    break
                await asyncio.sleep(BACKOFF_S)
            except RefusedError as error:
                self._history.on_refusal(self.name, error.code.name)
                if error.code is ErrorCode.fenced_instance_id:
                    break
                self._take_refusal(error.code)
                await asyncio.sleep(BACKOFF_S * self._rng.random())
        self.has_ended = True
        self._client.client.close()

    def _take_refusal(self, code: ErrorCode) -> None:
        if code in ABANDON:
            self._give_back(set(self.owned))
            self.epoch, self._told_all = JOIN_EPOCH, False
        elif is_passing(code):
            self._client.forget_coordinator()
            self._told_all = False

    @property
    def _sender(self) -> Sender:
        return Sender(self._profile.name, self.member_id, self.epoch, self.instance_id)

    async def _beat(self) -> None:
        """Send a heartbeat; tell everything at first and after an answer that was lost, else what has changed."""
        await self._maybe_stand_still()
        profile = self._profile
        if self.epoch == JOIN_EPOCH:
            self._give_back(set(self.owned))
        owned = frozenset(self.owned)
        if self._told_all:
            told = Told(owned=owned if owned != self._owned_told else None)
        else:
            told = Told(self.subscription, profile.rebalance_s, owned, profile.assignor, self._rack_id)
        subscription, sender = self.subscription, self._sender
        reply = await self._client.call(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, self._version, requests.heartbeat(sender, told, self._version)
        )
        answer = reply.answer
        if answer.error_code is not ErrorCode.none:
            raise RefusedError(answer.error_code)
        self._checker.on_epoch(profile.name, answer.member_id, int(answer.member_epoch))
        if self._is_dead:
            return
        self.member_id, self.epoch = answer.member_id, int(answer.member_epoch)
        self._owned_told, self._told_all = owned, subscription == self.subscription
        assigned = requests.assigned(answer)
        if assigned is None:
            await self._commit_beside(sender, list(self._positions))
            return
        self._checker.on_told(
            profile.name, self.member_id, self.epoch, assigned, asked_s=reply.asked_s, is_newest=reply.is_newest
        )
        if self.owned <= self._target and not self.owned <= assigned:
            slowest_s = 0.0 if self.is_hasty else profile.give_back_s
            self._return_s = asyncio.get_running_loop().time() + self._rng.uniform(0, slowest_s)
        self._target = assigned
        if self.owned <= assigned:
            self.owned = set(assigned)
        await self._commit_beside(sender, [one for one in self._positions if one in assigned])

    async def _commit_beside(self, former: Sender, kept: list[TopicIdPartition]) -> None:
        """Commit for what is kept as if the commit had been sent beside the heartbeat that raised the epoch (KIP-1251)."""
        if JOIN_EPOCH < former.epoch < self.epoch and kept and self._rng.random() < LATE_SHARE:
            await self._commit(former, kept)

    async def _use(self) -> None:
        """Read on where the group has come to, and commit now and then. Raises NoAnswerError, RefusedError."""
        new = [one for one in sorted(self.owned) if one not in self._positions and one.topic_id in self._names]
        if new:
            committed = await self._offsets.fetch(self._sender, new)
            self._positions.update((one, max(0, offset)) for one, offset in committed.items())
        if self._positions and self._rng.random() < COMMIT_SHARE:
            await self._commit(self._sender, [*self._positions])

    async def _commit(self, sender: Sender, partitions: list[TopicIdPartition]) -> None:
        for partition in partitions:
            self._positions[partition] += self._rng.randint(1, 5)
        offsets = {partition: self._positions[partition] for partition in partitions}
        await self._offsets.commit(sender, offsets, asyncio.get_running_loop().time())

    async def _wait(self) -> None:
        """Until the next heartbeat is due, or what must be given back is."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + self._profile.heartbeat_s * self._rng.uniform(0.9, 1.0)
        if self.owned <= self._target:
            if frozenset(self.owned) == self._owned_told:
                await asyncio.sleep(due_s - loop.time())
            return
        if self._return_s > due_s:
            await asyncio.sleep(due_s - loop.time())
            return
        await asyncio.sleep(max(0.0, self._return_s - loop.time()))
        await self._maybe_stand_still()
        returned = sorted(self.owned - self._target)
        kept = [one for one in returned if one in self._positions]
        sender = self._sender
        if kept and self._rng.random() < COMMIT_SHARE:
            await self._commit(sender, kept)  # as consumers do before they give partitions up
        positions = {one: self._positions[one] + 1 for one in kept}
        self._give_back(set(returned))
        self.owned |= self._target
        if positions and self._rng.random() < LATE_SHARE:
            await self._beat()
            await self._commit_late(sender, positions)

    async def _commit_late(self, former: Sender, positions: dict[TopicIdPartition, int]) -> None:
        """Commit what belonged to the epoch before, when another member may have it. Raises NoAnswerError."""
        await asyncio.sleep(self._rng.uniform(0, 2 * self._profile.heartbeat_s))
        try:
            await self._offsets.commit(former, positions, asyncio.get_running_loop().time())
        except RefusedError as error:
            self._history.on_refusal(self.name, f"late commit: {error.code.name}")

    def _give_back(self, partitions: set[TopicIdPartition]) -> None:
        self.owned -= partitions
        for partition in partitions:
            self._positions.pop(partition, None)
        self._checker.on_given_back(self._profile.name, self.member_id, partitions)

    async def _leave(self) -> None:
        self._give_back(set(self.owned))
        if self.epoch == JOIN_EPOCH:
            return
        is_coming_back = self.instance_id is not None and self._rng.random() < 0.7
        epoch = LEAVE_STATIC_EPOCH if is_coming_back and not self.is_hasty else LEAVE_EPOCH
        sender = self._sender._replace(epoch=epoch)
        reply = await self._client.call(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, self._version, requests.heartbeat(sender, Told(), self._version), TIMEOUT_S
        )
        self.has_left = epoch == LEAVE_EPOCH and reply.answer.error_code is ErrorCode.none

    async def _maybe_stand_still(self) -> None:
        left_s = self._still_until_s - asyncio.get_running_loop().time()
        if left_s > 0:
            await asyncio.sleep(left_s)
        if self._is_dead:
            raise NoAnswerError("dead")
