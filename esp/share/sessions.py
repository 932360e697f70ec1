"""Share sessions (KIP-932): the partitions that a member fetches from this node, named once and then by changes only.

A session belongs to one member of one group, and to the connection on which it was opened. Its requests, ShareFetch and ShareAcknowledge
alike, count by epochs 1, 2, 3 …; 0 opens a session and -1 ends it. With a session ends the hold that its member has on records:

* the end of a connection ends the sessions that were opened on it, and no others: not that of a member that has come back by another
  connection meanwhile (KAFKA-19950);
* a session that a member opens on another connection ends the one before, as the end of that connection would have;
* one that is opened again on its connection goes on: the member has its records still.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, NamedTuple

from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicId

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1

PARTITIONS_MAX: Final = 200_000
"""The most partitions of all sessions together, for memory."""

_EPOCH_MAX: Final = 2**31 - 1


class SessionKey(NamedTuple):
    """A member of a group."""

    group_id: str
    member_id: str


class WantedPartition(NamedTuple):
    """A partition that a member fetches; there may be no such partition."""

    topic_id: TopicId
    partition: int


class ShareSession:
    """The partitions that one member fetches, in the order in which they are to be read.

    One that gave records goes to the end, so that a member whose answers fill up still gets to all of them.
    """

    __slots__ = ("_wanted", "at_end", "connection", "epoch", "has_ended", "key")

    def __init__(self, key: SessionKey, connection: Hashable) -> None:
        self.key = key
        self.connection = connection
        """The connection on which it was opened."""
        self.epoch = 1
        """The epoch that the next request must carry."""
        self.has_ended = False
        """True once nothing may be acquired for it any more."""
        self.at_end: dict[Callable[[], None], None] = {}
        """Called then."""
        self._wanted: dict[WantedPartition, None] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    def __iter__(self) -> Iterator[WantedPartition]:
        return iter(self._wanted)

    def update(self, wanted: Iterable[WantedPartition], forgotten: Iterable[WantedPartition]) -> None:
        """Take over the changes of a request. A partition that is wanted and forgotten is forgotten."""
        for each in wanted:
            self._wanted.setdefault(each)
        for each in forgotten:
            self._wanted.pop(each, None)

    def gave_records(self, partition: WantedPartition) -> None:
        """Note that an answer has records of a partition."""
        if partition in self._wanted:
            self._wanted[partition] = self._wanted.pop(partition)


class ShareSessions:
    """All sessions of a node.

    Args:
        sessions_max: ``group.share.max.share.sessions``.
        partitions_max: the number of partitions of all sessions together.
    """

    def __init__(self, sessions_max: int, partitions_max: int = PARTITIONS_MAX) -> None:
        self._sessions_max: Final = sessions_max
        self._partitions_max: Final = partitions_max
        self._sessions: Final[dict[SessionKey, ShareSession]] = {}
        self._by_connection: Final[dict[Hashable, dict[SessionKey, None]]] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, key: SessionKey, connection: Hashable, expected: int) -> tuple[ShareSession, ShareSession | None]:
        """Open a session, in place of the member's before. It has no partitions yet: :meth:`update` adds them.

        Args:
            key: its member.
            connection: the one on which it is opened.
            expected: the number of partitions that are to be added.

        Returns:
            The session, and the one before if that has ended: its records are to be released.

        Raises:
            ApiError: SHARE_SESSION_LIMIT_REACHED; nothing has changed.
        """
        before = self._sessions.get(key)
        session = ShareSession(key, connection)
        partitions = self._partitions - (len(before) if before is not None else 0)
        is_full = before is None and len(self._sessions) >= self._sessions_max
        if is_full or partitions + expected > self._partitions_max:
            raise ApiError(ErrorCode.share_session_limit_reached)
        if before is not None:
            self._forget(before)
        self._sessions[key] = session
        self._by_connection.setdefault(connection, {})[key] = None
        self._partitions = partitions
        return session, None if before is None or before.connection == connection else before

    def resume(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session of a request that goes on with one, or ends it; the next epoch is expected from now on.

        Raises:
            ApiError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get(key)
        if session is None:
            raise ApiError(ErrorCode.share_session_not_found)
        if epoch != FINAL_EPOCH:
            if session.epoch != epoch:
                raise ApiError(ErrorCode.invalid_share_session_epoch)
            session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        return session

    def update(
        self, session: ShareSession, wanted: Iterable[WantedPartition], forgotten: Iterable[WantedPartition]
    ) -> None:
        """Take over what a request changes.

        Raises:
            ApiError: SHARE_SESSION_LIMIT_REACHED, there is no room for so many partitions. The session has taken none of them.
        """
        wanted = tuple(wanted)
        if self._partitions + len(wanted) > self._partitions_max:
            raise ApiError(ErrorCode.share_session_limit_reached)
        before = len(session)
        session.update(wanted, forgotten)
        self._partitions += len(session) - before

    def close(self, session: ShareSession) -> None:
        """End a session, if it has not ended: its records are to be released."""
        if not session.has_ended:
            self._forget(session)

    def end_connection(self, connection: Hashable) -> list[ShareSession]:
        """A connection has ended, and with it these sessions: their records are to be released."""
        ended = [self._sessions[key] for key in self._by_connection.get(connection, ())]
        for session in ended:
            self._forget(session)
        return ended

    def has_any_on(self, connection: Hashable) -> bool:
        """True if a session is open that was opened on a connection."""
        return connection in self._by_connection

    def _forget(self, session: ShareSession) -> None:
        session.has_ended = True
        del self._sessions[session.key]
        self._partitions -= len(session)
        keys = self._by_connection[session.connection]
        del keys[session.key]
        if not keys:
            del self._by_connection[session.connection]
        for call in tuple(session.at_end):
            call()
