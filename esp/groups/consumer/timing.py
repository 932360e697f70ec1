"""The times that a consumer group goes by: its own settings first, then those of the node."""

from typing import NamedTuple

from esp.groups.consumer.topics import TopicCatalog
from esp.groups.settings import GroupSettings


class Timing(NamedTuple):
    """The times of one group, in milliseconds."""

    session_timeout_ms: int
    """The longest silence of a member."""
    heartbeat_interval_ms: int
    """The time between two heartbeats of a member."""
    assignment_interval_ms: int
    """The least time between two assignments."""


def timing_of(group_id: str, catalog: TopicCatalog, settings: GroupSettings) -> Timing:
    """The times of a group.

    Args:
        group_id: its name.
        catalog: has the group's own settings, which were checked when they were given.
        settings: the node's.
    """
    configs = catalog.group_configs(group_id)
    return Timing(
        int(configs.get("consumer.session.timeout.ms", settings.consumer_session_timeout_ms)),
        int(configs.get("consumer.heartbeat.interval.ms", settings.consumer_heartbeat_interval_ms)),
        int(configs.get("consumer.assignment.interval.ms", settings.consumer_assignment_interval_ms)),
    )
