"""The settings in effect here, of the broker and of topics: those of its file, and over them what the metadata log gives (KIP-226)."""

import logging
from dataclasses import replace
from typing import Final, NamedTuple

from esp.controller.image import CLUSTER_DEFAULT, ClusterImage, TopicImage
from esp.model.ids import INTERNAL_TOPICS, NodeId, TopicId
from esp.model.offset_floor import CONTINUE, RESET
from esp.settings.broker import BrokerSettings
from esp.settings.dynamic import with_changes
from esp.settings.topic import TopicSettings
from esp.settings.topic_overrides import find_stored_problems, resolve_topic_settings

log = logging.getLogger(__name__)

_RESOLVED_MAX: Final = 1_000
"""Different settings of topics that are kept resolved."""


class _Resolved(NamedTuple):
    """The settings of topics that have the same ones, and what is wrong with these as they stand in the metadata log."""

    settings: TopicSettings
    problems: list[str]


class LiveSettings:
    """Settings that follow the metadata.

    Args:
        node_id: of this node.
        given: what its file and command line gave it.
    """

    def __init__(self, node_id: NodeId, given: BrokerSettings) -> None:
        self.current = given
        """The broker's settings as they count now."""
        self._given = given
        self._name = str(node_id)
        self._told_problems: dict[TopicId, list[str]] = {}
        self._resolved: dict[tuple[object, ...], _Resolved] = {}
        """By the topics' own settings, and what the metadata says besides: very many topics have the same."""

    def update(self, image: ClusterImage) -> None:
        """Take over what ``image`` gives all brokers and this one."""
        self._resolved.clear()
        configs = image.broker_configs
        self.current = with_changes(self._given, configs.get(CLUSTER_DEFAULT, {}), configs.get(self._name, {}))

    def of_topic(self, image: ClusterImage, topic: TopicImage) -> TopicSettings:
        """A topic's settings as they count now; errors in them are logged once."""
        settings, problems = self._resolve(image, topic)
        if topic.name not in INTERNAL_TOPICS and problems and problems != self._told_problems.get(topic.topic_id):
            self._told_problems[topic.topic_id] = problems  # once, and not for each partition
            log.warning("the settings of topic %s in the metadata log: %s", topic.name, "; ".join(problems))
        return settings

    def _resolve(self, image: ClusterImage, topic: TopicImage) -> _Resolved:
        # Leaders and controller agree on these because both take them from the metadata (ELR-3, FLOOR-4).
        min_insync_replicas = image.min_insync_replicas(topic)
        recreate_offsets = CONTINUE if image.continues_offsets(topic.name, topic.configs) else RESET
        key = min_insync_replicas, recreate_offsets, *topic.configs.items()
        resolved = self._resolved.get(key)
        if resolved is None:
            if len(self._resolved) >= _RESOLVED_MAX:
                self._resolved.clear()
            settings = replace(
                resolve_topic_settings(topic.configs, self.current),
                min_insync_replicas=min_insync_replicas,
                topic_recreate_offsets=recreate_offsets,
            )
            resolved = self._resolved[key] = _Resolved(settings, find_stored_problems(topic.configs))
        return resolved

    def forget(self, topic_id: TopicId) -> None:
        """A topic is gone."""
        self._told_problems.pop(topic_id, None)
