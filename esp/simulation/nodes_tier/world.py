"""A simulated cluster: its loop, network, machines and nodes, made from a profile."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any, Final

from esp.broker.limits import REAL_LIMITS, NodeLimits
from esp.controller.bootstrap import FirstMetadata
from esp.model.features import SHARE_VERSION, TRANSACTION_VERSION
from esp.settings.broker import BrokerSettings
from esp.simulation.machine.env import HostNetwork
from esp.simulation.machine.flips import WireFlips
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.machine.network import NetworkProfile, SimulatedNetwork
from esp.simulation.nodes_tier import cluster
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.upgrade_profile import OLDER_RELEASE
from esp.simulation.streams import stream
from esp.simulation.trace import Trace

RESTART_S: Final = 1.0
"""After what time a node that ended itself is started again, as a service manager does."""

STOP_MAX_S: Final = 30.0
"""The time that a clean shutdown may take before the node is killed, as service managers do."""

_WHOLE_SYNCS_SHARE: Final = 0.5
"""The share of the machines whose disks sync a file system as a whole, so that logs are settled together at a clean shutdown."""


class World:
    """The nodes, disks, network and clock of a run. Everything in it is drawn from the profile's seed.

    Args:
        profile: what it is like.
        keep: called with each line of the trace; None if the trace is not read.
    """

    def __init__(self, profile: Profile, keep: Callable[[str], None] | None = None) -> None:
        self.profile = profile
        self.loop = SimulatedLoop()
        self.context = contextvars.copy_context()
        """The context of the world outside: for callbacks that are made while a node's code runs."""
        self.trace = Trace(self.loop.time, keep)
        self.network = SimulatedNetwork(
            self.loop,
            self.random("network"),
            NetworkProfile(latency_us=profile.latency_us),
            self.trace,
        )
        self.network.flips = WireFlips(self.random("flips"))
        self.nodes: dict[int, SimulatedNode] = {}
        self.on_point: Callable[[SimulatedNode, str], None] = lambda _node, _point: None
        """Called at the named points of the nodes' code."""
        self.keeps_down: dict[int, None] = {}
        """Nodes that are not started again."""
        self.away: set[int] = set()
        """Nodes that an outage keeps from the others, and for 20 s after its end those that may be late to return."""
        self.cluster_id = ""
        """Drawn when the disks are formatted."""
        self.on_failed_start: Callable[[SimulatedNode], None] = lambda _node: None
        """Called when a node ended before it served, before it is started again."""
        self._tasks: dict[asyncio.Task[Any], None] = {}
        for number in profile.layout.nodes:
            self.nodes[number] = SimulatedNode(
                self.loop,
                self.random(f"node {number}"),
                self.network,
                _settings(number, profile),
                host=cluster.node_host(number),
                clock_rate=profile.clock_rates[number - 1],
                trace=self.trace,
                maybe=self._reach,
                timing=profile.timing,
                timing_rng=self.random(f"timing of node {number}"),
                limits=_limits(profile),
            )
            if self.random(f"whole syncs of node {number}").random() < _WHOLE_SYNCS_SHARE:
                self.nodes[number].disk.syncs_as_whole = 1

    def _reach(self, node: SimulatedNode, point: str) -> None:
        self.on_point(node, point)

    def random(self, purpose: str) -> Random:
        """A stream of randomness of its own."""
        return stream(purpose, self.profile.seed)

    def client_network(self) -> HostNetwork:
        """The network as clients see it."""
        return HostNetwork(self.network, cluster.CLIENT_HOST)

    @property
    def living(self) -> list[SimulatedNode]:
        """The nodes whose processes run."""
        return [node for node in self.nodes.values() if node.is_alive]

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run something beside everything else; its errors end the run."""
        task = self.loop.create_task(coroutine)
        self._tasks[task] = None
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            raise error

    def lapse(self, seconds: float) -> None:
        """Let the wall clocks of all nodes go ahead by some seconds."""
        for node in self.nodes.values():
            node.clock.lapse_ms += int(seconds * 1000)

    async def boot(self) -> None:
        """Format all disks and start all nodes at once; returns when they serve."""
        rng = self.random("format")
        cluster_id = self.cluster_id = cluster.draw_cluster_id(rng)
        voters = cluster.draw_voters(rng, self.profile.layout)
        levels = {TRANSACTION_VERSION: self.profile.transaction_level}
        if self.profile.share is not None:
            levels[SHARE_VERSION] = self.profile.share.level
        first = FirstMetadata(levels)
        for node in self.nodes.values():
            node.format_disk(lambda env, settings: cluster.format_blocking(env, settings, voters, cluster_id, first))
        if self.profile.upgrade is not None:
            for node in self.nodes.values():
                node.features = OLDER_RELEASE
        starting = [self.spawn(node.start()) for node in self.nodes.values()]
        for task in starting:
            await task

    async def start(self, node: SimulatedNode) -> None:
        """Start a node, as often as it takes, as a service manager does, until it serves or is to stay down."""
        while not node.is_alive and node.node_id not in self.keeps_down:
            if await node.start():
                return
            if not node.is_alive:
                self.on_failed_start(node)
            await asyncio.sleep(RESTART_S)

    async def restart(self, node: SimulatedNode, down_s: float) -> None:
        """Stop a node in order, kill it if that takes too long, and start it after a while."""
        life = node.lives
        stopping = self.spawn(node.stop())
        for _ in range(int(STOP_MAX_S * 10)):
            if stopping.done():
                break
            await asyncio.sleep(0.1)
        if node.lives == life:
            node.kill()
            await asyncio.sleep(min(down_s, 5.0))
            await self.start(node)

    def start_later(self, node: SimulatedNode, delay_s: float) -> None:
        """Start a node after a while."""

        async def start() -> None:
            await asyncio.sleep(delay_s)
            await self.start(node)

        self.spawn(start())


def _limits(profile: Profile) -> NodeLimits:
    """The limits of the nodes of a run."""
    limits = replace(
        REAL_LIMITS, batch_records_max=profile.batch_records_max, slice_changes_max=profile.slice_changes_max
    )
    if profile.share is not None:
        limits = replace(limits, share_patience_us=profile.share.patience_us)
    if profile.consumer_group is not None:
        limits = replace(limits, assigned_at_once_steps=profile.consumer_group.assigned_at_once_steps)
    return limits


def _settings(number: int, profile: Profile) -> BrokerSettings:
    """The settings of a node of a run."""
    settings = cluster.node_settings(
        number,
        profile.layout,
        snapshots_metadata=profile.snapshots_metadata,
        groups=profile.groups,
        repairs=profile.repairs,
        balances_leaders=profile.balances_leaders,
        reads_from_followers=profile.asks_offsets,
        log_starts=profile.log_starts,
        has_more=profile.has_more,
        compaction=profile.compaction,
        checks_producers=profile.checks_producers,
        directory_moves_rate=profile.directory_moves_rate,
    )
    if profile.consumer_group is not None:
        settings = profile.consumer_group.applied_to(settings, has_classic_groups=bool(profile.groups.groups))
    if profile.share is not None:
        has_others = bool(profile.groups.groups) or profile.consumer_group is not None
        settings = profile.share.applied_to(settings, has_other_groups=has_others)
    settings = cluster.with_transactions(cluster.with_isr(settings, profile.isr), profile.transactions)
    if not profile.believes_markers:
        settings = cluster.without_running_markers(settings)
    if profile.has_tokens:
        settings = cluster.with_tokens(settings, stream(f"secret of node {number}", profile.seed))
    if profile.has_tokens or profile.has_users:
        settings = cluster.with_log_ins(settings, max_reauth_ms=0 if profile.has_tokens else cluster.MAX_REAUTH_MS)
    return cluster.with_authorizer(settings) if profile.is_guarded else settings
