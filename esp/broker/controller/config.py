"""The facts of its node that a controller must know."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from esp.controller.bootstrap import FIRST_METADATA, FirstMetadata
from esp.controller.config_rules import ConfigRules
from esp.controller.decision import BATCH_RECORDS_MAX, SLICE_CHANGES_MAX
from esp.controller.image import FeatureRange
from esp.controller.self_repair import Mode, SelfRepairSettings
from esp.controller.topics import TopicDefaults
from esp.model.delegation_terms import DelegationTerms
from esp.model.ids import OFFSETS_TOPIC, SHARE_STATES_TOPIC, TRANSACTIONS_TOPIC, NodeId
from esp.settings.broker import BrokerSettings
from esp.settings.topic_overrides import validate_topic_overrides


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """The settings of a controller."""

    cluster_id: str
    node_id: NodeId
    defaults: TopicDefaults
    min_insync_replicas: int
    """The node's own value; the first controller of a cluster makes it the default of all (ELR-3)."""
    validate_topic_configs: Callable[[Mapping[str, str]], None]
    """Raises ApiError if a topic may not have these settings."""
    config_rules: ConfigRules
    """The settings that resources may have."""
    session_timeout_ms: int
    """``broker.session.timeout.ms``."""
    max_idle_interval_ms: int
    """``metadata.max.idle.interval.ms``; 0 for never."""
    auto_leader_rebalance: bool
    """``auto.leader.rebalance.enable``."""
    imbalance_check_interval_s: int
    """``leader.imbalance.check.interval.seconds``."""
    internal_replication: Mapping[str, int]
    """Replicas that internal topics should have where there are as many brokers, by name (``offsets.topic.replication.factor``)."""
    self_repair: SelfRepairSettings
    """``rebalance.*``."""
    features: Mapping[str, FeatureRange]
    """The levels of features that the controller can work at."""
    first: FirstMetadata
    """The features and users that a new cluster begins with, as its directory was formatted."""
    tokens: DelegationTerms
    """``delegation.token.*``."""
    unclean_election_interval_ms: int = 300_000
    """``unclean.leader.election.interval.ms``."""
    batch_records_max: int = BATCH_RECORDS_MAX
    """The most records of one batch of the metadata log."""
    slice_changes_max: int = SLICE_CHANGES_MAX
    """The most partitions that one slice of a decision changes."""


def controller_config(
    settings: BrokerSettings,
    cluster_id: str,
    features: Mapping[str, FeatureRange],
    first: FirstMetadata = FIRST_METADATA,
    batch_records_max: int = BATCH_RECORDS_MAX,
    slice_changes_max: int = SLICE_CHANGES_MAX,
) -> ControllerConfig:
    """The controller's share of the node's settings.

    Args:
        settings: the node's.
        cluster_id: of its cluster.
        features: the levels of features that its release can work at.
        first: the features and users that a new cluster begins with.
        batch_records_max: the most records of one batch of the metadata log.
        slice_changes_max: the most partitions that one slice of a decision changes.
    """
    return ControllerConfig(
        cluster_id=cluster_id,
        node_id=settings.node_id,
        defaults=TopicDefaults(settings.num_partitions, settings.default_replication_factor),
        min_insync_replicas=settings.min_insync_replicas,
        validate_topic_configs=validate_topic_overrides,
        config_rules=ConfigRules(settings),
        internal_replication={
            OFFSETS_TOPIC: settings.offsets_topic_replication_factor,
            TRANSACTIONS_TOPIC: settings.transaction_state_log_replication_factor,
            SHARE_STATES_TOPIC: settings.share_coordinator_state_topic_replication_factor,
        },
        session_timeout_ms=settings.broker_session_timeout_ms,
        max_idle_interval_ms=settings.metadata_max_idle_interval_ms,
        auto_leader_rebalance=settings.auto_leader_rebalance_enable,
        imbalance_check_interval_s=settings.leader_imbalance_check_interval_seconds,
        self_repair=SelfRepairSettings(
            Mode(settings.rebalance_mode),
            settings.rebalance_broker_dead_after_ms * 1000,
            settings.rebalance_partitions_in_flight_max,
        ),
        features=features,
        first=first,
        tokens=settings.delegation_terms,
        batch_records_max=batch_records_max,
        slice_changes_max=slice_changes_max,
    )
