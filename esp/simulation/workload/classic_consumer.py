"""One process that speaks the classic protocol in a group that moves between the protocols: it joins, syncs, leads where there is a leader,
commits, leaves or dies.

It gives all its partitions back before it joins (eager), or keeps them, says which they are, and gives back what it is told no more of
(cooperative).
"""

import asyncio
from collections.abc import Callable, Collection
from random import Random
from typing import Any, Final

from esp.groups.embedded_protocol import read_assignment, read_subscription
from esp.groups.requests import JOIN_EPOCH, NO_GENERATION
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.protocol.registry import ApiKey
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.simulation.checkers.consumer_group_checker import ConsumerGroupChecker
from esp.simulation.checkers.group_checker import GroupChecker
from esp.simulation.nodes_tier.consumer_group_profile import ConsumerGroupProfile
from esp.simulation.workload import classic_member_requests as requests
from esp.simulation.workload.connection import NoAnswerError, RefusedError
from esp.simulation.workload.consumer_group_offsets import ConsumerGroupOffsets
from esp.simulation.workload.consumer_group_requests import OFFSET_VERSIONS, Names, Sender, Subscription
from esp.simulation.workload.group_client import TIMEOUT_S, GroupClient
from esp.simulation.workload.history import History
from esp.simulation.workload.leading import share_out
from esp.simulation.workload.offsets_client import is_passing

BACKOFF_S: Final = 0.2
COMMIT_SHARE: Final = 0.4
LATE_SHARE: Final = 0.5
"""The share of its generations in which it commits for the generation before."""


class ClassicConsumer:
    """One process. It reads no records: what it would have read it takes for read.

    Args:
        client: asks the coordinator.
        rng: its own stream of randomness.
        history: counts what it met with.
        checker: sees what it is told, and what it gives back.
        offsets: sees which offsets it commits and is told.
        profile: the group's.
        subscription: what it reads; expressions are not for it.
        names: the names of the topics that stay, by their ids.
        partitions: all partitions of these topics.
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
        partitions: Callable[[], Collection[TopicIdPartition]],
        instance_id: str | None,
    ) -> None:
        self.is_stopping = False
        """It is to leave in order."""
        self.is_hasty = False
        """It gives partitions back at once."""
        self.has_ended = self.has_left = False
        self.instance_id = instance_id
        self.member_id = ""
        self.epoch = JOIN_EPOCH
        """Its generation."""
        self.owned: set[TopicIdPartition] = set()
        """The partitions that it uses."""
        self._client = client
        self._rng = rng
        self._history = history
        self._checker = checker
        self._profile = profile
        self._names = names
        self._ids = {name: topic_id for topic_id, name in names.items()}
        self._partitions = partitions
        self._offsets = ConsumerGroupOffsets(client, offsets, checker, names, rng.choice(OFFSET_VERSIONS))
        self._topics = self._known_topics(subscription)
        self._protocol = "cooperative-sticky" if profile.is_cooperative else "range"
        self._is_dead = False
        self._still_until_s = 0.0
        self._is_at_work = self._must_join = False
        self._positions: dict[TopicIdPartition, int] = {}
        self._shared_out: frozenset[TopicIdPartition] | None = None
        """All partitions that it has shared out as the leader of its generation; None if it does not lead."""

    @property
    def name(self) -> str:
        """The client id."""
        return self._client.client.name

    @property
    def is_settled(self) -> bool:
        """True if it has its assignment, as far as it knows."""
        return self._is_at_work and not self._must_join

    def die(self) -> None:
        """Be gone: all connections end, and the group is not left."""
        self._is_dead = True
        self._client.client.close()

    def stand_still(self, seconds: float) -> None:
        """Do nothing for a while, and go on as if nothing had happened."""
        self._still_until_s = asyncio.get_running_loop().time() + seconds

    @staticmethod
    def understands(_subscription: Subscription) -> bool:
        """True: its client looks up itself which names an expression means."""
        return True

    def subscribe(self, subscription: Subscription) -> None:
        """Read other topics from the next generation on."""
        topics = self._known_topics(subscription)
        self._must_join = self._must_join or topics != self._topics
        self._topics = topics

    async def run(self) -> None:
        """Take part until told to leave, until it is dead, or until another process has its name."""
        while not self._is_dead:
            try:
                if self.is_stopping:
                    await self._leave()
                    break
                await self._begin_generation()
                await self._work()
            except NoAnswerError as error:
                self._history.on_no_answer(self.name, str(error))
                if self.is_stopping:
                    break
                await asyncio.sleep(BACKOFF_S)
            except RefusedError as error:
                self._history.on_refusal(self.name, error.code.name)
                if error.code is ErrorCode.fenced_instance_id:
                    break
                self._take_refusal(error.code)
                await asyncio.sleep(BACKOFF_S * self._rng.random())
            self._is_at_work = False
        self._is_at_work = False
        self.has_ended = True
        self._client.client.close()

    def _known_topics(self, subscription: Subscription) -> tuple[str, ...]:
        names = sorted(self._names.values())
        return tuple(name for name in names if subscription.regex is not None or name in subscription.names)

    def _take_refusal(self, code: ErrorCode) -> None:
        if code in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
            self._give_back(set(self.owned))
            self.epoch = JOIN_EPOCH
            if code is ErrorCode.unknown_member_id:
                self.member_id = ""
        elif is_passing(code):
            self._client.forget_coordinator()

    @property
    def _sender(self) -> Sender:
        return Sender(self._profile.name, self.member_id, self.epoch, self.instance_id)

    async def _begin_generation(self) -> None:
        """Join, and ask for the assignment."""
        former, positions = self._sender, dict(self._positions)
        self._must_join = False
        answer = await self._join()
        await self._maybe_stand_still()
        self.member_id, self.epoch = answer.member_id, int(answer.generation_id)
        leads = answer.leader == answer.member_id and bool(answer.members)
        self._shared_out = frozenset(self._partitions()) if leads else None
        request = requests.sync(self._sender, self._protocol, self._lead(answer.members) if leads else {})
        reply = await self._client.call(ApiKey.SYNC_GROUP, requests.SYNC_VERSION, request)
        _require_success(reply.answer.error_code)
        if self._is_dead:
            return
        assigned = self._identify(read_assignment(reply.answer.assignment).partitions)
        self._checker.on_told(
            self._profile.name, self.member_id, self.epoch, assigned, asked_s=reply.asked_s, is_newest=reply.is_newest
        )
        await self._take(assigned)
        late = {one: position + 1 for one, position in positions.items() if one not in self.owned}
        if late and JOIN_EPOCH < former.epoch < self.epoch and self._rng.random() < LATE_SHARE:
            await self._commit_late(former, late)

    async def _join(self) -> Any:
        await self._maybe_stand_still()
        profile = self._profile
        if not profile.is_cooperative:
            self._give_back(set(self.owned))
        owned = [TopicPartition(self._names[one.topic_id], one.partition) for one in sorted(self.owned)]
        metadata = requests.subscription(self._topics, owned)
        while True:
            request = requests.join(
                self._sender, self._protocol, metadata, session_s=profile.session_s, rebalance_s=profile.rebalance_s
            )
            timeout_s = TIMEOUT_S + 3 * profile.rebalance_s
            answer = (await self._client.call(ApiKey.JOIN_GROUP, requests.JOIN_VERSION, request, timeout_s)).answer
            if answer.error_code is not ErrorCode.member_id_required:
                break
            self.member_id = answer.member_id
        _require_success(answer.error_code)
        return answer

    def _lead(self, members: Any) -> dict[str, bytes]:
        subscriptions = {member.member_id: read_subscription(member.metadata) for member in members}
        everything = [TopicPartition(self._names[one.topic_id], one.partition) for one in self._partitions()]
        shares = share_out(subscriptions, everything)
        return {member_id: requests.assignment(partitions) for member_id, partitions in shares.items()}

    def _identify(self, partitions: Collection[TopicPartition]) -> frozenset[TopicIdPartition]:
        return frozenset(TopicIdPartition(self._ids[topic], number) for topic, number in partitions)

    async def _take(self, assigned: frozenset[TopicIdPartition]) -> None:
        """Use what is assigned; give the rest back first, in a while, and join again to say so."""
        returned = self.owned - assigned
        if returned:
            await asyncio.sleep(0.0 if self.is_hasty else self._rng.uniform(0, min(self._profile.give_back_s, 1.0)))
            await self._maybe_stand_still()
            self._give_back(set(returned))
            self._must_join = True
        self.owned = set(assigned)

    async def _commit_late(self, former: Sender, positions: dict[TopicIdPartition, int]) -> None:
        """Commit for the generation before what is another member's by now, perhaps. Raises NoAnswerError."""
        try:
            await self._offsets.commit(former, positions, asyncio.get_running_loop().time())
        except RefusedError as error:
            self._history.on_refusal(self.name, f"late commit: {error.code.name}")

    async def _work(self) -> None:
        """Heartbeat and commit until told to join again; a coordinator that is away changes nothing for the member."""
        self._is_at_work = True
        while not (self._is_dead or self.is_stopping or self._must_join):
            await self._maybe_stand_still()
            try:
                await self._use()
                request = requests.heartbeat(self._sender)
                reply = await self._client.call(ApiKey.HEARTBEAT, requests.HEARTBEAT_VERSION, request)
                _require_success(reply.answer.error_code)
                self._checker.on_heard(
                    self._profile.name, self.member_id, asked_s=reply.asked_s, is_newest=reply.is_newest
                )
                # A leader sees partitions that are added, and shares out anew, as Kafka's clients do.
                self._must_join |= self._shared_out not in (None, frozenset(self._partitions()))
            except NoAnswerError as error:
                self._history.on_no_answer(self.name, str(error))
            except RefusedError as error:
                if error.code is ErrorCode.rebalance_in_progress and self._positions and self._rng.random() < 0.5:
                    await self._commit()  # as consumers do before they give partitions up
                if not is_passing(error.code):
                    raise
                self._client.forget_coordinator()
                self._history.on_refusal(self.name, error.code.name)
            if not self._must_join:
                await asyncio.sleep(self._profile.heartbeat_s * self._rng.uniform(0.9, 1.0))

    async def _use(self) -> None:
        """Read on where the group has come to, and commit now and then. Raises NoAnswerError, RefusedError."""
        new = [one for one in sorted(self.owned) if one not in self._positions]
        if new:
            committed = await self._offsets.fetch(Sender(self._profile.name, None, NO_GENERATION), new)
            self._positions.update((one, max(0, offset)) for one, offset in committed.items() if one in self.owned)
        if self._positions and self._rng.random() < COMMIT_SHARE:
            await self._commit()

    async def _commit(self) -> None:
        for partition in self._positions:
            self._positions[partition] += self._rng.randint(1, 5)
        await self._offsets.commit(self._sender, dict(self._positions), asyncio.get_running_loop().time())

    def _give_back(self, partitions: set[TopicIdPartition]) -> None:
        self.owned -= partitions
        for partition in partitions:
            self._positions.pop(partition, None)
        self._checker.on_given_back(self._profile.name, self.member_id, partitions)

    async def _leave(self) -> None:
        self._give_back(set(self.owned))
        if not self.member_id or (self.instance_id is not None and not self.is_hasty):
            return  # a static member comes back
        self._checker.on_leaving(self._profile.name, self.member_id)
        reply = await self._client.call(ApiKey.LEAVE_GROUP, requests.LEAVE_VERSION, requests.leave(self._sender))
        self.has_left = reply.answer.error_code is ErrorCode.none

    async def _maybe_stand_still(self) -> None:
        left_s = self._still_until_s - asyncio.get_running_loop().time()
        if left_s > 0:
            await asyncio.sleep(left_s)
        if self._is_dead:
            raise NoAnswerError("dead")


def _require_success(code: ErrorCode) -> None:
    if code is not ErrorCode.none:
        raise RefusedError(code)
