"""One process that is a member of a share group (KIP-932): heartbeats, takes records, says what has become of them, leaves or dies."""

import asyncio
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple

from esp.model.errors import ErrorCode
from esp.model.ids import uuid_to_base64
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.schemas.share_state_records import ShareStateKey
from esp.share.acknowledgements import AcknowledgementBatch, AcknowledgeType
from esp.share.sessions import SessionKey
from esp.simulation.checkers.share_checker import ShareChecker
from esp.simulation.checkers.share_state_log import Life
from esp.simulation.nodes_tier.share_profile import ShareProfile
from esp.simulation.workload import consumer_group_requests, share_requests
from esp.simulation.workload.connection import ClientConnection, NoAnswerError, RefusedError
from esp.simulation.workload.consumer_group_requests import Names
from esp.simulation.workload.group_client import LOOK_AGAIN, GroupClient
from esp.simulation.workload.history import History
from esp.simulation.workload.share_requests import Appetite, ShareSender, Words

BACKOFF_S: Final = 0.2
RECORDS_TIMEOUT_S: Final = 8.0
"""Longer than a share coordinator waits for its log."""

PAUSE_S: Final = 0.2
SEPARATE_SHARE: Final = 0.4
"""The share of the answers with records that are acknowledged by a request of its own."""

KEEP_SHARE: Final = 0.1
"""The share of the records a member got about which it says nothing this time."""

RENEW_SHARE: Final = 0.5
"""The share of the times at which it says that it needs more time for these, where it can."""

FINAL_EPOCH: Final = -1
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1

ABANDON: Final = frozenset({ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id, ErrorCode.group_id_not_found})
"""Errors upon which a member joins again."""

_TERMINAL: Final = frozenset((AcknowledgeType.ACCEPT, AcknowledgeType.REJECT))
_TRY_AGAIN: Final = frozenset((ErrorCode.coordinator_not_available, ErrorCode.unknown_server_error))

_LOST: Final = frozenset((ErrorCode.share_session_not_found, ErrorCode.invalid_share_session_epoch))

NOTHING: Final = Appetite(0, 0, is_exact=False, wait_ms=0, min_bytes=0)


class _Piece(NamedTuple):
    """Neighbouring records that the member got."""

    partition: TopicIdPartition
    start_offset: int
    last_offset: int
    life: Life | None
    """The share partition's when they came."""


@dataclass(slots=True)
class _Session:
    """The share session at one leader."""

    connection: ClientConnection
    epoch: int = 0
    told: set[TopicIdPartition] = field(default_factory=set)
    held: list[_Piece] = field(default_factory=list)


class ShareMember:
    """One process.

    Args:
        client: asks the group's coordinator, and leaders.
        rng: its own stream of randomness.
        history: counts what it met with.
        checker: sees what it was answered.
        profile: the group's.
        names: the names of the topics that it reads, by their ids; more come as topics do.
        on_records: told of the number of records that it got.
    """

    def __init__(
        self,
        client: GroupClient,
        rng: Random,
        history: History,
        checker: ShareChecker,
        profile: ShareProfile,
        names: Names,
        on_records: Callable[[int], None],
    ) -> None:
        self.is_stopping = False
        """It is to leave in order."""
        self.is_hasty = False
        """It accepts everything at once."""
        self.has_ended = False
        self.member_id = uuid_to_base64(uuid.UUID(int=rng.getrandbits(128), version=4))
        self._client = client
        self._rng = rng
        self._history = history
        self._checker = checker
        self._profile = profile
        self._names = names
        self._on_records = on_records
        self._version = rng.choice(share_requests.RECORD_VERSIONS)
        self._epoch = JOIN_EPOCH
        self._assigned: frozenset[TopicIdPartition] = frozenset()
        self._sessions: dict[Address, _Session] = {}
        self._left: list[ClientConnection] = []
        """Connections that it uses no more."""
        self._is_dead = False
        self._still_until_s = 0.0
        self._beat_s = 0.0

    @property
    def name(self) -> str:
        """The client id."""
        return self._client.client.name

    def die(self) -> None:
        """Be gone: all connections end, and the group is not left."""
        self._is_dead = True
        self._client.client.close()
        _close(self._left)

    def stand_still(self, seconds: float) -> None:
        """Do nothing for a while, and go on as if nothing had happened."""
        self._still_until_s = asyncio.get_running_loop().time() + seconds

    def lose_connections(self) -> None:
        """All connections end; the process goes on."""
        self._client.client.close()

    def change_connections(self, seconds: float) -> None:
        """Go on by other connections; those so far end when these seconds are over: their ends are seen behind new sessions."""
        left = self._client.client.leave_connections()
        self._left += left
        asyncio.get_running_loop().call_later(seconds, _close, left)

    def avoid(self, addresses: frozenset[Address]) -> None:
        """Read nothing from these brokers."""
        self._client.client.avoided = addresses

    async def run(self) -> None:
        """Take part until told to leave, or until it is dead."""
        while not self._is_dead:
            try:
                if self.is_stopping:
                    await self._leave()
                    break
                await self._maybe_stand_still()
                if asyncio.get_running_loop().time() >= self._beat_s:
                    await self._beat()
                await self._read()
                await self._work()
            except NoAnswerError as error:
                self._history.on_no_answer(self.name, str(error))
                if self.is_stopping:
                    break
                await asyncio.sleep(BACKOFF_S)
            except RefusedError as error:
                self._history.on_refusal(self.name, error.code.name)
                if error.code in ABANDON and self.is_stopping:  # it has left, or was fenced
                    break
                if error.code in ABANDON:
                    self._epoch = JOIN_EPOCH
                elif error.code in LOOK_AGAIN:
                    self._client.forget_coordinator()
                await asyncio.sleep(BACKOFF_S * self._rng.random())
        self.has_ended = True
        self._client.client.close()
        _close(self._left)

    # The group.

    async def _beat(self) -> None:
        """Send a heartbeat. Raises NoAnswerError, RefusedError."""
        topics = sorted(set(self._names.values())) if self._epoch == JOIN_EPOCH or self._rng.random() < 0.1 else None
        answer = await self._heartbeat(self._epoch, topics)
        self._epoch = int(answer.member_epoch)
        assigned = consumer_group_requests.assigned(answer)
        if assigned is not None:
            self._assigned = frozenset(one for one in assigned if one.topic_id in self._names)
        self._beat_s = asyncio.get_running_loop().time() + self._profile.heartbeat_s * self._rng.uniform(0.9, 1.0)

    async def _heartbeat(self, epoch: int, topics: list[str] | None) -> Any:
        request = share_requests.heartbeat(self._client.group_id, self.member_id, epoch, topics)
        reply = await self._client.call(ApiKey.SHARE_GROUP_HEARTBEAT, share_requests.HEARTBEAT_VERSION, request)
        if reply.answer.error_code is not ErrorCode.none:
            raise RefusedError(reply.answer.error_code)
        return reply.answer

    async def _leave(self) -> None:
        """End all sessions, in part of them with words on the records, and leave the group. Raises NoAnswerError, RefusedError."""
        for session in tuple(self._sessions.values()):
            if session.epoch and not session.connection.is_closed:
                words = self._decide(session)[0] if self._rng.random() < 0.5 else {}
                await self._acknowledge(session, words, is_final=True)
        self._sessions.clear()
        await self._heartbeat(LEAVE_EPOCH, None)

    # Records.

    async def _read(self) -> None:
        """Ask each leader once for records, and say what has become of those that it gave before."""
        leaders: dict[Address, tuple[ClientConnection, set[TopicIdPartition]]] = {}
        for partition in sorted(self._assigned):
            try:
                connection, _leadership = await self._client.client.leader(
                    self._names[partition.topic_id], partition.partition
                )
            except NoAnswerError as error:
                self._history.on_no_answer(self.name, str(error))
                self._forget_leader(partition)
                continue
            if connection.address in self._client.client.avoided:
                self._forget_leader(partition)
                continue
            leaders.setdefault(connection.address, (connection, set()))[1].add(partition)
        for address in [address for address in self._sessions if address not in leaders]:
            session = self._sessions.pop(address)
            if session.epoch and not session.connection.is_closed:
                await self._acknowledge(session, {}, is_final=True)
        for address, (connection, wanted) in leaders.items():
            await self._maybe_stand_still()
            try:
                await self._read_from(address, connection, wanted)
            except NoAnswerError as error:
                self._history.on_no_answer(self.name, str(error))
                self._drop(address)
        if not leaders:
            await asyncio.sleep(min(PAUSE_S, self._profile.heartbeat_s))

    async def _work(self) -> None:
        """Work at what it got, where members take their time. Raises NoAnswerError, RefusedError."""
        mean_s = self._profile.works_s
        if mean_s is None or not any(session.held for session in self._sessions.values()):
            return
        loop = asyncio.get_running_loop()
        end_s = loop.time() + min(self._rng.expovariate(1 / mean_s), 2 * mean_s)
        while not (self._is_dead or self.is_hasty or self.is_stopping) and (left_s := end_s - loop.time()) > 0:
            if loop.time() >= self._beat_s:
                await self._beat()
            await asyncio.sleep(min(left_s, max(0.0, self._beat_s - loop.time())))

    def _drop(self, address: Address) -> None:
        """A session is over: what was held by it belongs to others."""
        session = self._sessions.pop(address, None)
        for partition in session.told if session is not None else ():
            self._forget_leader(partition)

    def _forget_leader(self, partition: TopicIdPartition) -> None:
        self._client.client.forget_leader(self._names[partition.topic_id], partition.partition)

    async def _read_from(self, address: Address, connection: ClientConnection, wanted: set[TopicIdPartition]) -> None:
        """Raises NoAnswerError."""
        session = self._sessions.get(address)
        if session is None or session.connection is not connection or connection.is_closed:
            session = self._sessions[address] = _Session(connection)
        words, kept = self._decide(session) if session.epoch else ({}, [])
        said = session.held
        if kept and self._version >= share_requests.RENEW_FROM and self._rng.random() < RENEW_SHARE:
            await self._renew(session, kept)
            if self._sessions.get(address) is not session:
                return
        session.held = kept
        forgotten = session.told - wanted
        request = share_requests.share_fetch(
            ShareSender(self._client.group_id, self.member_id, session.epoch),
            wanted - session.told,
            forgotten,
            words,
            self._draw_appetite(),
            self._version,
        )
        lives = {partition: self._checker.life_of(self._key(partition)) for partition in sorted(wanted)}
        answer = await connection.call(ApiKey.SHARE_FETCH, self._version, request, RECORDS_TIMEOUT_S)
        if answer.error_code is not ErrorCode.none:
            self._on_refused(session, answer.error_code)
            await asyncio.sleep(BACKOFF_S)
            return
        session.epoch += 1
        session.told = set(wanted)
        got = 0
        for partition, part in share_requests.partitions_of(answer):
            if partition in words:
                self._on_acknowledged(session, partition, ErrorCode(part.acknowledge_error_code), words, said)
            if part.error_code is not ErrorCode.none:
                self._history.on_refusal(self.name, part.error_code.name)
                self._forget_leader(partition)
            life = self._checker.life_of(self._key(partition))
            for piece in part.acquired_records:
                got += piece.last_offset - piece.first_offset + 1
                is_certain = life is lives.get(partition)
                session.held.append(
                    _Piece(partition, piece.first_offset, piece.last_offset, life if is_certain else None)
                )
        self._on_records(got)
        if got and (self.is_hasty or self._rng.random() < SEPARATE_SHARE):
            said = session.held
            words, session.held = self._decide(session)
            await self._acknowledge(session, words, said=said)

    def _on_refused(self, session: _Session, code: ErrorCode) -> None:
        """A request of a session was refused as a whole."""
        self._history.on_refusal(self.name, code.name)
        if session.epoch > 0 and code in _LOST:
            self._checker.on_session_lost(SessionKey(self._client.group_id, self.member_id), code)
        self._drop(session.connection.address)

    def _draw_appetite(self) -> Appetite:
        rng = self._rng
        if self.is_hasty:
            return Appetite(100, 100, is_exact=False, wait_ms=300, min_bytes=1)
        return Appetite(
            records_max=rng.choice((1, 4, 20, 100)),
            batch_size=rng.choice((1, 5, 100)),
            is_exact=self._version >= share_requests.RENEW_FROM and rng.random() < 0.3,
            wait_ms=rng.choice((0, 100, 400)),
            min_bytes=rng.choice((0, 1, 1, 500)),
        )

    def _decide(self, session: _Session) -> tuple[Words, list[_Piece]]:
        """The words on what is held, and what is left."""
        rng, kept = self._rng, []
        words: dict[TopicIdPartition, list[AcknowledgementBatch]] = {}
        for piece in sorted(session.held, key=lambda one: (one.partition, one.start_offset)):
            if not self.is_hasty and rng.random() < KEEP_SHARE:
                kept.append(piece)
                continue
            count = piece.last_offset - piece.start_offset + 1
            types = [self._draw_type() for _ in range(count)]
            if self.is_hasty or rng.random() < 0.3:
                types = types[:1]
            words.setdefault(piece.partition, []).append(
                AcknowledgementBatch(piece.start_offset, piece.last_offset, types)
            )
        return words, kept

    def _draw_type(self) -> AcknowledgeType:
        if self.is_hasty or self._rng.random() < self._profile.goodness:
            return AcknowledgeType.ACCEPT
        return self._rng.choice((AcknowledgeType.RELEASE, AcknowledgeType.RELEASE, AcknowledgeType.REJECT))

    async def _renew(self, session: _Session, kept: list[_Piece]) -> None:
        words: dict[TopicIdPartition, list[AcknowledgementBatch]] = {}
        for piece in kept:
            batch = AcknowledgementBatch(piece.start_offset, piece.last_offset, [AcknowledgeType.RENEW])
            words.setdefault(piece.partition, []).append(batch)
        await self._acknowledge(session, words, renews=True)

    async def _acknowledge(
        self,
        session: _Session,
        words: Words,
        *,
        is_final: bool = False,
        renews: bool = False,
        said: list[_Piece] | None = None,
    ) -> None:
        """Say what has become of records. Raises NoAnswerError."""
        if not words and not is_final:
            return
        epoch = FINAL_EPOCH if is_final else session.epoch
        sender = ShareSender(self._client.group_id, self.member_id, epoch)
        if is_final and self._rng.random() < 0.5:
            request = share_requests.share_fetch(sender, (), (), words, NOTHING, self._version)
            key = ApiKey.SHARE_FETCH
        else:
            request = share_requests.share_acknowledge(sender, words, self._version, renews=renews)
            key = ApiKey.SHARE_ACKNOWLEDGE
        answer = await session.connection.call(key, self._version, request, RECORDS_TIMEOUT_S)
        if answer.error_code is not ErrorCode.none:
            self._on_refused(session, answer.error_code)
            return
        session.epoch += 1
        for partition, part in share_requests.partitions_of(answer):
            code = part.error_code if key is ApiKey.SHARE_ACKNOWLEDGE else ErrorCode(part.acknowledge_error_code)
            if renews:
                if code is not ErrorCode.none:
                    self._history.on_refusal(self.name, f"renewal: {code.name}")
            elif partition in words:
                self._on_acknowledged(session, partition, code, words, said or session.held)

    def _on_acknowledged(
        self,
        session: _Session,
        partition: TopicIdPartition,
        code: ErrorCode,
        words: Words,
        said: list[_Piece],
    ) -> None:
        """Words on records of one partition were answered."""
        lives: Mapping[int, Life | None] = {
            piece.start_offset: piece.life for piece in said if piece.partition == partition
        }
        if code is not ErrorCode.none:
            self._history.on_refusal(self.name, f"words on records: {code.name}")
            if code in _TRY_AGAIN and self._rng.random() < 0.5:
                session.held += [
                    _Piece(partition, batch.start_offset, batch.last_offset, lives.get(batch.start_offset))
                    for batch in words[partition]
                ]
            elif code is ErrorCode.not_leader_or_follower:
                self._forget_leader(partition)
            return
        for batch in words[partition]:
            count = batch.last_offset - batch.start_offset + 1
            types = batch.types if len(batch.types) > 1 else [batch.types[0]] * count
            done = [batch.start_offset + place for place, one in enumerate(types) if one in _TERMINAL]
            self._checker.on_done(self._key(partition), self.member_id, lives.get(batch.start_offset), done)

    def _key(self, partition: TopicIdPartition) -> ShareStateKey:
        return ShareStateKey(self._client.group_id, *partition)

    async def _maybe_stand_still(self) -> None:
        left_s = self._still_until_s - asyncio.get_running_loop().time()
        if left_s > 0 and not self.is_hasty:
            await asyncio.sleep(left_s)
        if self._is_dead:
            raise NoAnswerError("dead")


def _close(connections: list[ClientConnection]) -> None:
    for connection in connections:
        connection.close()
