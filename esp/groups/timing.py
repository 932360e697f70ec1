"""The times that a group goes by whose coordinator assigns: its own settings first, then those of the node."""

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
    """The times of a consumer group.

    Args:
        group_id: its name.
        catalog: has the group's own settings, which were checked when they were given.
        settings: the node's.
    """
    node = Timing(
        settings.consumer_session_timeout_ms,
        settings.consumer_heartbeat_interval_ms,
        settings.consumer_assignment_interval_ms,
    )
    return _own("consumer", group_id, catalog, node)


def share_timing_of(group_id: str, catalog: TopicCatalog, settings: GroupSettings) -> Timing:
    """The times of a share group; as above."""
    share = settings.share
    node = Timing(share.session_timeout_ms, share.heartbeat_interval_ms, share.assignment_interval_ms)
    return _own("share", group_id, catalog, node)


def _own(family: str, group_id: str, catalog: TopicCatalog, node: Timing) -> Timing:
    configs = catalog.group_configs(group_id)
    if not configs:
        return node
    return Timing(
        int(configs.get(f"{family}.session.timeout.ms", node.session_timeout_ms)),
        int(configs.get(f"{family}.heartbeat.interval.ms", node.heartbeat_interval_ms)),
        int(configs.get(f"{family}.assignment.interval.ms", node.assignment_interval_ms)),
    )
