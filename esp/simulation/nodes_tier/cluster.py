"""The settings of a simulated cluster's nodes, and the format of their disks."""

import dataclasses
import uuid
from collections.abc import Iterable
from random import Random
from types import MappingProxyType
from typing import Final

from esp.broker.formatting import FirstVoters, format_new_directories_blocking
from esp.broker.node_directories import controller_endpoints, open_all_blocking
from esp.controller.bootstrap import FIRST_METADATA, FirstMetadata
from esp.controller.self_repair import Mode
from esp.model.ids import DirectoryId, NodeId, uuid_to_base64
from esp.model.sasl import SaslMechanism, SaslPolicy
from esp.ports.env import Env
from esp.ports.network import Address
from esp.raft.voters import Voter, VoterKey, VoterSet
from esp.settings.addresses import DEFAULT_CONTROLLER_LISTENER, DEFAULT_LISTENER, Listener, QuorumServer, QuorumVoter
from esp.settings.broker import BROKER, CONTROLLER, BrokerSettings
from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.settings.subjects.replication import RACK_AWARE_SELECTOR
from esp.simulation.nodes_tier.compaction_profile import CompactionProfile
from esp.simulation.nodes_tier.group_profile import GroupsProfile
from esp.simulation.nodes_tier.isr_profile import IsrProfile
from esp.simulation.nodes_tier.layout import Layout
from esp.simulation.nodes_tier.log_start_profile import LogStartProfile
from esp.simulation.nodes_tier.repair_profile import RepairProfile
from esp.simulation.nodes_tier.transaction_profile import TransactionProfile
from esp.simulation.workload.token_users import OWNERS, STRANGER, password_of

CLIENT_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
USERS_PORT: Final = 9091
"""The port of the listener at which users log in, in runs with users or delegation tokens."""
USERS_LISTENER: Final = "USERS"
BY_SCRAM: Final = (SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)
MAX_REAUTH_MS: Final = 5_000
"""The time for which a log-in by SCRAM counts in runs without delegation tokens; log-ins by tokens end with these."""
SECRETS: Final = ("one secret", "another secret")
DATA: Final = "/data"
MORE: Final = "/more"
"""A second log directory, of some nodes: without the metadata log."""

SCRUB_INTERVAL_MS: Final = 5_000
"""Far shorter than any operator's, so that rot of sealed segments is found within a run."""

GROUP_MIN_SESSION_TIMEOUT_MS: Final = 500
GROUP_INITIAL_REBALANCE_DELAY_MS: Final = 300
"""Shorter than any operator's, so that groups rebalance often in a run."""

LEADER_IMBALANCE_CHECK_INTERVAL_S: Final = 1
"""The interval in clusters that give partitions back to their preferred leaders as soon as these are in sync."""

PRODUCER_CHECK_INTERVAL_MS: Final = 1_000
"""Shorter than any operator's: the default is longer than a run."""

CLIENT_HOST: Final = "10.0.1.1"
"""The address of all clients."""


def node_host(node_id: int) -> str:
    """The address of a node's machine."""
    return f"10.0.0.{node_id}"


def node_rack(node_id: int) -> str:
    """The rack in which a node's machine stands."""
    return f"rack-{node_id}"


def node_settings(
    node_id: int,
    layout: Layout,
    *,
    snapshots_metadata: bool = False,
    groups: GroupsProfile | None = None,
    repairs: RepairProfile | None = None,
    balances_leaders: bool = False,
    reads_from_followers: bool = False,
    log_starts: LogStartProfile | None = None,
    has_more: bool = False,
    compaction: CompactionProfile | None = None,
    checks_producers: bool = False,
    directory_moves_rate: int | None = None,
) -> BrokerSettings:
    """The settings of one of the nodes of a layout.

    With ``snapshots_metadata`` the metadata log is snapshotted, rolled and cut every few records; with ``reads_from_followers`` consumers
    are sent to the replica in their rack; with ``has_more`` there are two log directories.
    """
    host = node_host(node_id)
    is_broker, is_controller = node_id in layout.brokers, node_id in layout.controllers
    clients = (Listener(DEFAULT_LISTENER, host, CLIENT_PORT),) if is_broker else ()
    controllers = (Listener(DEFAULT_CONTROLLER_LISTENER, host, CONTROLLER_PORT),) if is_controller else ()
    settings = BrokerSettings(
        node_id=NodeId(node_id),
        process_roles=(BROKER,) * is_broker + (CONTROLLER,) * is_controller,
        listeners=clients + controllers,
        advertised_listeners=clients,
        advertised_controller_listeners=controllers,
        inter_broker_listener_name=DEFAULT_LISTENER if is_broker else None,
        controller_quorum_voters=_static_voters(layout),
        controller_quorum_bootstrap_servers=_bootstrap_servers(layout),
        broker_rack=node_rack(node_id),
        replica_selector_class=RACK_AWARE_SELECTOR if reads_from_followers else None,
        log_dirs=(DATA, MORE) if has_more and is_broker else (DATA,),
        metadata_log_dir=DATA,
        auto_create_topics_enable=False,
        log_scrub_interval_ms=SCRUB_INTERVAL_MS,
    )
    if groups is not None and groups.groups:
        settings = _with_groups(settings, groups)
    if balances_leaders:
        settings = dataclasses.replace(
            settings, leader_imbalance_check_interval_seconds=LEADER_IMBALANCE_CHECK_INTERVAL_S
        )
    if repairs is not None:
        settings = _with_repairs(settings, repairs)
    if log_starts is not None:
        settings = log_starts.applied_to(settings)
    if compaction is not None:
        settings = compaction.applied_to(settings)
    if checks_producers:
        settings = dataclasses.replace(settings, producer_id_expiration_check_interval_ms=PRODUCER_CHECK_INTERVAL_MS)
    if directory_moves_rate is not None:
        settings = dataclasses.replace(settings, replica_alter_log_dirs_io_max_bytes_per_second=directory_moves_rate)
    if not snapshots_metadata:
        return settings
    return dataclasses.replace(
        settings,
        metadata_log_max_record_bytes_between_snapshots=2_000,
        metadata_log_segment_bytes=3_000,
        metadata_max_retention_bytes=4_000,
    )


def without_running_markers(settings: BrokerSettings) -> BrokerSettings:
    """The same where the end of a process counts as an unclean stop."""
    return dataclasses.replace(settings, running_marker_enable=False)


def with_authorizer(settings: BrokerSettings) -> BrokerSettings:
    """The same with an authorizer, which leaves everything open about which there is no rule."""
    return dataclasses.replace(settings, authorizer_class_name=STANDARD_AUTHORIZER, allow_everyone_if_no_acl_found=True)


def with_tokens(settings: BrokerSettings, rng: Random) -> BrokerSettings:
    """The same with delegation tokens that live for seconds.

    The secrets of nodes are just being replaced: half of the nodes make tokens by one and half by the other, and all take both.
    """
    key, accepted_key = SECRETS if rng.random() < 0.5 else reversed(SECRETS)
    return dataclasses.replace(
        settings,
        delegation_token_secret_key=key,
        delegation_token_accepted_secret_key=accepted_key,
        delegation_token_max_lifetime_ms=20_000,
        delegation_token_expiry_time_ms=8_000,
        delegation_token_expiry_check_interval_ms=1_000,
    )


def with_log_ins(settings: BrokerSettings, *, max_reauth_ms: int) -> BrokerSettings:
    """The same with a listener at which users log in, if the node is a broker.

    Args:
        settings: of the node.
        max_reauth_ms: the time for which a log-in by SCRAM counts; 0: no limit.
    """
    if not settings.is_broker:
        return settings
    listener = Listener(USERS_LISTENER, node_host(settings.node_id), USERS_PORT)
    policy = SaslPolicy(
        listener=USERS_LISTENER,
        mechanisms=(SaslMechanism.PLAIN, *BY_SCRAM),
        plain_users=MappingProxyType({user: password_of(user) for user in (*OWNERS, STRANGER)}),
        max_reauth_ms=MappingProxyType(dict.fromkeys(BY_SCRAM, max_reauth_ms) if max_reauth_ms else {}),
        failure_delay_ms=0,
    )
    return dataclasses.replace(
        settings,
        listeners=(*settings.listeners, listener),
        advertised_listeners=(*settings.advertised_listeners, listener),
        security_protocols=MappingProxyType({**settings.security_protocols, USERS_LISTENER: "SASL_PLAINTEXT"}),
        sasl=MappingProxyType({USERS_LISTENER: policy}),
    )


def _with_groups(settings: BrokerSettings, groups: GroupsProfile) -> BrokerSettings:
    """The same for a run whose consumers are in groups."""
    if groups.expiry is not None:
        settings = groups.expiry.applied_to(settings, [group.name for group in groups.groups])
    return dataclasses.replace(
        settings,
        min_insync_replicas=groups.min_insync_replicas,
        offsets_topic_num_partitions=groups.offsets_partitions,
        group_min_session_timeout_ms=GROUP_MIN_SESSION_TIMEOUT_MS,
        group_initial_rebalance_delay_ms=GROUP_INITIAL_REBALANCE_DELAY_MS,
    )


def _with_repairs(settings: BrokerSettings, repairs: RepairProfile) -> BrokerSettings:
    """The same for a run whose cluster repairs itself."""
    per_s = repairs.bytes_per_s if repairs.held_back_bytes_per_s is None else repairs.held_back_bytes_per_s
    return dataclasses.replace(
        settings,
        rebalance_mode=Mode.APPLY.value,
        rebalance_broker_dead_after_ms=repairs.dead_after_ms,
        rebalance_partitions_in_flight_max=repairs.in_flight_max,
        rebalance_bytes_per_second_max=per_s,
    )


def with_isr(settings: BrokerSettings, isr: IsrProfile) -> BrokerSettings:
    """The same with what a run says of in-sync sets."""
    if isr.lag_time_max_ms is not None:
        settings = dataclasses.replace(settings, replica_lag_time_max_ms=isr.lag_time_max_ms)
    if isr.default_minimum is not None:
        settings = dataclasses.replace(settings, min_insync_replicas=isr.default_minimum)
    return settings


def with_transactions(settings: BrokerSettings, transactions: TransactionProfile | None) -> BrokerSettings:
    """The same for a run with transactional producers."""
    return settings if transactions is None else transactions.applied_to(settings)


def _static_voters(layout: Layout) -> tuple[QuorumVoter, ...]:
    if not layout.has_static_voters:
        return ()
    return tuple(QuorumVoter(NodeId(number), node_host(number), CONTROLLER_PORT) for number in layout.first_voters)


def _bootstrap_servers(layout: Layout) -> tuple[QuorumServer, ...]:
    if layout.has_static_voters or len(layout.nodes) == 1:
        return ()
    return tuple(QuorumServer(node_host(number), CONTROLLER_PORT) for number in layout.controllers)


def draw_voters(rng: Random, layout: Layout) -> VoterSet | None:
    """The first voters with directory ids of their own; None where they stand in the settings."""
    if layout.has_static_voters:
        return None
    return VoterSet(
        tuple(
            Voter(
                VoterKey(NodeId(number), DirectoryId(_draw_uuid(rng))),
                controller_endpoints(node_settings(number, layout), node_host(number)),
            )
            for number in layout.first_voters
        )
    )


def draw_cluster_id(rng: Random) -> str:
    """A cluster id."""
    return uuid_to_base64(_draw_uuid(rng))


def format_blocking(
    env: Env, settings: BrokerSettings, voters: FirstVoters, cluster_id: str, first: FirstMetadata = FIRST_METADATA
) -> None:
    """Format a node's empty disk, as ``esp format`` does before the first start. A node that is no voter learns of the voters later."""
    if isinstance(voters, VoterSet) and voters.find_node(settings.node_id) is None:
        voters = None
    opened = open_all_blocking(env, settings)
    format_new_directories_blocking(
        env,
        tuple(opened.values()),
        opened[settings.metadata_log_dir],
        node_id=settings.node_id,
        voters=voters,
        cluster_id=cluster_id,
        first=first,
    )


def bootstrap_addresses(layout: Layout) -> tuple[Address, ...]:
    """The addresses at which clients begin."""
    return addresses_of(layout.brokers)


def addresses_of(brokers: Iterable[int]) -> tuple[Address, ...]:
    """The addresses of brokers, for clients."""
    return tuple(Address(node_host(number), CLIENT_PORT) for number in brokers)


def _draw_uuid(rng: Random) -> uuid.UUID:
    return uuid.UUID(int=rng.getrandbits(128) & ~(1 << 127), version=4)
