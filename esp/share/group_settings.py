"""The settings of a share group as they count at the leaders of its partitions."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from esp.settings.broker import BrokerSettings
from esp.settings.group import effective_group_value, find_reset_duration_ms
from esp.settings.setting import Value
from esp.share.dead_letters import DeadLetterSettings
from esp.share.partition import ShareSettings


class ShareGroupSettings(NamedTuple):
    """See the module."""

    partition: ShareSettings
    offset_reset: str
    """``share.auto.offset.reset``: ``latest``, ``earliest`` or ``by_duration:`` with a duration of ISO 8601."""
    is_read_committed: bool
    """``share.isolation.level=read_committed``: records of transactions are delivered once they are committed, and only then."""
    dead_letters: DeadLetterSettings | None = None
    """None for a group that has no dead-letter queue."""

    @property
    def reset_duration_ms(self) -> int | None:
        """The milliseconds of a reset by duration."""
        return find_reset_duration_ms(self.offset_reset)


def share_group_settings(
    configs: Mapping[str, str], broker: BrokerSettings, *, allows_dead_letters: bool = False
) -> ShareGroupSettings:
    """The settings of a group.

    Args:
        configs: those that were given to it, by name.
        broker: the node's, which stand in for them and bound them.
        allows_dead_letters: whether the cluster's level of ``share.version`` is one of dead letters.
    """

    def value(name: str, default: Value) -> Any:
        return effective_group_value(f"share.{name}", configs, broker, default)

    topic = configs.get("errors.deadletterqueue.topic.name", "").strip() if allows_dead_letters else ""
    copies = effective_group_value("errors.deadletterqueue.copy.record.enable", configs, broker, False)
    dead_letters = DeadLetterSettings(topic, bool(copies)) if topic else None
    return ShareGroupSettings(
        ShareSettings(
            value("record.lock.duration.ms", broker.group_share_record_lock_duration_ms),
            value("delivery.count.limit", broker.group_share_delivery_count_limit),
            value("partition.max.record.locks", broker.group_share_partition_max_record_locks),
            value("renew.acknowledge.enable", True),
            has_dead_letters=dead_letters is not None,
        ),
        value("auto.offset.reset", "latest"),
        value("isolation.level", "read_uncommitted") == "read_committed",
        dead_letters,
    )
