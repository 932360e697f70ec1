"""The trash, looked up and changed, on a connection of its own: the messages are ours."""

import uuid
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kio.static.primitive import i32Timedelta

from esp.cli.kafka.brokers import call
from esp.cli.kafka.client import LOOK_TIMEOUT_S, check_code
from esp.model.errors import OperatorError
from esp.model.ids import ZERO_UUID
from esp.protocol.trash import (
    PURGE,
    RESTORE,
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)

_TIMEOUT: Final = i32Timedelta.parse(timedelta(seconds=30))


class Trashed(NamedTuple):
    """A topic in the trash."""

    name: str
    topic_id: uuid.UUID
    partitions: int
    trashed_ms: int
    """The wall time at which it was deleted."""
    until_ms: int
    """The wall time at which it is purged."""


def list_trash(servers: str) -> list[Trashed]:
    """Return the topics in the trash, the one that was deleted first at the beginning.

    Raises:
        RefusedError: the broker refused.
        OperatorError: no broker answers, or it has no trash.
    """
    answer = call(
        servers, ListPartitionReassignmentsRequest(timeout=_TIMEOUT, topics=(), with_trash=True), LOOK_TIMEOUT_S
    )
    check_code(answer.error_code.value, answer.error_message)
    if answer.trash is None:
        raise OperatorError(
            f"the brokers at {servers} have no trash",
            "Kafka's brokers and older releases have none: what is deleted there is gone.",
        )
    return [
        Trashed(each.name, each.topic_id or ZERO_UUID, each.partitions, each.trashed_ms, each.until_ms)
        for each in answer.trash
    ]


def restore_topic(servers: str, topic_id: uuid.UUID, *, is_forced: bool) -> tuple[int, ...]:
    """Take a topic out of the trash; return its partitions that have no complete replica left.

    Raises:
        RefusedError: the controller refused.
        OperatorError: no broker answers.
    """
    offline: tuple[int, ...] = _change(servers, RESTORE, topic_id, is_forced=is_forced).offline
    return offline


def purge_topic(servers: str, topic_id: uuid.UUID) -> None:
    """Remove a topic in the trash for good; raises as :func:`restore_topic` does."""
    _change(servers, PURGE, topic_id)


def _change(servers: str, action: int, topic_id: uuid.UUID, *, is_forced: bool = False) -> Any:
    request = AlterPartitionReassignmentsRequest(
        timeout=_TIMEOUT, topics=(), trash_action=action, trash_topic_id=topic_id, is_forced=is_forced
    )
    answer = call(servers, request)
    check_code(answer.error_code.value, answer.error_message)
    return answer
