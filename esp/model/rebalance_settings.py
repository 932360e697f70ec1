"""The settings of self-repair, which Kafka has not: what the active controller does about brokers that are gone, draining or new."""

from typing import Final

from esp.model.setting import Kind, Setting, at_least, one_of

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
        "Partitions that may be in reassignment, whoever began it, for the active controller to begin another; not Kafka's.",
        at_least(1),
    ),
)
"""Part of :data:`esp.model.broker_setting_table.BROKER_SETTINGS`."""
