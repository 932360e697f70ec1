"""The fetch sessions of other brokers at this one: at most one for each broker, for as long as its connection lasts.

They have no part in the cache of consumers' sessions: a follower is never turned away for want of room.
"""

from collections.abc import Callable, Sequence

from esp.broker.replication.session import ReplicaSession, Surroundings
from esp.broker.request import Answer, Request
from esp.model.buffers import Buffer
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from esp.ports.random import Random
from esp.protocol.fetch_codec import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    TOPIC_IDS_FROM,
    FetchRequest,
    encode_fetch_response,
)

_ID_MAX = 2**31 - 1
_EPOCH_MAX = 2**31 - 1


class ReplicaSessions:
    """Answers Fetch requests of other brokers.

    Args:
        around: the parts of the node that sessions work with.
        random: makes session ids.
        max_bytes: the most bytes of one answer, whatever the follower asks for.
        is_broker: whether a node is known; only such get a session.
    """

    def __init__(
        self, around: Surroundings, random: Random, max_bytes: int, is_broker: Callable[[NodeId], bool]
    ) -> None:
        self._around = around
        self._random = random
        self._max_bytes = max_bytes
        self._is_broker = is_broker
        self._sessions: dict[NodeId, ReplicaSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def handle(self, request: Request, asked: FetchRequest) -> Answer:
        """Answer now or later; see :meth:`esp.broker.connections.dispatcher.Dispatcher.dispatch`."""
        replica_id = NodeId(asked.replica_id)
        epoch = asked.session_epoch
        session = self._sessions.get(replica_id)
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session is not None and (epoch == INITIAL_EPOCH or session.session_id == asked.session_id):
                session.close()
                del self._sessions[replica_id]
            is_lasting = (
                epoch == INITIAL_EPOCH and request.api_version >= TOPIC_IDS_FROM and self._is_broker(replica_id)
            )
            return self._open(replica_id, asked, is_lasting=is_lasting).handle(request, asked, full=is_lasting)
        if session is None or session.is_closed or session.session_id != asked.session_id:
            return _refuse(request, ErrorCode.fetch_session_id_not_found)
        if session.epoch != epoch:
            return _refuse(request, ErrorCode.invalid_fetch_session_epoch)
        session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        return session.handle(request, asked)

    def _open(self, replica_id: NodeId, asked: FetchRequest, *, is_lasting: bool) -> ReplicaSession:
        session_id = self._random.below(_ID_MAX) + 1 if is_lasting else NO_SESSION
        session = ReplicaSession(self._around, replica_id, session_id, asked, min(self._max_bytes, asked.max_bytes))
        if is_lasting:
            self._sessions[replica_id] = session
        return session


def _refuse(request: Request, code: ErrorCode) -> Sequence[Buffer]:
    return encode_fetch_response(request.api_version, request.correlation_id, (), error_code=code)
