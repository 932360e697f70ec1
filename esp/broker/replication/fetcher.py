"""Fetches the partitions that this node follows from one other broker: one connection and one fetch session for all of them.

A request names only partitions whose state has changed, so that idle ones cost nothing. Mostly one request is out, parked at the
leader until there is something to fetch. If a partition changes meanwhile (its leader has changed, it was cut, it has been
flushed), a second request goes out behind it, upon which the leader answers the first one; there are never more than two.

Every answer is compared with the request in which the partition was named last: an answer to an older position is dropped (LOG-5).
Errors of a partition hold back that partition alone, for a time that doubles up to ``replica.fetch.backoff.ms``. The partitions that
cannot be fetched from the broker are logged: one line for each reason and moment, however many partitions.

:class:`FollowedPartition` is the fetcher's state of one partition; :class:`FollowerHost` is the part of the replicas' host that it needs.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from esp.broker.connections.peer import Peer, PeerUnavailableError
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.leader_offsets import ask_leader_offsets
from esp.broker.replication.replication_throttle import ReplicationThrottle, Share, release
from esp.broker.replication.throttles import DirectionThrottles, ReplicaThrottles
from esp.broker.tasks import Tasks
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import BrokerEpoch, NodeId, TopicPartition
from esp.ports.clock import Clock, Timer
from esp.ports.env import Env
from esp.protocol.fetch_codec import NO_SESSION, FetchPartition
from esp.protocol.follower_fetch_codec import (
    FETCH_VERSION,
    FetchedPartition,
    FollowerFetch,
    decode_fetch_answer,
    encode_follower_fetch,
)
from esp.protocol.registry import ApiKey
from esp.replication.fetch_check import UNDEFINED
from esp.replication.partition_follower import CommittedDataLossError, FetchAnswer, Next, PartitionFollower
from esp.settings.broker import BrokerSettings

log = logging.getLogger(__name__)


class FollowerHost(Protocol):
    """The part of :class:`esp.broker.replication.host.ReplicaHost` that a fetcher needs."""

    directories_lock: asyncio.Lock
    throttles: ReplicaThrottles

    async def flush(self, hosted: HostedPartition) -> None:
        """Flush one replica's log, as far as there is room: :attr:`PartitionFollower.must_flush` tells."""

    def on_disk_error(self, hosted: HostedPartition, error: Exception) -> None:
        """A replica's log could not be changed: take its directory offline."""

    def take_offline(self, hosted: HostedPartition, error: Exception) -> None:
        """A replica cannot follow without losing records: stop it, and leave its files as they are (TRUNC-8)."""


GATHER_US: Final = 1_000_000
"""Failures with one cause show within that time."""
NAMED_MAX: Final = 3
"""Partitions that are named; the others are counted."""


class FetchTroubles:
    """The failures of one fetcher that have not been logged yet.

    Args:
        clock: wakes it when a line is due.
        source: the broker to fetch from.
    """

    def __init__(self, clock: Clock, source: NodeId) -> None:
        self._clock = clock
        self._source = source
        self._names: dict[str, dict[TopicPartition, None]] = {}

    def add(self, name: TopicPartition, reason: str) -> None:
        """A partition cannot be fetched, and has not been for a while."""
        names = self._names.get(reason)
        if names is None:
            names = self._names[reason] = {}
            self._clock.call_later_us(GATHER_US, partial(self._tell, reason))
        names[name] = None

    def _tell(self, reason: str) -> None:
        names = list(self._names.pop(reason))
        named = ", ".join(map(str, names[:NAMED_MAX]))
        rest = len(names) - NAMED_MAX
        others = f" and {rest} other partitions" if rest > 0 else ""
        log.warning("%s%s cannot be fetched from node %d: %s", named, others, self._source, reason)


FIRST_BACKOFF_MS: Final = 20
"""The shortest pause after an error: enough for a leader to take over metadata that this node has already."""


class FollowedPartition:
    """A :class:`~esp.broker.replication.fetcher.ReplicaFetcher`'s state of one partition.

    ``asked`` is the position with which it was named last, in the request with the number ``sent_in``; ``is_held``: no request may name it
    now; ``timer``: ends the pause after an error, which takes ``backoff_ms`` the next time. ``is_behind``: the leader's last answer had
    more committed than is here, or there was no answer; ``share``: of the throttle, None while the partition is not throttled.
    """

    __slots__ = ("asked", "backoff_ms", "follower", "hosted", "is_behind", "is_held", "sent_in", "share", "timer")

    def __init__(self, hosted: HostedPartition, follower: PartitionFollower) -> None:
        self.hosted = hosted
        self.follower = follower
        self.asked = follower.position
        self.sent_in = 0
        self.is_held = False
        self.backoff_ms = FIRST_BACKOFF_MS
        self.timer: Timer | None = None
        self.is_behind = True
        self.share: Share | None = None

    def find_throttle(self, node_id: NodeId, throttles: DirectionThrottles) -> ReplicationThrottle | None:
        """The throttle of the partition on this node: there is one if it has a rate, names the partition, and the partition is not in sync
        (THROTTLE-1, REPAIR-4).

        A partition that has all that is committed counts as in sync, as it is about to be.
        """
        state = self.follower.state
        if not self.is_behind or node_id in state.isr:
            return None
        listed = self.hosted.log.settings.follower_replication_throttled_replicas
        return throttles.find(self.hosted, state, listed, node_id, node_id)


_EPOCH_MAX: Final = 2**31 - 1

_BAD_ANSWER: Final = "no batch of its response can follow the end of the log here"
"""The reason why a partition is held back after an answer without an error code."""

PartitionKey = tuple[bytes, int]


class ReplicaFetcher:
    """The follower's side of one fetch session with another broker, for all partitions that this node follows there.

    Args:
        env: the outside.
        settings: the node's own.
        source: the broker to fetch from.
        peer: the connection to it, this fetcher's own.
        broker_epoch: this node's, as registered last.
        tasks: the tasks in which it waits.
        host: the host of the replicas.
    """

    def __init__(
        self,
        env: Env,
        settings: BrokerSettings,
        source: NodeId,
        peer: Peer,
        broker_epoch: Callable[[], BrokerEpoch],
        tasks: Tasks,
        host: FollowerHost,
    ) -> None:
        self.source = source
        self.peer = peer
        self._env = env
        self._settings = settings
        self._broker_epoch = broker_epoch
        self._tasks = tasks
        self._host = host
        self._throttles = host.throttles.follower
        self._troubles = FetchTroubles(env.clock, source)
        self._followed: dict[PartitionKey, FollowedPartition] = {}
        self._changed: dict[PartitionKey, None] = {}
        """Partitions that the next request has to name."""
        self._forgotten: dict[PartitionKey, None] = {}
        """Partitions that are followed no more, which the leader does not know yet."""
        self._session_id = NO_SESSION
        self._epoch = 0
        self._number = 0
        self._in_flight: dict[int, bool] = {}
        """The numbers of the requests that are not answered, and whether they begin a session; such a one goes out alone."""
        self._is_taking = False
        """True while an answer is being processed: requests that follow from it go out when that is done."""
        self._send_timer: Timer | None = None
        self._retry_timer: Timer | None = None
        self._backoff_ms = FIRST_BACKOFF_MS
        self._closed = False

    def __len__(self) -> int:
        return len(self._followed)

    # Followed partitions.

    def follow(self, hosted: HostedPartition) -> None:
        """Fetch for ``hosted``, which has a follower's role, from now on."""
        assert hosted.follower is not None
        self.forget(hosted)
        item = self._followed[hosted.key] = FollowedPartition(hosted, hosted.follower)
        self._name_when_flushed(hosted.key, item)

    def forget(self, hosted: HostedPartition) -> None:
        """Fetch for ``hosted`` no more; nothing happens if that is so already. Answers that are under way are dropped."""
        item = self._followed.pop(hosted.key, None)
        if item is not None:
            if item.timer is not None:
                item.timer.cancel()
            release(item)
            self._changed.pop(hosted.key, None)
            self._forgotten[hosted.key] = None

    def followed(self) -> list[HostedPartition]:
        """The partitions that are being fetched."""
        return [item.hosted for item in self._followed.values()]

    def retry_now(self) -> None:
        """The source has come back: do not wait any longer."""
        if self._retry_timer is not None:
            self._retry_timer.cancel()
            self._retry_timer = None
        self._backoff_ms = FIRST_BACKOFF_MS
        self._send_soon()

    def close(self) -> None:
        """Fetch nothing more."""
        self._closed = True
        for hosted in self.followed():
            self.forget(hosted)
        for timer in (self._send_timer, self._retry_timer):
            if timer is not None:
                timer.cancel()
        self.peer.close()

    # Requests.

    def _name_soon(self, key: PartitionKey) -> None:
        if self._is_let(key, self._followed[key]):
            self._changed[key] = None
            self._send_soon()

    def _is_let(self, key: PartitionKey, item: FollowedPartition) -> bool:
        """True if the throttle lets a partition be named now; else :meth:`_on_turn` is called when it does."""
        if self._throttles.is_active:
            throttle = item.find_throttle(self._settings.node_id, self._throttles)
            if throttle is not None:
                most = self._settings.replica_fetch_max_bytes
                return throttle.claim(item, partial(self._on_turn, key, item), most) > 0
        release(item)
        return True

    def _on_turn(self, key: PartitionKey, item: FollowedPartition) -> None:
        if self._followed.get(key) is item and not item.is_held:
            self._name_soon(key)

    def _send_soon(self) -> None:
        if self._send_timer is None and not self._is_taking:
            self._send_timer = self._env.clock.call_later_us(0, self._on_send_timer)

    def _on_send_timer(self) -> None:
        self._send_timer = None
        self._send_if_due()

    def _send_if_due(self) -> None:
        if self._closed or self._retry_timer is not None:
            return
        if not self._in_flight:
            if self._followed:
                self._send()
        elif len(self._in_flight) == 1 and self._changed and self._session_id != NO_SESSION:
            self._send()

    def _send(self) -> None:
        is_first = self._session_id == NO_SESSION
        number = self._number = self._number + 1
        wanted = []
        most = self._settings.replica_fetch_max_bytes
        for key in self._followed if is_first else self._changed:
            item = self._followed[key]
            if item.is_held or (is_first and not self._is_let(key, item)):
                continue
            item.sent_in = number
            position = item.asked = item.follower.position
            wanted.append(
                FetchPartition(
                    *key,
                    position.fetch_offset,
                    min(most, item.share.reserved) if item.share is not None else most,
                    position.leader_epoch,
                    position.log_start_offset,
                    position.last_fetched_epoch,
                )
            )
        self._changed.clear()
        forgotten = () if is_first else tuple(self._forgotten)
        self._forgotten.clear()
        if is_first:
            self._epoch = 0
            if not wanted:
                return  # everything is held back; what is released asks again
        settings = self._settings
        body = encode_follower_fetch(
            FollowerFetch(
                replica_id=settings.node_id,
                replica_epoch=self._broker_epoch(),
                max_wait_ms=settings.replica_fetch_wait_max_ms,
                min_bytes=settings.replica_fetch_min_bytes,
                max_bytes=settings.replica_fetch_response_max_bytes,
                session_id=self._session_id,
                session_epoch=self._epoch,
            ),
            wanted,
            forgotten,
        )
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        self._in_flight[number] = is_first
        self.peer.post(
            ApiKey.FETCH,
            FETCH_VERSION,
            (body,),
            timeout_ms=settings.replica_socket_timeout_ms,
            take=partial(self._take, number),
            fail=partial(self._on_lost, number),
        )

    def _on_lost(self, number: int, error: PeerUnavailableError) -> None:
        if self._in_flight.pop(number, None) is not None:
            self._begin_anew(str(error))

    def _begin_anew(self, reason: str) -> None:
        """The session is lost, or was never there: after a pause, name everything again."""
        self._session_id = NO_SESSION
        if self._closed or self._retry_timer is not None:
            return
        if self._backoff_ms == FIRST_BACKOFF_MS:
            log.info("fetching from node %d failed: %s", self.source, reason)
        self._retry_timer = self._env.clock.call_later_us(self._backoff_ms * 1000, self._retry)
        self._backoff_ms = self._longer(self._backoff_ms)

    def _retry(self) -> None:
        self._retry_timer = None
        self._send_if_due()

    def _longer(self, backoff_ms: int) -> int:
        return max(FIRST_BACKOFF_MS, min(2 * backoff_ms, self._settings.replica_fetch_backoff_ms))

    # Answers.

    def _take(self, number: int, body: memoryview) -> None:
        answer = decode_fetch_answer(body)
        is_first = self._in_flight.pop(number)
        if self._closed:
            return
        if answer.error_code:
            self._begin_anew(_name(answer.error_code))
            return
        self._backoff_ms = FIRST_BACKOFF_MS
        if is_first:
            self._session_id = answer.session_id
        now_ms = self._env.clock.wall_ms()
        self._is_taking = True
        for partition in answer.partitions:
            key = (partition.topic_id, partition.partition)
            item = self._followed.get(key)
            if item is not None and 0 < item.sent_in <= number and not item.is_held:
                self._take_partition(key, item, partition, now_ms)
        self._is_taking = False
        self._send_if_due()

    def _take_partition(
        self, key: PartitionKey, item: FollowedPartition, fetched: FetchedPartition, now_ms: int
    ) -> None:
        diverging = fetched.diverging_epoch
        if item.share is not None and (fetched.records or fetched.error_code or diverging is not None):
            item.share.settle(len(fetched.records))
        answer = FetchAnswer(
            fetched.error_code,
            fetched.high_watermark,
            fetched.log_start_offset,
            fetched.records,
            *(diverging or (UNDEFINED, UNDEFINED)),
        )
        if diverging is not None:
            item.is_held = True
            self._tasks.start(
                self._cut(key, item, lambda: item.follower.on_answer(item.asked, answer, now_ms)),
                name=f"truncation of {item.hosted.name}",
            )
            return
        if item.follower.must_begin_below(item.asked, answer):
            item.is_held = True
            kept = answer._replace(records=bytes(answer.records))  # the receive buffer is used again
            self._tasks.start(
                self._cut(key, item, lambda: self._take_in(item, kept, now_ms)),
                name=f"beginning of {item.hosted.name} within a batch",
            )
            return
        start_offset = item.hosted.log.log_start_offset
        following = self._guarded(item, lambda: self._take_in(item, answer, now_ms))
        if following is Next.FETCH and not fetched.records:
            item.backoff_ms = FIRST_BACKOFF_MS  # the leader goes on from the same position, unasked
            if item.hosted.log.log_start_offset != start_offset:
                self._name_soon(key)  # a request may wait for the leader to hear of it (DeleteRecords)
        elif following is Next.BACK_OFF:
            self._hold_back(key, item, _reason(fetched.error_code))
        elif following is not None:
            self._go_on(key, item, following)

    def _take_in(self, item: FollowedPartition, answer: FetchAnswer, now_ms: int) -> Next:
        """Let the follower take in an answer, and notify the partition's waiters of the changes. Raises what :meth:`_guarded` expects."""
        hosted = item.hosted
        replica_log = hosted.log
        end_offset, committed = replica_log.log_end_offset, replica_log.high_watermark
        try:
            return item.follower.on_answer(item.asked, answer, now_ms)
        finally:
            if not answer.error_code:
                item.is_behind = answer.high_watermark > replica_log.log_end_offset
            if replica_log.log_end_offset != end_offset:
                hosted.appended()
            if replica_log.high_watermark != committed:
                hosted.committed()

    def _guarded(self, item: FollowedPartition, take: Callable[[], Next]) -> Next | None:
        """Let the follower do something with its log; None if it cannot go on, and follows no more."""
        try:
            return take()
        except (OSError, ApiError) as error:
            self._host.on_disk_error(item.hosted, error)
        except CommittedDataLossError as error:
            self._host.take_offline(item.hosted, error)
        self.forget(item.hosted)
        return None

    def _go_on(self, key: PartitionKey, item: FollowedPartition, following: Next) -> None:
        """Do what follows from an answer, in whatever way it was taken in."""
        if following is Next.BACK_OFF:
            self._hold_back(key, item, _BAD_ANSWER)
        elif following is Next.ASK_RANGE:
            item.is_held = True
            self._tasks.start(self._ask_range(key, item), name=f"range of the leader of {item.hosted.name}")
        else:
            item.backoff_ms = FIRST_BACKOFF_MS
            self._name_when_flushed(key, item)

    def _name_when_flushed(self, key: PartitionKey, item: FollowedPartition) -> None:
        """Fetch from the log's end; a flushed topic first flushes what it has, which may be what a crash left (SYNC-4)."""
        if item.follower.must_flush:
            item.is_held = True
            self._tasks.start(self._flush(key, item), name=f"flush {item.hosted.name}")
        else:
            self._name_soon(key)

    def _hold_back(self, key: PartitionKey, item: FollowedPartition, reason: str) -> None:
        """Fetch again after a pause."""
        item.is_held = True
        self._changed.pop(key, None)
        item.timer = self._env.clock.call_later_us(item.backoff_ms * 1000, lambda: self._release(key, item))
        longer_ms = self._longer(item.backoff_ms)
        if item.backoff_ms < longer_ms == self._settings.replica_fetch_backoff_ms:  # else it is metadata on its way
            self._troubles.add(item.hosted.name, reason)
        item.backoff_ms = longer_ms

    def _release(self, key: PartitionKey, item: FollowedPartition) -> None:
        item.is_held = False
        item.timer = None
        if self._followed.get(key) is item:
            self._name_when_flushed(key, item)

    async def _flush(self, key: PartitionKey, item: FollowedPartition) -> None:
        await self._host.flush(item.hosted)
        if self._followed.get(key) is item and item.follower.must_flush:
            self._hold_back(key, item, "fetched records cannot be flushed here: the disk is full")
        else:
            self._release(key, item)

    async def _cut(self, key: PartitionKey, item: FollowedPartition, change: Callable[[], Next]) -> None:
        """Change the log by something that may cut it, while no other task works on its files."""
        following: Next | None = None
        async with self._host.directories_lock, item.hosted.busy:
            if self._followed.get(key) is item:
                following = self._guarded(item, change)
                item.hosted.role_changed()  # consumers here may stand where the log is no more (TRUNC-7)
        item.is_held = False
        if following is not None:
            self._go_on(key, item, following)

    async def _ask_range(self, key: PartitionKey, item: FollowedPartition) -> None:
        try:
            start_offset, end_offset = await ask_leader_offsets(
                self.peer,
                self._settings.node_id,
                item.hosted.name,
                item.follower.leader_epoch,
                self._settings.replica_socket_timeout_ms,
            )
        except (ApiError, PeerUnavailableError) as error:
            item.is_held = False
            if self._followed.get(key) is item:
                self._hold_back(key, item, _name(error.code) if isinstance(error, ApiError) else str(error))
            return
        await self._cut(key, item, lambda: item.follower.on_leader_range(item.asked, start_offset, end_offset))


def _reason(error_code: int) -> str:
    """The reason why an answer for one partition lets nothing be fetched."""
    return _name(error_code) if error_code else _BAD_ANSWER


def _name(error_code: int) -> str:
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return f"error {error_code}"
