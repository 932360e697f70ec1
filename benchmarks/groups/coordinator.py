"""Coordinators of groups: their topic is made at the first question for one of them."""

import time
from typing import Final

from kio.schema.find_coordinator.v6 import request as find_coordinator
from kio.static.primitive import i8

from benchmarks.client import Client, check
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey

PATIENCE: Final = frozenset(
    (
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.unknown_topic_or_partition,
    )
)
"""Errors of a broker that is about to coordinate a group."""

_VERSION: Final = 6
_GROUP_KEY_TYPE: Final = i8(0)
_POLL_INTERVAL_S: Final = 0.01


def await_coordinator(port: int, group: str) -> None:
    """Return once the group has a coordinator.

    Raises:
        UnexpectedAnswerError: the broker refuses to tell of it.
    """
    request = find_coordinator.FindCoordinatorRequest(key_type=_GROUP_KEY_TYPE, coordinator_keys=(group,))
    with Client(port) as client:
        while True:
            code = client.ask(ApiKey.FIND_COORDINATOR, _VERSION, request).coordinators[0].error_code
            if code not in PATIENCE:
                check(code, f"FindCoordinator of {group}")
                return
            time.sleep(_POLL_INTERVAL_S)
