"""The quota of changes to partitions in one request: topics over it are refused, or its client is throttled (KIP-599).

The broker that a client asks counts, and takes back what the controller has refused. Newer versions of the requests are strict: a topic is
refused while there is a debt from earlier ones. Clients of older versions would take that for a failure; for them it is done all the same.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from esp.broker.forwarding import forward
from esp.broker.request import Request
from esp.broker.services import Services
from esp.broker.turns.request_parts import with_elements
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.error_responses import refused_elements
from esp.protocol.registry import SERVED, ApiKey

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


async def forward_admitted(
    services: Services,
    request: Request,
    api_key: ApiKey,
    message: Any,
    admitted: Sequence[Any],
    *,
    key: Callable[[Any], object],
    answered: str,
) -> Any:
    """Pass on the topics of a request that its quota admits; return the controller's answer, with the others refused.

    Args:
        services: the broker's.
        request: the client's.
        api_key: its API.
        message: its message, of the newest version, with all topics.
        admitted: those of them that are passed on.
        key: returns the name or id by which an answer names a topic.
        answered: the name of the answer's list of topics.

    Raises:
        ApiError: as :func:`~esp.broker.forwarding.forward`.
    """
    if len(admitted) == len(message.topics):
        return await forward(services, request, api_key, message)
    keys = set(map(key, admitted))
    left = {key(topic): topic for topic in message.topics if key(topic) not in keys}
    refused = refused_elements(
        api_key, SERVED[api_key].max_version, replace(message, topics=tuple(left.values())), REFUSAL
    )
    if not admitted:
        return refused
    answer = await forward(services, request, api_key, replace(message, topics=tuple(admitted)))
    return with_elements(answer, answered, (*getattr(answer, answered), *getattr(refused, answered)))
