"""One process that is a member of a consumer group: joins, assigns if it leads, heartbeats, commits, leaves, or is gone without a word."""

import asyncio
from collections.abc import Collection
from random import Random
from typing import Any, Final

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.group_checker import GroupChecker, Held
from esp.simulation.nodes_tier.group_profile import GroupProfile
from esp.simulation.workload import group_requests as requests
from esp.simulation.workload.connection import NoAnswerError, RefusedError
from esp.simulation.workload.group_client import TIMEOUT_S, GroupClient
from esp.simulation.workload.group_requests import Assignment, Identity
from esp.simulation.workload.history import History
from esp.simulation.workload.offsets_client import OffsetsClient, is_passing

BACKOFF_S: Final = 0.2
LATE_SHARE: Final = 0.3
"""The share of the generations in which the member commits for the generation before."""


class GroupMember:
    """One process of a group's member. It reads no records: what it would have read it takes for read.

    Args:
        client: asks the coordinator.
        rng: its own stream of randomness.
        history: counts what it met with.
        checker: sees what it is told.
        profile: the group's.
        partitions: what the group reads.
        instance_id: its ``group.instance.id``.
    """

    def __init__(
        self,
        client: GroupClient,
        rng: Random,
        history: History,
        checker: GroupChecker,
        profile: GroupProfile,
        partitions: Collection[TopicPartition],
        instance_id: str | None,
    ) -> None:
        self.is_stopping = False
        """It is to leave in order."""
        self.has_ended = False
        self.identity = Identity(profile.name, instance_id)
        self.positions: dict[TopicPartition, int] = {}
        """The partitions that it owns, and the offset up to which it has read each."""
        self.is_at_work = False
        """True if it has its assignment, as far as it knows."""
        self._client = client
        self._offsets = OffsetsClient(client, checker)
        self._rng = rng
        self._history = history
        self._checker = checker
        self._profile = profile
        self._partitions = partitions
        self._is_dead = False
        self._still_until_s = 0.0
        self._joined_s = self._known_s = 0.0
        self._leads = False
        self._others: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """The client id."""
        return self._client.client.name

    def die(self) -> None:
        """Be gone: all connections end, and the group is not left."""
        self._is_dead = True
        self._client.client.close()

    def stand_still(self, seconds: float) -> None:
        """Do nothing for a while, and go on as if nothing had happened."""
        self._still_until_s = asyncio.get_running_loop().time() + seconds

    async def run(self) -> None:
        """Take part until told to leave, until it is dead, or until another process has its name."""
        while not self._is_dead:
            try:
                if self.is_stopping:
                    await self._leave()
                    break
                former = self.identity
                await self._join()
                await self._sync(former)
                await self._begin()
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
            self.is_at_work = False
        self.is_at_work = False
        self.has_ended = True
        self._client.client.close()

    def _take_refusal(self, code: ErrorCode) -> None:
        if code is ErrorCode.unknown_member_id:
            self.identity = Identity(self.identity.group_id, self.identity.instance_id)
        elif is_passing(code):
            self._client.forget_coordinator()

    async def _join(self) -> None:
        await self._maybe_stand_still()
        profile = self._profile
        if not self.identity.member_id:
            self._joined_s = asyncio.get_running_loop().time()
        topics = dict.fromkeys(partition.topic for partition in self._partitions)
        request = requests.join(self.identity, topics, session_s=profile.session_s, rebalance_s=profile.rebalance_s)
        version = self._client.dialect.join
        reply = await self._client.call(ApiKey.JOIN_GROUP, version, request, TIMEOUT_S + 3 * profile.rebalance_s)
        answer = reply.answer
        if answer.error_code is ErrorCode.member_id_required:
            self.identity = self.identity._replace(member_id=answer.member_id)
            await self._join()
            return
        _require_success(answer.error_code)
        if answer.member_id != self.identity.member_id:
            self._known_s = asyncio.get_running_loop().time()
        self.identity = self.identity._replace(member_id=answer.member_id, generation_id=int(answer.generation_id))
        self._leads = answer.leader == answer.member_id
        self._others = answer.members
        self._checker.on_joined(self.identity, asked_s=reply.asked_s, is_newest=reply.is_newest)

    async def _sync(self, former: Identity) -> None:
        await self._maybe_stand_still()
        assignments = self._assign() if self._leads else {}
        request = requests.sync(self.identity, assignments)
        reply = await self._client.call(ApiKey.SYNC_GROUP, self._client.dialect.sync, request)
        _require_success(reply.answer.error_code)
        assignment = requests.decode_assignment(reply.answer.assignment)
        held = Held(self.identity, self._joined_s, self._known_s, asyncio.get_running_loop().time())
        self._checker.on_synced(held, assignment, asked_s=reply.asked_s, is_newest=reply.is_newest)
        if -1 < former.generation_id != self.identity.generation_id and self._rng.random() < LATE_SHARE:
            await self._commit_late(former)
        self.positions = dict.fromkeys(assignment.partitions, 0)

    def _assign(self) -> dict[str, Assignment]:
        """As a range assignor does, over all partitions at once: neighbours to one member, the same for the same members."""
        identity = self.identity
        plan = f"{identity.instance_id or identity.member_id}, {identity.generation_id}"
        names = sorted(member.member_id for member in self._others)
        partitions = sorted(self._partitions)
        bounds = [place * len(partitions) // len(names) for place in range(len(names) + 1)]
        return {
            name: Assignment(tuple(partitions[bounds[place] : bounds[place + 1]]), plan, name)
            for place, name in enumerate(names)
        }

    async def _begin(self) -> None:
        """Go on from where the group has come to."""
        while self.positions:
            try:
                committed = await self._offsets.fetch(self.positions)
            except NoAnswerError as error:
                self._history.on_no_answer(self.name, str(error))
                if self._is_dead or self.is_stopping:
                    return
                await asyncio.sleep(BACKOFF_S)
                await self._heartbeat()
            else:
                self.positions = {partition: max(0, offset) for partition, offset in committed.items()}
                return

    async def _work(self) -> None:
        """Heartbeat and commit until told otherwise. A coordinator that is away changes nothing for the member."""
        self.is_at_work = True
        while not (self._is_dead or self.is_stopping):
            await self._maybe_stand_still()
            try:
                if self._rng.random() < 0.5:
                    await self._heartbeat()
                else:
                    await self._commit()
            except NoAnswerError as error:
                self._history.on_no_answer(self.name, str(error))
            except RefusedError as error:
                if error.code is ErrorCode.rebalance_in_progress and self._rng.random() < 0.5:
                    await self._commit()  # as consumers do before they give partitions up
                if not is_passing(error.code):
                    raise
                self._history.on_refusal(self.name, error.code.name)
                self._client.forget_coordinator()
            await asyncio.sleep(self._profile.session_s * self._rng.uniform(0.05, 0.3))

    async def _heartbeat(self) -> None:
        request = requests.heartbeat(self.identity)
        reply = await self._client.call(ApiKey.HEARTBEAT, self._client.dialect.heartbeat, request)
        _require_success(reply.answer.error_code)

    async def _commit(self, identity: Identity | None = None) -> None:
        for partition in self.positions:
            self.positions[partition] += self._rng.randint(1, 5)
        if self.positions:
            await self._offsets.commit(identity or self.identity, self.positions)

    async def _commit_late(self, former: Identity) -> None:
        """Commit what belonged to the generation before, as a client does that commits without waiting and tries again."""
        try:
            await self._commit(former)
        except RefusedError as error:
            self._history.on_refusal(self.name, f"late commit: {error.code.name}")

    async def _leave(self) -> None:
        if self.identity.member_id:
            version = self._client.dialect.leave
            await self._client.call(ApiKey.LEAVE_GROUP, version, requests.leave(self.identity, version))

    async def _maybe_stand_still(self) -> None:
        left_s = self._still_until_s - asyncio.get_running_loop().time()
        if left_s > 0:
            await asyncio.sleep(left_s)
        if self._is_dead:
            raise NoAnswerError("dead")


def _require_success(code: ErrorCode) -> None:
    if code is not ErrorCode.none:
        raise RefusedError(code)
