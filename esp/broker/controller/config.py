"""What a controller must know of its node."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from esp.controller.config_rules import ConfigRules
from esp.controller.self_repair import SelfRepairSettings
from esp.controller.topics import TopicDefaults
from esp.model.ids import NodeId
from esp.settings.broker import BrokerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """The settings of a controller; defaults are Kafka's."""

    cluster_id: str
    node_id: NodeId
    defaults: TopicDefaults
    min_insync_replicas: int
    """The node's own value; the first controller of a cluster makes it the default of all (ELR-3)."""
    validate_topic_configs: Callable[[Mapping[str, str]], None]
    """Raises ApiError if a topic may not have these settings."""
    config_rules: ConfigRules = field(default_factory=lambda: ConfigRules(BrokerSettings()))
    """What settings resources may have."""
    unclean_leader_election: bool = False
    """``unclean.leader.election.enable``, for topics and clusters without that setting."""
    session_timeout_ms: int = 9_000
    """``broker.session.timeout.ms``."""
    max_idle_interval_ms: int = 500
    """``metadata.max.idle.interval.ms``; 0 for never."""
    auto_leader_rebalance: bool = True
    """``auto.leader.rebalance.enable``."""
    imbalance_check_interval_s: int = 300
    """``leader.imbalance.check.interval.seconds``."""
    internal_replication: Mapping[str, int] = field(default_factory=dict)
    """Replicas that internal topics should have where there are as many brokers, by name (``offsets.topic.replication.factor``)."""
    self_repair: SelfRepairSettings = field(default_factory=SelfRepairSettings)
    """``rebalance.*``."""
    unclean_election_interval_ms: int = 300_000
    """``unclean.leader.election.interval.ms``."""
