"""Incremental fetch sessions (KIP-227): a client names its partitions once, later requests and answers carry changes only.

A session belongs to one client and counts its requests by epochs 1, 2, 3 ...; a request with another epoch than the expected one is
refused, so that client and node never disagree about what the session holds. Sessions live in a cache that holds so many of them, and so
many partitions; one that was not used for two minutes makes room for a new one, and without room the client is served without a session.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from esp.model.errors import ApiError, ErrorCode
from esp.ports.random import Random
from esp.protocol.fetch_codec import NO_SESSION

EVICTABLE_AFTER_US: Final = 120_000_000
"""Kafka's ``min.incremental.fetch.session.eviction.ms``: an unused session may be dropped after this time."""

PARTITIONS_MAX: Final = 200_000
"""The most partitions of all sessions together, for memory: each takes up to 600 bytes."""

_EPOCH_MAX: Final = 2**31 - 1
_ID_MAX: Final = 2**31 - 1

TopicKey = str | bytes
"""A topic as the request names it: by name, or by the 16 bytes of its id from Fetch version 13 on."""

PartitionKey = tuple[TopicKey, int]


class Wanted(Protocol):
    """A partition of a fetch request."""

    @property
    def topic(self) -> TopicKey:
        """Name or id of the topic."""

    @property
    def partition(self) -> int:
        """Index of the partition."""


W = TypeVar("W", bound=Wanted)


class Told(NamedTuple):
    """The state of a partition in the client's last answer about it, without records."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


NOTHING_TOLD: Final = Told(-1, -1, -1)
"""A new partition, or one that was answered with an error: it is in the next answer whatever it says."""


class FetchSession(Generic[W]):
    """The partitions that one client fetches.

    Partitions are kept in the order in which they are to be read: one that gave records goes to the end, so that a client whose answers
    fill up still gets to all of them.
    """

    __slots__ = ("_told", "_wanted", "by_topic_id", "epoch", "session_id", "used_us")

    def __init__(self, session_id: int, wanted: Iterable[W], *, by_topic_id: bool, now_us: int) -> None:
        self.session_id = session_id
        self.epoch = 1
        """The epoch that the next request must carry."""
        self.by_topic_id = by_topic_id
        self.used_us = now_us
        self._wanted: dict[PartitionKey, W] = {(item.topic, item.partition): item for item in wanted}
        self._told: dict[PartitionKey, Told] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    def __iter__(self) -> Iterator[W]:
        return iter(self._wanted.values())

    def update(self, wanted: Iterable[W], forgotten: Iterable[PartitionKey]) -> None:
        """Take over the changes of an incremental request: new or changed partitions, and partitions that the client wants no more."""
        for key in forgotten:
            self._wanted.pop(key, None)
            self._told.pop(key, None)
        for item in wanted:
            self._wanted[item.topic, item.partition] = item

    def has_news(self, key: PartitionKey, told: Told) -> bool:
        """True if a partition without records has to be in the answer."""
        return self._told.get(key, NOTHING_TOLD) != told

    def answered(self, key: PartitionKey, told: Told, *, with_records: bool) -> None:
        """Remember what an answer says of a partition."""
        self._told[key] = told
        if with_records and key in self._wanted:
            self._wanted[key] = self._wanted.pop(key)


class FetchSessions(Generic[W]):
    """All sessions of a node.

    Args:
        random: makes session ids.
        slots: ``max.incremental.fetch.session.cache.slots``.
    """

    def __init__(self, random: Random, slots: int) -> None:
        self._random = random
        self._slots = slots
        self._partitions = 0
        # In the order of their last use, the longest unused first.
        self._sessions: dict[int, FetchSession[W]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, wanted: Sequence[W], *, by_topic_id: bool, now_us: int) -> FetchSession[W] | None:
        """A new session for a full request, or None if it wants nothing or there is no room."""
        if not wanted or not self._make_room(len(wanted), now_us):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.below(_ID_MAX)
        session = FetchSession(session_id, wanted, by_topic_id=by_topic_id, now_us=now_us)
        self._sessions[session_id] = session
        self._partitions += len(session)
        return session

    def resume(self, session_id: int, epoch: int, *, by_topic_id: bool, now_us: int) -> FetchSession[W]:
        """The session of an incremental request, which now expects the next epoch.

        Raises:
            ApiError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise ApiError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.invalid_fetch_session_epoch)
        if session.by_topic_id != by_topic_id:
            raise ApiError(ErrorCode.fetch_session_topic_id_error)
        session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        session.used_us = now_us
        self._sessions[session_id] = self._sessions.pop(session_id)
        return session

    def update(self, session: FetchSession[W], wanted: Sequence[W], forgotten: Iterable[PartitionKey] = ()) -> None:
        """Take over what a request changes: see :meth:`FetchSession.update`.

        Raises:
            ApiError: FETCH_SESSION_ID_NOT_FOUND, and the session is forgotten: there is no room for so many partitions.
        """
        before = len(session)
        session.update(wanted, forgotten)
        if session.session_id in self._sessions:
            self._partitions += len(session) - before
        if self._partitions > PARTITIONS_MAX:
            self.close(session.session_id)
            raise ApiError(ErrorCode.fetch_session_id_not_found)

    def close(self, session_id: int) -> None:
        """Forget a session, if it is there."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session)

    def _make_room(self, partitions: int, now_us: int) -> bool:
        """Forget as many as must be, and may be; whether that is enough."""
        if partitions > PARTITIONS_MAX:
            return False
        while len(self._sessions) >= self._slots or self._partitions + partitions > PARTITIONS_MAX:
            longest_unused = next(iter(self._sessions.values()), None)
            if longest_unused is None or now_us - longest_unused.used_us < EVICTABLE_AFTER_US:
                return False
            self.close(longest_unused.session_id)
        return True
