"""The quota of changes to partitions in one request: topics over it are refused, or its client is throttled (KIP-599).

The broker that a client asks counts, and takes back what the controller has refused. Newer versions of the requests are strict: a topic is
refused while there is a debt from earlier ones. Clients of older versions would take that for a failure; for them it is done all the same.
"""

from collections.abc import Callable, Iterable
from typing import Final

from esp.broker.request import Request
from esp.model.errors import ApiError, ErrorCode

REFUSAL: Final = ApiError(ErrorCode.throttling_quota_exceeded)


class MutationQuota:
    """The changes of one request.

    Args:
        request: asks for them.
        strict_from: the version of its API from which on topics are refused.
    """

    def __init__(self, request: Request, strict_from: int) -> None:
        self._meter = request.client.meter
        self._is_strict = request.api_version >= strict_from
        self._counts: dict[object, int] = {}

    def admits(self, topic: object, count: Callable[[], int]) -> bool:
        """True if a topic's partitions may be created or deleted: they are counted.

        Args:
            topic: what an answer names it by.
            count: returns the number of partitions.
        """
        if self._meter is None:
            return True
        partitions = count()
        if partitions <= 0:
            return True
        throttle_ms = self._meter.charge_mutations(partitions, strict=self._is_strict)
        if throttle_ms and self._is_strict:
            return False
        self._counts[topic] = self._counts.get(topic, 0) + partitions
        return True

    def give_back(self, refused: Iterable[object]) -> None:
        """Topics were refused for another reason."""
        count = sum(self._counts.get(topic, 0) for topic in refused)
        if self._meter is not None and count:
            self._meter.charge_mutations(-count, strict=self._is_strict)
