"""Settings that Kafka does not have: those of self-repair that can be changed while nodes run, and those by which brokers are removed."""

from collections.abc import Mapping
from typing import Final

from esp.settings.setting import Kind, Setting

REBALANCE_MODES: Final = ("off", "propose", "apply")

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
            "Set on one broker: it is draining, and gets no new replicas. Removed when the broker is unregistered; not Kafka's.",
        ),
        Setting(
            REMOVAL_FORCED,
            Kind.LIST,
            "Default of all brokers: ids of brokers that may be unregistered even if the last complete copy of a partition is lost. An "
            "id is removed when its broker is unregistered; not Kafka's.",
        ),
    )
}
"""Settings that stand in the metadata log only, where the active controller looks for them."""
