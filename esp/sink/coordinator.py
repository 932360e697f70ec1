"""The coordinator of a transactional id, or of a group in a transaction: found, asked, and looked for again."""

from collections.abc import Callable
from typing import Final, TypeVar

from esp.consumer import group_messages
from esp.consumer.cluster import Address, Cluster
from esp.consumer.connection import Deadline
from esp.consumer.errors import NO_ERROR, ConnectionLostError, ConsumerError, describe, is_retriable
from esp.consumer.group_offsets import GROUP_ERRORS
from esp.consumer.messages import Api
from esp.protocol.errors import DecodeError
from esp.sink.errors import BeginAnewError, FencedError, UnendedError

COORDINATOR_LOAD_IN_PROGRESS: Final = 14
CONCURRENT_TRANSACTIONS: Final = 51
"""The transaction before is being ended."""
_MOVED: Final = frozenset({15, 16})  # COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_WAITING: Final = frozenset({COORDINATOR_LOAD_IN_PROGRESS, CONCURRENT_TRANSACTIONS})
_FENCED: Final = frozenset({47, 90})  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
_OVER: Final = {
    45: "a batch is missing before it (OUT_OF_ORDER_SEQUENCE_NUMBER)",
    46: "a batch came twice (DUPLICATE_SEQUENCE_NUMBER)",
    47: "another producer has its transactional id (INVALID_PRODUCER_EPOCH)",
    48: "its transaction was ended (INVALID_TXN_STATE)",
    49: "its transactional id has expired (INVALID_PRODUCER_ID_MAPPING)",
    59: "its producer id has expired (UNKNOWN_PRODUCER_ID)",
    90: "another producer has its transactional id (PRODUCER_FENCED)",
    120: "its transaction must be aborted (TRANSACTION_ABORTABLE)",
}
_NAMES: Final = {
    **GROUP_ERRORS,
    29: "this user may not write to it (TOPIC_AUTHORIZATION_FAILED): grant WRITE and DESCRIBE on the topic",
    50: "the brokers allow no such time for a transaction (INVALID_TRANSACTION_TIMEOUT): lower kafka.transaction.timeout.ms, or raise "
    "transaction.max.timeout.ms of the brokers",
    CONCURRENT_TRANSACTIONS: "its last transaction is being ended (CONCURRENT_TRANSACTIONS): start the brokers that have the replicas of "
    "its partitions",
    53: "this user may not use it (TRANSACTIONAL_ID_AUTHORIZATION_FAILED): grant WRITE and DESCRIBE on the transactional id; or "
    "the cluster serves no transactions yet: set its feature transaction.version to 1 or more",
    **_OVER,
}

_Found = TypeVar("_Found")


def check_code(code: int, subject: str) -> None:
    """Return if there is no error.

    Args:
        code: the error code of an answer.
        subject: what it is about, for messages.

    Raises:
        FencedError: another producer has a newer epoch.
        UnendedError: the last transaction of the transactional id is not ended.
        BeginAnewError: another attempt may succeed.
        ConsumerError: it cannot.
    """
    if code == NO_ERROR:
        return
    words = f"{subject}: {_NAMES.get(code) or describe(code)}"
    if code in _FENCED:
        raise FencedError(words)
    if code == CONCURRENT_TRANSACTIONS:
        raise UnendedError(words)
    if code in _OVER or code in _WAITING or code in _MOVED or is_retriable(code):
        raise BeginAnewError(words)
    raise ConsumerError(words)


class Coordinator:
    """A coordinator.

    Args:
        cluster: the cluster.
        key: the transactional id, or the group.
        is_of_group: whether it is a group.
        backoff_s: the pause before a question is asked again.
    """

    def __init__(self, cluster: Cluster, key: str, *, is_of_group: bool, backoff_s: float) -> None:
        self._cluster = cluster
        self._key = key
        self._is_of_group = is_of_group
        self._backoff_s = backoff_s
        self._subject = f"{'group' if is_of_group else 'transactional id'} {key}"
        self._address: Address | None = None

    def ask(
        self,
        api: Api,
        body: bytes,
        read: Callable[[memoryview], tuple[int, _Found]],
        deadline: Deadline,
        subject: str = "",
    ) -> _Found:
        """Return what the coordinator answers; while it starts, or ends another transaction, it is asked again.

        Args:
            api: of the request.
            body: of the request.
            read: returns the error code of an answer, and what else it has.
            deadline: for the answer.
            subject: what the request is about, if that is not the coordinator's key.

        Raises:
            BeginAnewError: another attempt may succeed.
            ConsumerError: it cannot.
        """
        while True:
            if self._address is None:
                self._address = self._find(deadline)
            try:
                code, found = self._decoded(read, self._cluster.call(self._address, api, body))
            except ConnectionLostError as error:
                self._address = None
                raise BeginAnewError(f"{self._subject}: {error}") from error
            if code in _MOVED:
                self._address = None
            elif code not in _WAITING:
                check_code(code, subject or self._subject)
                return found
            self._pause(deadline, code)

    def _find(self, deadline: Deadline) -> Address:
        body = group_messages.encode_find_coordinator(self._key, is_transactional_id=not self._is_of_group)
        while True:
            answer = self._cluster.call_any(group_messages.FIND_COORDINATOR, body, deadline)
            found = self._decoded(group_messages.decode_find_coordinator, answer)
            if found.error == NO_ERROR:
                return Address(found.host, found.port)
            if found.error not in _MOVED and found.error not in _WAITING:
                check_code(found.error, self._subject)
            self._pause(deadline, found.error)

    def _decoded(self, decode: Callable[[memoryview], _Found], answer: memoryview) -> _Found:
        try:
            return decode(answer)
        except DecodeError as error:
            raise ConsumerError(f"{self._subject}: the answer of a broker cannot be read: {error}") from error

    def _pause(self, deadline: Deadline, code: int) -> None:
        if deadline.is_over:
            check_code(code, self._subject)
        deadline.pause(self._backoff_s)
