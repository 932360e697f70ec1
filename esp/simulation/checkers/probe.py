"""The checkers' view into a node: the one module that knows how its objects hang together."""

from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any, NamedTuple

from esp.broker.broker_role import RunningBroker
from esp.broker.coordination.driver import CoordinatorDriver
from esp.broker.raft.driver import RaftDriver
from esp.broker.raft.loader import MetadataLoader
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.running_node import RunningNode
from esp.controller.image import EMPTY_IMAGE, ClusterImage
from esp.controller.self_repair import Proposal
from esp.groups.consumer.directory import ConsumerGroups
from esp.groups.directory import GroupDirectory
from esp.groups.share.directory import ShareGroups
from esp.model.ids import NO_BROKER_EPOCH, TopicPartition
from esp.schemas.share_state_records import ShareStateKey
from esp.simulation.checkers.share_state_log import KeptState
from esp.simulation.checkers.throttle_checker import Rates
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.storage.log import Log


def _running(node: SimulatedNode) -> RunningNode | None:
    return node.broker.running if node.broker is not None else None


def _broker(node: SimulatedNode) -> RunningBroker | None:
    role = node.broker.broker if node.broker is not None else None
    return role.running if role is not None else None


def hosted_partitions(node: SimulatedNode) -> list[HostedPartition]:
    """All replicas that the node has open, in the order in which it got them."""
    broker = _broker(node)
    if broker is None:
        return []
    return [*chain.from_iterable([partitions.values() for partitions in broker.replicas.by_topic.values()])]


def online_directories(node: SimulatedNode) -> list[str]:
    """The paths of the log directories in which the node has its replicas, without those that have failed."""
    broker = _broker(node)
    return [] if broker is None else [directory.path for directory in broker.replicas._directories.online]  # noqa: SLF001 - the module's purpose


def group_generation(node: SimulatedNode, partition: int, leader_epoch: int, group_id: str) -> int | None:
    """The generation of a group at the node, if it coordinates a partition of ``__consumer_offsets`` in this epoch; None if it does not."""
    broker = _broker(node)
    driver = broker.groups.coordinator_at(partition) if broker is not None else None
    if driver is None or driver.has_ended or driver._leader.leader_epoch != leader_epoch:  # noqa: SLF001 - the module's purpose
        return None
    group = driver._core._state.directory.find(group_id)  # noqa: SLF001
    return None if group is None else group.generation_id


class GroupsAtRest(NamedTuple):
    """The groups of a coordinator of which nothing is on its way into the log."""

    groups: ConsumerGroups
    shares: ShareGroups
    classic: GroupDirectory
    """The groups of the classic protocol, and of nothing but offsets."""
    end_offset: int
    """The end offset of the coordinator's log."""


class ShareStatesAtRest(NamedTuple):
    """The states of a share coordinator of which nothing is on its way into the log."""

    states: dict[ShareStateKey, KeptState]
    end_offset: int
    """The end offset of the coordinator's log."""


def groups_at_rest(node: SimulatedNode, partition: int, leader_epoch: int) -> GroupsAtRest | None:
    """The groups at the node, if it coordinates a partition of ``__consumer_offsets`` in this epoch, serves, and is at rest."""
    broker = _broker(node)
    driver = broker.groups.coordinator_at(partition) if broker is not None else None
    if driver is None or not _is_at_rest(driver, leader_epoch):
        return None
    state = driver._core._state  # noqa: SLF001 - the module's purpose
    return GroupsAtRest(state.consumers, state.shares, state.directory, driver.hosted.log.log_end_offset)


def share_states_at_rest(node: SimulatedNode, partition: int, leader_epoch: int) -> ShareStatesAtRest | None:
    """The states at the node, if it coordinates a partition of ``__share_group_state`` in this epoch, serves, and is at rest."""
    broker = _broker(node)
    driver = broker.share_states.coordinator_at(partition) if broker is not None else None
    if driver is None or not _is_at_rest(driver, leader_epoch):
        return None
    states = {
        key: KeptState(entry.state, entry.snapshot, entry.snapshot_offset, entry.update_count)
        for key, entry in driver._core._entries.items()  # noqa: SLF001 - the module's purpose
        if entry.state is not None and entry.snapshot is not None
    }
    return ShareStatesAtRest(states, driver.hosted.log.log_end_offset)


def _is_at_rest(driver: CoordinatorDriver[Any], leader_epoch: int) -> bool:
    """True if a coordinator serves in this epoch, and its log is committed to its end."""
    if driver.has_ended or driver.leader.leader_epoch != leader_epoch:
        return False
    log = driver.hosted.log
    return driver._is_loaded and not driver._appended and log.high_watermark >= log.log_end_offset  # noqa: SLF001 - the module's purpose


def held_partitions(node: SimulatedNode) -> list[TopicPartition]:
    """The partitions that the node leads of which records are past the limits, and kept by a hold alone."""
    broker = _broker(node)
    return [] if broker is None else [hosted.name for hosted in broker.holds.held_bytes]


def find_forgotten_holds(node: SimulatedNode, deleted: Collection[str], now_ms: int) -> list[str]:
    """The replicas that the node leads of which only deleted groups, which it has seen in the epoch, hold what is past the limits."""
    broker = _broker(node)
    found: list[str] = []
    for hosted, known in () if broker is None else broker.holds._logs.items():  # noqa: SLF001 - the module's purpose
        leader, names = hosted.leader, frozenset(hosted.log.settings.retention_hold_groups)
        if leader is None or leader.leader_epoch != known.leader_epoch or not names:
            continue
        is_free = names <= frozenset(deleted) and names <= known._have_committed  # noqa: SLF001
        if is_free and hosted.log.find_old_segments(now_ms, None).deletable:
            found.append(f"{hosted.name} at {node.name}")
    return found


def directory_moves(nodes: Iterable[SimulatedNode]) -> list[str]:
    """The replicas that are on their way between the log directories of their nodes."""
    found: list[str] = []
    for node in nodes:
        broker = _broker(node)
        if broker is not None and (count := len(broker.replicas.moves)):
            found.append(f"{node.name} moves {count} replicas between its directories")
    return found


def image(node: SimulatedNode) -> ClusterImage:
    """The committed metadata as the node knows it."""
    running = _running(node)
    return running.metadata.image if running is not None else EMPTY_IMAGE


def metadata_of(node: SimulatedNode) -> MetadataLoader | None:
    """The loader that publishes the node's committed metadata, or None while the node has not come that far."""
    running = _running(node)
    return running.metadata if running is not None else None


def followed_image(node: SimulatedNode) -> ClusterImage:
    """The metadata that the node's replicas follow, or are being made to follow: newer ones may wait for that."""
    broker = _broker(node)
    return broker.replicas.image if broker is not None else EMPTY_IMAGE


def told_image(node: SimulatedNode) -> ClusterImage:
    """The metadata by which the node answers clients."""
    broker = _broker(node)
    return broker._cache.image if broker is not None else EMPTY_IMAGE  # noqa: SLF001 - the module's purpose


def proposed_repair(node: SimulatedNode) -> Proposal | None:
    """The change that the node, as the active controller, means to make by itself; None if it is not, or means to make none."""
    role = node.broker.controller if node.broker is not None else None
    running = role.running if role is not None else None
    return running.driver.proposed_repair if running is not None else None


def sessions_due_s(node: SimulatedNode) -> float | None:
    """The simulated time at which the timer of the brokers' sessions is due, if the node is the active controller and has set one."""
    role = node.broker.controller if node.broker is not None else None
    running = role.running if role is not None else None
    due_us = running.driver.sessions_due_us if running is not None else None
    return None if due_us is None else due_us / 1_000_000 / node.clock.rate


def throttle_rates(node: SimulatedNode) -> Rates | None:
    """The replication throttles that stand in the node's settings, or None while it has no replicas."""
    broker = _broker(node)
    if broker is None:
        return None
    settings = broker.replicas.settings.current
    window_s = settings.replication_quota_window_num * settings.replication_quota_window_size_seconds
    return Rates(
        settings.leader_replication_throttled_rate,
        settings.follower_replication_throttled_rate,
        settings.rebalance_bytes_per_second_max,
        window_s * 1_000_000,
    )


def broker_epoch(node: SimulatedNode) -> int:
    """Under which epoch the node's broker is registered, in its present life and as far as it knows; -1 if it is not."""
    broker = _broker(node)
    return broker.lifecycle.epoch if broker is not None else NO_BROKER_EPOCH


def raft(node: SimulatedNode) -> RaftDriver | None:
    """The node's member of the metadata quorum, or None while it has not come that far."""
    running = _running(node)
    return running.raft if running is not None else None


def is_between_steps(node: SimulatedNode) -> bool:
    """True if the node's member of the quorum has done on its disk what its core has decided."""
    driver = raft(node)
    return driver is not None and not driver.is_stepping


def metadata_log(node: SimulatedNode) -> Log | None:
    """The log of the node's member of the quorum, or None while it has not come that far."""
    driver = raft(node)
    return driver.log if driver is not None else None


def active_controller(nodes: Iterable[SimulatedNode]) -> SimulatedNode | None:
    """The living node that leads the metadata quorum in the highest epoch, if any does."""
    leading = [node for node in nodes if node.is_alive and leads_quorum(node)]
    return max(leading, key=quorum_epoch, default=None)


def leads_quorum(node: SimulatedNode) -> bool:
    """True if the node takes itself for the leader of the metadata quorum."""
    driver = raft(node)
    return driver is not None and driver.is_leader


def quorum_epoch(node: SimulatedNode) -> int:
    """The highest epoch that the node knows."""
    driver = raft(node)
    return driver.epoch if driver is not None else 0
