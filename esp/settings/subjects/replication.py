"""A node's settings for brokers and their replicas: sessions, elections, followers, self-repair."""

from dataclasses import dataclass
from typing import Final

from esp.settings.rebalance import REBALANCE_MODES
from esp.settings.setting import Kind, SettingError, Value, at_least, one_of, setting

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The value of ``replica.selector.class`` that lets consumers fetch from the nearest replica (KIP-392)."""


def _replica_selector(value: Value) -> None:
    if value not in ("", RACK_AWARE_SELECTOR, RACK_AWARE_SELECTOR.rpartition(".")[2]):
        raise SettingError(f"This release selects by rack only; give {RACK_AWARE_SELECTOR}")


@dataclass(frozen=True, init=False, repr=False, eq=False)
class ReplicationSettings:
    """Fields of :class:`~esp.settings.broker.BrokerSettings`."""

    __slots__ = ()

    broker_heartbeat_interval_ms: int = setting(
        2_000, Kind.INT, "Milliseconds between two heartbeats to the controller."
    )
    broker_session_timeout_ms: int = setting(
        9_000, Kind.INT, "Milliseconds without a heartbeat after which a broker is fenced."
    )
    initial_broker_registration_timeout_ms: int = setting(
        60_000, Kind.INT, "Milliseconds that a starting broker tries to register before it gives up."
    )
    controlled_shutdown_enable: bool = setting(
        True, Kind.BOOLEAN, "Whether a clean shutdown hands over leadership before it ends."
    )
    unclean_leader_election_enable: bool = setting(
        False,
        Kind.BOOLEAN,
        "Whether a replica that may lack committed records can become leader when no other is left.",
    )
    auto_leader_rebalance_enable: bool = setting(
        True, Kind.BOOLEAN, "Whether the controller returns leadership to preferred replicas automatically."
    )
    leader_imbalance_check_interval_seconds: int = setting(
        300,
        Kind.LONG,
        "Seconds between two checks for partitions that their preferred replica does not lead.",
        at_least(1),
    )
    rebalance_mode: str = setting(
        "propose",
        Kind.STRING,
        "Self-repair by the active controller for brokers that are gone, draining or new: off, propose (it logs a proposal), apply (it "
        "moves partitions). The default of all brokers can be changed at run time; not Kafka's.",
        one_of(*REBALANCE_MODES),
    )
    rebalance_broker_dead_after_ms: int = setting(
        900_000,
        Kind.LONG,
        "Milliseconds after which a broker that is down counts as gone, and self-repair copies its replicas to others; not Kafka's.",
        at_least(1),
    )
    """Copying all that a broker held costs more than to wait until a machine has booted."""
    rebalance_partitions_in_flight_max: int = setting(
        20,
        Kind.INT,
        "Partitions in reassignment, of any origin, up to which self-repair begins another move; not Kafka's.",
        at_least(1),
    )
    rebalance_bytes_per_second_max: int = setting(
        20_971_520,
        Kind.LONG,
        "Bytes per second that a node sends, and as many that it fetches, for all copies of self-repair together; 0: none. "
        "Not Kafka's.",
        at_least(0),
    )
    """As the budget of ``esp rebalance``: next to it, producers notice little."""
    replica_lag_time_max_ms: int = setting(
        30_000, Kind.LONG, "Milliseconds that a follower may be behind before it leaves the in-sync replicas."
    )
    replica_fetch_wait_max_ms: int = setting(500, Kind.INT, "Milliseconds that a follower's fetch waits for records.")
    replica_fetch_min_bytes: int = setting(1, Kind.INT, "Bytes that a follower's fetch waits for.")
    replica_fetch_max_bytes: int = setting(
        1_048_576, Kind.INT, "Bytes of one partition that a follower's fetch asks for.", at_least(0)
    )
    replica_fetch_response_max_bytes: int = setting(
        10_485_760, Kind.INT, "Bytes of all partitions that a follower's fetch asks for.", at_least(0)
    )
    replica_fetch_backoff_ms: int = setting(
        1_000,
        Kind.INT,
        "Milliseconds that a follower waits after an error before it fetches the partition again.",
        at_least(0),
    )
    replica_socket_timeout_ms: int = setting(
        30_000, Kind.INT, "Milliseconds that a follower waits for an answer of its leader."
    )
    replica_selector_class: str | None = setting(
        None,
        Kind.STRING,
        f"Lets consumers fetch from a replica of their own rack: {RACK_AWARE_SELECTOR}.",
        _replica_selector,
    )
