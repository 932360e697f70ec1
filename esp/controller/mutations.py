"""Permission to change partitions: the quota of a client bounds the partitions that its requests create and delete (KIP-599).

A decision asks for each topic, once nothing else speaks against the topic: refused topics do not count. Decisions know no rates: the caller
has them (:mod:`esp.broker.mutation_quota`).
"""

from collections.abc import Callable
from typing import TypeAlias

from esp.model.errors import ApiError, ErrorCode

Admits: TypeAlias = Callable[[int], bool]
"""Counts a number of partitions; returns False if they may not be created or deleted now, and are not counted."""


def admit_all(_partitions: int) -> bool:
    """Return True: the client has no quota."""
    return True


def require_admitted(admits: Admits, partitions: int) -> None:
    """Count the partitions of a topic.

    Raises:
        ApiError: THROTTLING_QUOTA_EXCEEDED.
    """
    if not admits(partitions):
        raise over_quota()


def over_quota() -> ApiError:
    """The refusal of a topic whose client is over its quota."""
    return ApiError(ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded.")
