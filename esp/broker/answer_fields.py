"""Small values that many answers share."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from kio.schema.types import BrokerId
from kio.static.primitive import i32Timedelta

from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId

NO_THROTTLE: Final = i32Timedelta.parse(timedelta())
"""No client is throttled yet; quotas will fill it."""

OPERATIONS_NOT_ASKED: Final = -(2**31)
"""Kafka's value for a set of operations that was not asked for."""

NO_TRANSACTIONS: Final = ErrorCode.transactional_id_authorization_failed
"""The answer to whatever begins with a transactional id: the one code that no client takes for a reason to ask again (decision 38)."""

NO_TRANSACTIONS_MESSAGE: Final = (
    "There are no transactions while transaction.version is 0: raise it, or leave transactional.id unset."
)

# Kafka's AclOperation codes are bits; without an authorizer every operation that the resource has is allowed (KIP-430).
_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = (1 << bit for bit in (3, 4, 5, 6, 7, 8))
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = (1 << bit for bit in (9, 10, 11, 12))

ALL_TOPIC_OPERATIONS: Final = (
    _READ | _WRITE | _CREATE | _DELETE | _ALTER | _DESCRIBE | _DESCRIBE_CONFIGS | _ALTER_CONFIGS
)
ALL_GROUP_OPERATIONS: Final = _READ | _DELETE | _DESCRIBE | _DESCRIBE_CONFIGS | _ALTER_CONFIGS
ALL_CLUSTER_OPERATIONS: Final = (
    _CREATE | _ALTER | _DESCRIBE | _CLUSTER_ACTION | _DESCRIBE_CONFIGS | _ALTER_CONFIGS | _IDEMPOTENT_WRITE
)


_DURATION_MAX: Final = timedelta(milliseconds=2**31 - 1)


def told_duration(duration: timedelta) -> i32Timedelta:
    """A duration as a field of an answer holds it: 24 days at most."""
    return i32Timedelta.parse(min(duration, _DURATION_MAX))


def milliseconds(duration: timedelta) -> int:
    """A duration of a request as a number."""
    return duration // timedelta(milliseconds=1)


def require_time(timeout: timedelta) -> None:
    """Kafka's controller does nothing of a request whose time is up before it begins.

    Raises:
        ApiError: REQUEST_TIMED_OUT.
    """
    if timeout <= timedelta():
        raise ApiError(ErrorCode.request_timed_out)


def broker_ids(nodes: Iterable[NodeId]) -> tuple[BrokerId, ...]:
    """Node ids as the message classes want them."""
    return tuple(BrokerId(node) for node in nodes)
