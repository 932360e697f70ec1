"""The settings of a topic, by their names: all 33 of Kafka 4.3, so that Kafka's tools find the settings that they expect, and ours.

The settings with an effect are declared as fields of :class:`~esp.settings.topic.TopicSettings`; here stand those without one, which are
checked and kept.
"""

from typing import Final

from esp.settings.known import WITHOUT_EFFECT
from esp.settings.setting import Check, Kind, Setting, at_least, declared_settings
from esp.settings.topic import TopicSettings

EFFECTIVE_TOPIC_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting for setting in declared_settings(TopicSettings)
}


OWN_TOPIC_SETTINGS: Final = frozenset(
    (
        "errors.deadletterqueue.group.enable",
        "retention.hold.groups",
        "retention.hold.max.bytes",
        "retention.hold.max.ms",
        "topic.recreate.offsets",
        "topic.trash.retention.ms",
    )
)
"""The settings that topics of Kafka 4.3 do not have."""


def _known(name: str, kind: Kind, broker_name: str | None = None, check: Check | None = None) -> Setting:
    return Setting(name, kind, WITHOUT_EFFECT, check, broker_name=broker_name)


TOPIC_SETTINGS: Final[dict[str, Setting]] = EFFECTIVE_TOPIC_SETTINGS | {
    setting.name: setting
    for setting in (
        _known("local.retention.bytes", Kind.LONG, "log.local.retention.bytes", at_least(-2)),
        _known("local.retention.ms", Kind.LONG, "log.local.retention.ms", at_least(-2)),
        _known("preallocate", Kind.BOOLEAN, "log.preallocate"),
        _known("remote.log.copy.disable", Kind.BOOLEAN),
        _known("remote.log.delete.on.disable", Kind.BOOLEAN),
        _known("remote.storage.enable", Kind.BOOLEAN),
    )
}
