"""The offsets of a group without members: committed for tools to see, and read again."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from esp.consumer import group_messages
from esp.consumer.cluster import Address, Cluster
from esp.consumer.connection import Deadline
from esp.consumer.errors import NO_ERROR, ConnectionLostError, ConsumerError, UndecidedError, describe, is_retriable
from esp.consumer.group_messages import Committed
from esp.consumer.messages import Api, Partition
from esp.protocol.errors import DecodeError

_MOVED: Final = frozenset({14, 15, 16})  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_UNSTABLE: Final = 88
"""UNSTABLE_OFFSET_COMMIT: a transaction that changes the offsets is not decided yet."""
GROUP_ERRORS: Final = {
    14: "its coordinator starts (COORDINATOR_LOAD_IN_PROGRESS)",
    15: "it has no coordinator (COORDINATOR_NOT_AVAILABLE)",
    16: "its coordinator moves (NOT_COORDINATOR)",
    22: "it has members that consume (ILLEGAL_GENERATION): choose another group",
    24: "its name is no name of a group (INVALID_GROUP_ID)",
    25: "it has members that consume (UNKNOWN_MEMBER_ID): choose another group",
    30: "this user may not use it (GROUP_AUTHORIZATION_FAILED): grant READ on the group",
    _UNSTABLE: "a transaction that changes its offsets is not decided (UNSTABLE_OFFSET_COMMIT)",
}
"""Error codes of a group in words."""

_Found = TypeVar("_Found")


class GroupOffsets:
    """The offsets of a group.

    Args:
        cluster: the cluster.
        group: the group's name.
        backoff_s: the pause before a question is asked again.
    """

    def __init__(self, cluster: Cluster, group: str, backoff_s: float = 0.1) -> None:
        self._cluster = cluster
        self._group = group
        self._backoff_s = backoff_s
        self._coordinator: Address | None = None

    def commit(self, offsets: Mapping[Partition, Committed], timeout_s: float) -> None:
        """Commit offsets.

        Args:
            offsets: by partition.
            timeout_s: the time for an answer, over all that is tried for it.

        Raises:
            ConsumerError: the group has members, may not be used, or has no coordinator that answers until the time is over.
        """
        body = group_messages.encode_offset_commit(self._group, offsets)

        def read(answer: memoryview) -> tuple[set[int], None]:
            return set(group_messages.decode_errors(answer).values()), None

        if offsets:
            self._ask(group_messages.OFFSET_COMMIT, body, read, timeout_s)

    def fetch(
        self, partitions: Sequence[Partition] | None, timeout_s: float, *, waits: bool = True
    ) -> dict[Partition, Committed]:
        """Return what the group has committed for partitions; those that it has nothing for are left out.

        Args:
            partitions: the partitions; None: all.
            timeout_s: the time for an answer, over all that is tried for it.
            waits: whether transactions that change the offsets are waited for.

        Raises:
            UndecidedError: there is such a transaction, and it is not waited for.
            ConsumerError: the group may not be used, or has no coordinator that answers until the time is over.
        """
        body = group_messages.encode_offset_fetch(self._group, partitions)

        def read(answer: memoryview) -> tuple[set[int], Mapping[Partition, Committed]]:
            found = group_messages.decode_offset_fetch(answer)
            errors = {found.error, *found.errors.values()}
            if _UNSTABLE in errors and not waits:
                raise UndecidedError
            return errors, found.offsets

        found = self._ask(group_messages.OFFSET_FETCH, body, read, timeout_s)
        return {partition: committed for partition, committed in found.items() if committed.offset >= 0}

    def _ask(
        self, api: Api, body: bytes, read: Callable[[memoryview], tuple[set[int], _Found]], timeout_s: float
    ) -> _Found:
        """Ask the coordinator until it answers without an error."""
        deadline = Deadline(timeout_s)
        while True:
            try:
                if self._coordinator is None:
                    self._coordinator = self._find(deadline)
                errors, found = self._decoded(read, self._cluster.call(self._coordinator, api, body))
            except ConnectionLostError as error:
                problem = str(error)
                self._coordinator = None
            else:
                errors -= {NO_ERROR}
                if not errors:
                    return found
                self._check(errors)
                problem = self._words(min(errors))
                if errors & _MOVED:
                    self._coordinator = None
            self._pause(deadline, problem)

    def _find(self, deadline: Deadline) -> Address:
        body = group_messages.encode_find_coordinator(self._group)
        while True:
            answer = self._cluster.call_any(group_messages.FIND_COORDINATOR, body, deadline)
            found = self._decoded(group_messages.decode_find_coordinator, answer)
            if found.error == NO_ERROR:
                return Address(found.host, found.port)
            self._check({found.error})
            self._pause(deadline, self._words(found.error))

    def _decoded(self, decode: Callable[[memoryview], _Found], answer: memoryview) -> _Found:
        try:
            return decode(answer)
        except DecodeError as error:
            raise ConsumerError(f"group {self._group}: the answer of a broker cannot be read: {error}") from error

    def _check(self, errors: set[int]) -> None:
        for error in sorted(errors):
            if error not in _MOVED and error != _UNSTABLE and not is_retriable(error):
                raise ConsumerError(self._words(error))

    def _pause(self, deadline: Deadline, problem: str) -> None:
        if deadline.is_over:
            raise ConsumerError(
                f"offsets are not answered within {deadline.timeout_s:g} s: {problem}: start the brokers, or wait until the group has a "
                "coordinator"
            )
        deadline.pause(self._backoff_s)

    def _words(self, error: int) -> str:
        return f"group {self._group}: {GROUP_ERRORS.get(error) or describe(error)}"
