"""The quota of changes to partitions: the active controller counts them, for all brokers together (KIP-599).

A broker tells the controller the client of a request that the client's quota bounds, with the version of the request, and holds the
client's connection for the throttle time of the answer. Newer versions of the requests are strict: a topic is refused while there is a debt
from earlier ones. Clients of older versions would take that for a failure; for them the change is made all the same.

The controller counts in its memory: another controller begins with nothing counted, as Kafka's does.
"""

from datetime import timedelta
from typing import Any, Final

from kio.static.primitive import i32Timedelta

from esp.broker.answer_fields import milliseconds, told_duration
from esp.broker.authorization.access import allows_on_cluster
from esp.broker.controller.services import ControllerServices
from esp.broker.forwarding import forward
from esp.broker.request import Excess, Request
from esp.broker.services import Services
from esp.model.acl import AclOperation
from esp.model.client_quotas import CONTROLLER_MUTATION_RATE
from esp.protocol.registry import ApiKey

STRICT_FROM: Final = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
"""The versions from which on a client knows that a quota may refuse a topic."""


class MutationQuota:
    """The changes of one request, at the active controller.

    Requests of brokers on their own behalf are not counted (QUOTA-5). Where there is no authorizer, a request that comes to a controller's
    listener without an Envelope may be a broker's.

    Args:
        services: the controller's.
        request: asks for the changes.
    """

    def __init__(self, services: ControllerServices, request: Request) -> None:
        client, enforcer = request.client, services.quotas.enforcer
        is_counted = client.is_passed_on or not (
            client.is_this_node or allows_on_cluster(services.access, client, AclOperation.CLUSTER_ACTION)
        )
        self._uses = enforcer.uses if enforcer is not None and is_counted else None
        self._client = client
        self._client_id = request.client_id or ""
        self._is_strict = request.api_version >= STRICT_FROM[ApiKey(request.api_key)]
        self._throttle_ms = 0

    def admits(self, partitions: int) -> bool:
        """True if partitions may be created or deleted: they are counted."""
        if self._uses is None:
            return True
        user = self._client.principal.partition(":")[2]
        throttle_ms = self._uses.take_mutations(user, self._client_id, partitions, strict=self._is_strict)
        self._throttle_ms = max(self._throttle_ms, throttle_ms)
        if throttle_ms and not self._client.is_passed_on:
            limit = self._uses.limits.find(CONTROLLER_MUTATION_RATE, user, self._client_id)
            assert limit is not None, "only a quota throttles"
            excess = Excess(CONTROLLER_MUTATION_RATE, limit.entity, user, self._client_id)
            self._client.hold.mute(self._uses.now_us() + throttle_ms * 1000, excess)
        return not (throttle_ms and self._is_strict)

    @property
    def throttle_time(self) -> i32Timedelta:
        """The time for which the client waits before its next request."""
        return told_duration(timedelta(milliseconds=self._throttle_ms))


def is_counted(request: Request) -> bool:
    """True if the controller must know the client of a request, because a quota bounds its changes."""
    meter = request.client.meter
    return meter is not None and meter.counts_mutations and not request.client.is_broker


async def forward_counted(services: Services, request: Request, api_key: ApiKey, message: Any) -> Any:
    """The active controller's answer to a request that changes partitions; its client waits for the throttle time.

    Args:
        services: the broker's.
        request: the client's.
        api_key: its API.
        message: its message: of the request's own version if it :func:`is_counted`, else of the newest one.

    Raises:
        ApiError: as :func:`~esp.broker.forwarding.forward`.
    """
    meter = request.client.meter
    if meter is None or not is_counted(request):
        return await forward(services, request, api_key, message)
    answer = await forward(services, request, api_key, message, names_client=True, in_its_version=True)
    throttle_ms = milliseconds(answer.throttle_time)
    if throttle_ms > 0:
        meter.throttle_mutations(throttle_ms)
    return answer
