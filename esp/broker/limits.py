"""Limits of a broker that no setting has. Simulated brokers have smaller ones, so that short runs of small clusters come to them."""

from dataclasses import dataclass
from typing import Final

from esp.broker.share_states.persister import GIVE_UP_US
from esp.groups.settings import ASSIGNED_AT_ONCE_STEPS


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """See the fields."""

    share_patience_us: int = GIVE_UP_US
    """The time for which a share coordinator is asked again."""
    assigned_at_once_steps: int = ASSIGNED_AT_ONCE_STEPS
    """Steps of an assignment of a consumer group that is part of a heartbeat."""


REAL_LIMITS: Final = BrokerLimits()
"""The limits of each broker that is not simulated."""
