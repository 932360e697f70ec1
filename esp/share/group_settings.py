"""The settings of a share group as they count at the leaders of its partitions."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from esp.settings.broker import BrokerSettings
from esp.settings.group import effective_group_value, find_reset_duration_ms
from esp.settings.setting import Value
from esp.share.partition import ShareSettings


class ShareGroupSettings(NamedTuple):
    """See the module."""

    partition: ShareSettings
    offset_reset: str
    """``share.auto.offset.reset``: ``latest``, ``earliest`` or ``by_duration:`` with a duration of ISO 8601."""
    is_read_committed: bool
    """``share.isolation.level=read_committed``: records of transactions are delivered once they are committed, and only then."""

    @property
    def reset_duration_ms(self) -> int | None:
        """The milliseconds of a reset by duration."""
        return find_reset_duration_ms(self.offset_reset)


def share_group_settings(configs: Mapping[str, str], broker: BrokerSettings) -> ShareGroupSettings:
    """The settings of a group.

    Args:
        configs: those that were given to it, by name.
        broker: the node's, which stand in for them and bound them.
    """

    def value(name: str, default: Value) -> Any:
        return effective_group_value(f"share.{name}", configs, broker, default)

    return ShareGroupSettings(
        ShareSettings(
            value("record.lock.duration.ms", broker.group_share_record_lock_duration_ms),
            value("delivery.count.limit", broker.group_share_delivery_count_limit),
            value("partition.max.record.locks", broker.group_share_partition_max_record_locks),
            value("renew.acknowledge.enable", True),
        ),
        value("auto.offset.reset", "latest"),
        value("isolation.level", "read_uncommitted") == "read_committed",
    )
