"""Limits of a node that no setting has. Simulated nodes have smaller ones, so that short runs of small clusters come to them."""

from dataclasses import dataclass
from typing import Final

from esp.broker.share_states.persister import GIVE_UP_US
from esp.controller.decision import BATCH_RECORDS_MAX, SLICE_CHANGES_MAX
from esp.groups.settings import ASSIGNED_AT_ONCE_STEPS


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """See the fields."""

    share_patience_us: int = GIVE_UP_US
    """The time for which a share coordinator is asked again."""
    assigned_at_once_steps: int = ASSIGNED_AT_ONCE_STEPS
    """Steps of an assignment of a consumer group that is part of a heartbeat."""
    batch_records_max: int = BATCH_RECORDS_MAX
    """Records of one batch of the metadata log; a decision that has more is a metadata transaction."""
    slice_changes_max: int = SLICE_CHANGES_MAX
    """Partitions that one slice of a decision changes; one that changes more is made in several slices."""


REAL_LIMITS: Final = NodeLimits()
"""The limits of each node that is not simulated."""
