"""The settings of self-repair and of removing brokers, which Kafka has not."""

from collections.abc import Mapping
from typing import Final

from esp.settings.setting import Kind, Setting, at_least, one_of

REBALANCE_MODES: Final = ("off", "propose", "apply")

REBALANCE_SETTINGS: Final = (
    Setting(
        "rebalance.mode",
        Kind.STRING,
        "What the active controller does about brokers that are gone, draining or new: off, propose (it says what it would do), apply "
        "(it does it). As a default of all brokers it can be changed while they run; not Kafka's.",
        one_of(*REBALANCE_MODES),
    ),
    Setting(
        "rebalance.broker.dead.after.ms",
        Kind.LONG,
        "Milliseconds after which a broker that is away counts as gone, so that others get what it held; not Kafka's.",
        at_least(1),
    ),
    Setting(
        "rebalance.partitions.in.flight.max",
        Kind.INT,
        "Partitions that may be in reassignment, of any origin, for the active controller to begin another; not Kafka's.",
        at_least(1),
    ),
    Setting(
        "rebalance.bytes.per.second.max",
        Kind.LONG,
        "Bytes per second that a node sends, and as many that it fetches, for all copies together that self-repair makes; 0: nothing. "
        "Not Kafka's.",
        at_least(0),
    ),
)
"""Part of :data:`esp.settings.broker_table.BROKER_SETTINGS`."""

REBALANCE_WHILE_RUNNING: Final[Mapping[str, str]] = {
    "rebalance.bytes.per.second.max": "each, all",
    "rebalance.mode": "all",  # the controller asks the metadata itself
}
"""The settings that can be changed while nodes run: for each broker by itself, for all at once."""

DRAINING: Final = "broker.draining"
REMOVAL_FORCED: Final = "broker.removal.forced"

ASKED_OF_METADATA: Final[Mapping[str, Setting]] = {
    setting.name: setting
    for setting in (
        Setting(
            DRAINING,
            Kind.BOOLEAN,
            "Of one broker: it shall be emptied, and gets no new replicas. Gone when the broker is unregistered; not Kafka's.",
        ),
        Setting(
            REMOVAL_FORCED,
            Kind.LIST,
            "Of all brokers: ids of those that may be unregistered though the last complete copy of a partition goes with them. An id is "
            "gone from it when that was done; not Kafka's.",
        ),
    )
}
"""Settings that stand in the metadata log only, where the active controller looks for them."""
