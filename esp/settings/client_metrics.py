"""The settings of a subscription to the metrics of clients (KIP-714): Kafka's ``ClientMetricsConfigs``.

No client is asked for its metrics here; subscriptions are checked and kept.
"""

import re
from collections.abc import Mapping
from typing import Final

from esp.model.errors import ApiError, ErrorCode
from esp.settings.known import known_settings

_INTERVAL: Final = "interval.ms"
_INTERVALS_MS: Final = range(100, 3_600_001)
_SELECTORS: Final = frozenset(
    (
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)


def validate_client_metrics_configs(subscription: str, configs: Mapping[str, str]) -> None:
    """Check all the settings that a subscription would have.

    Args:
        subscription: its name.
        configs: by name.

    Raises:
        ApiError: INVALID_REQUEST or INVALID_CONFIG, in Kafka's words.
    """
    if not subscription:
        raise ApiError(ErrorCode.invalid_request, "Subscription name can't be empty")
    known = known_settings("client_metrics")
    for name in configs:
        if name not in known:
            raise ApiError(ErrorCode.invalid_request, f"Unknown client metrics configuration: {name}")
    for name, text in configs.items():
        problem = known[name].setting().refusal(text)
        if problem is not None:
            raise ApiError(ErrorCode.invalid_config, problem)
    interval_ms = known[_INTERVAL].setting().parse(configs.get(_INTERVAL, str(_INTERVALS_MS[-1])))
    if interval_ms not in _INTERVALS_MS:
        raise ApiError(
            ErrorCode.invalid_request,
            f"Invalid value {interval_ms} for {_INTERVAL}, interval must be between {_INTERVALS_MS[0]} and "
            f"{_INTERVALS_MS[-1]} (1 hour)",
        )
    for pattern in filter(None, configs.get("match", "").split(",")):
        if not _is_pattern(pattern.strip()):
            raise ApiError(ErrorCode.invalid_config, f"Illegal client matching pattern: {pattern.strip()}")


def _is_pattern(text: str) -> bool:
    selector, equals, expression = text.partition("=")
    if not equals or selector.strip() not in _SELECTORS:
        return False
    try:
        re.compile(expression.strip())
    except re.error:
        return False
    return True
