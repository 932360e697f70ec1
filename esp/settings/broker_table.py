"""The settings of a node that have an effect here, by their names.

An effect is that the value is asked, by the node or for a topic that has none of its own, or that it is held against what this release
can do: ``security.inter.broker.protocol``. A setting of Kafka's that is not listed is taken, and named in a warning. Most are declared as
fields of :class:`~esp.settings.broker.BrokerSettings`; here stand those that only stand in for others, bound those
of groups, or say how others are read.
"""

from typing import Final

from esp.settings.addresses import SECURITY_PROTOCOLS
from esp.settings.broker import BrokerSettings
from esp.settings.references import PROVIDERS
from esp.settings.sasl import SASL_REFUSED, SASL_SETTINGS
from esp.settings.setting import Kind, Setting, at_least, declared_settings, one_of
from esp.settings.tls import TLS_REFUSED, TLS_SETTINGS

_TIMES: Final = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
_BOUNDED: Final = {
    "consumer": _TIMES,
    "share": (*_TIMES, "delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms"),
}
"""The settings of groups that a node bounds, by the type of the groups."""

BROKER_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        *declared_settings(BrokerSettings),
        *TLS_SETTINGS.values(),
        *SASL_SETTINGS.values(),
        Setting(
            "listener.security.protocol.map",
            Kind.STRING,
            "The security protocol of each listener name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        ),
        Setting(
            "security.inter.broker.protocol",
            Kind.STRING,
            "Alternative to inter.broker.listener.name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
            one_of(*SECURITY_PROTOCOLS),
        ),
        Setting(
            PROVIDERS,
            Kind.LIST,
            "Names of the providers of values that stand elsewhere: config.providers.NAME.class says of which kind each is.",
        ),
        Setting("log.dir", Kind.LIST, "The data directory where log.dirs is not set."),
        Setting("log.flush.scheduler.interval.ms", Kind.LONG, "Used where log.flush.interval.ms is not set."),
        Setting("log.retention.minutes", Kind.INT, "Minutes that records are kept where log.retention.ms is not set."),
        Setting("log.retention.hours", Kind.INT, "Hours that records are kept where neither ms nor minutes are set."),
        Setting(
            "log.roll.hours",
            Kind.INT,
            "Hours after which a new segment begins, where log.roll.ms is not set.",
            at_least(1),
        ),
        Setting(
            "log.roll.jitter.hours", Kind.INT, "The same in hours, where log.roll.jitter.ms is not set.", at_least(0)
        ),
        *(
            Setting(
                f"group.{family}.{bound}.{rest}",
                Kind.INT,
                f"{word} value of {family}.{rest} that a group may be given.",
                at_least(0),
            )
            for family, names in _BOUNDED.items()
            for rest in names
            for bound, word in (("min", "Least"), ("max", "Greatest"))
        ),
    )
}

FALLBACKS: Final[dict[str, tuple[str, ...]]] = {
    "log.retention.ms": ("log.retention.minutes", "log.retention.hours"),
    "log.roll.ms": ("log.roll.hours",),
    "log.roll.jitter.ms": ("log.roll.jitter.hours",),
    "log.flush.interval.ms": ("log.flush.scheduler.interval.ms",),
}
"""Which settings stand in, in this order, for one that is not set."""

REFUSED: Final[dict[str, str]] = {
    "alter.config.policy.class.name": "this release loads no policies; every setting could be changed",
    "client.quota.callback.class": "foreign classes are not loaded; quotas are those that `kafka-configs` sets",
    "cordoned.log.dirs": "this release places replicas in every log directory",
    "create.topic.policy.class.name": "this release loads no policies; every topic could be created",
    "security.providers": "TLS is OpenSSL's; there are no providers of Java's",
    "remote.log.storage.system.enable": "this release keeps all segments on local disks",
    "transaction.two.phase.commit.enable": "this release has no two-phase commit (KIP-939): a prepared transaction would time out",
    **TLS_REFUSED,
    **SASL_REFUSED,
}
"""Settings that would promise something that this release does not keep, unless they are empty or false."""
