"""Brings the faults: draws a plan from a profile before the run, then carries it out.

Each fault undoes itself after its time. What the ledger does not cover is left out, and said so in the trace. The plan depends on the
profile alone, not on what happens: a part of it can be run again by itself.
"""

import asyncio
import errno
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from esp.model.ids import NO_NODE
from esp.simulation.machine.links import LinkCondition, LinkRule
from esp.simulation.nodes_tier.beyond_promise import BeyondPromise
from esp.simulation.nodes_tier.cluster import CLIENT_HOST, node_host
from esp.simulation.nodes_tier.coordinator_faults import CoordinatorFaults
from esp.simulation.nodes_tier.deletion_faults import DeletionFaults
from esp.simulation.nodes_tier.disk_nemesis import DiskNemesis
from esp.simulation.nodes_tier.expiry_profile import draw_lapse_s
from esp.simulation.nodes_tier.faults import Fault, FaultKind
from esp.simulation.nodes_tier.late_timers import LateTimers
from esp.simulation.nodes_tier.ledger import RECKLESS, Ledger
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.ostracism_profile import SECONDS as OSTRACISM_SECONDS
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.relocation import Relocation
from esp.simulation.nodes_tier.repair_profile import ABSENCE_S
from esp.simulation.nodes_tier.share_write_faults import ShareWriteFaults
from esp.simulation.nodes_tier.twins import Twins
from esp.simulation.nodes_tier.voter_twins import VoterTwins
from esp.simulation.nodes_tier.world import World
from esp.simulation.streams import stream

BLOCKED: Final = LinkCondition(is_blocked=True)
ALONE_MAX_S: Final = 5.0
"""The time that a leader may take to be alone in sync when the others are dead."""

RELOCATION_S: Final = 0.5
"""The time for which a voter is down that is to listen elsewhere."""

CLOCK_JUMPS_S: Final = (3000.0, 3000.0, 6 * 3600.0)
"""Most seconds of a jump: within what a record's timestamp may be ahead of its broker, or less than idle producers are remembered."""


def draw_plan(profile: Profile) -> list[Fault]:
    """The faults of a run by time."""
    plan = []
    for kind, mean_s in profile.fault_means_s.items():
        rng = stream(kind.value, profile.seed)
        at_s = rng.expovariate(1 / mean_s)
        while at_s < profile.chaos_s:
            plan.append(_draw_fault(rng, kind, at_s, profile.node_count))
            at_s += rng.expovariate(1 / mean_s)
    return sorted(plan, key=lambda fault: fault.at_s)


def _draw_fault(rng: Random, kind: FaultKind, at_s: float, node_count: int) -> Fault:
    nodes = list(range(1, node_count + 1))
    rng.shuffle(nodes)
    seconds = _log_uniform(rng, 0.05, 30) if kind in _DEATHS else _log_uniform(rng, 0.2, 20)
    amount = 0.0
    if kind in _SECONDS:
        seconds = _SECONDS[kind](rng)
    if kind in _AMOUNTS:
        amount = _AMOUNTS[kind](rng)
    pair = kind in (FaultKind.CUT, FaultKind.CUT_ONE_WAY, FaultKind.FLAP)
    return Fault(at_s, kind, tuple(nodes[: 2 if pair else 1]), seconds, amount)


_DEATHS: Final = (
    FaultKind.KILL,
    FaultKind.KILL_IN_DISK,
    FaultKind.KILL_CONTROLLER,
    FaultKind.RESTART,
    FaultKind.POWER_LOSS,
    FaultKind.NEW_DISK,
)


def _log_uniform(rng: Random, low: float, high: float) -> float:
    return float(low * (high / low) ** rng.random())


def _draw_clock_jump(rng: Random) -> float:
    most_s = rng.choice(CLOCK_JUMPS_S)
    return rng.uniform(-most_s, most_s)


_SECONDS: Final[Mapping[FaultKind, Callable[[Random], float]]] = {
    FaultKind.STRAND: lambda rng: _log_uniform(rng, 5, 30),  # so long that an operator loses patience
    FaultKind.ABSENCE: lambda rng: rng.uniform(*ABSENCE_S),
    FaultKind.TWIN: lambda rng: _log_uniform(rng, 2, 20),  # several attempts to register
    FaultKind.VOTER_TWIN: lambda rng: _log_uniform(rng, 3, 40),
    FaultKind.LATE_TIMER: lambda rng: rng.uniform(32, 45),  # three sessions and more
    FaultKind.OSTRACIZE: lambda rng: _log_uniform(rng, 3, 40),  # so long that it is replaced, and thereafter
    FaultKind.LONG_OSTRACISM: lambda rng: rng.uniform(*OSTRACISM_SECONDS),
}
"""The durations of faults that last longer than most."""

_AMOUNTS: Final[Mapping[FaultKind, Callable[[Random], float]]] = {
    FaultKind.KILL_IN_DISK: lambda rng: float(rng.randint(0, 40)),
    FaultKind.FLAP: lambda rng: _log_uniform(rng, 0.1, 3),
    FaultKind.DELAY: lambda rng: _log_uniform(rng, 0.01, 5),
    FaultKind.LOSS: lambda rng: rng.uniform(0.01, 0.3),
    FaultKind.FLIP: lambda rng: _log_uniform(rng, 0.01, 0.5),
    FaultKind.THROTTLE: lambda rng: _log_uniform(rng, 1_000, 1_000_000),
    FaultKind.SLOW_DISK: lambda rng: _log_uniform(rng, 10, 1000),
    FaultKind.FULL_DISK: lambda rng: float(rng.choice((0, 100, 5_000, 50_000))),
    FaultKind.IO_ERROR: lambda rng: float(rng.choice((1, 1, 3, -1))),
    FaultKind.CLOCK_JUMP: _draw_clock_jump,
    FaultKind.LAPSE: draw_lapse_s,
    FaultKind.TARGETED: Random.random,
    FaultKind.AT_DECISION: Random.random,
    FaultKind.STALE_COORDINATOR: Random.random,
    FaultKind.LONG_OSTRACISM: Random.random,
    FaultKind.BIT_ROT: Random.random,
    FaultKind.OLD_DISK: Random.random,
    FaultKind.LOST_CACHE: Random.random,
    FaultKind.LOST_PART: Random.random,
    FaultKind.LOST_FILES: Random.random,
    FaultKind.LOG_DIR_AWAY: Random.random,
    FaultKind.TWIN: Random.random,
    FaultKind.BLACKOUT: Random.random,
    FaultKind.LOSE_COPIES: Random.random,
}
"""The strength of a fault of a kind: see :class:`~esp.simulation.nodes_tier.faults.FaultKind` for what the number means."""


_AT_DECISIONS: Final = (FaultKind.AT_DECISION, FaultKind.LOST_MARKER_ANSWERS, FaultKind.STALE_COORDINATOR)
"""The faults that wait for the next decision of a transaction."""

_ARMED: Final = frozenset({FaultKind.TARGETED, *_AT_DECISIONS})
"""The faults that wait for something, and are counted as what they become."""


class Nemesis:
    """Carries out a plan.

    Args:
        world: the cluster that it befalls.
        plan: the faults by time, in seconds from now.
        ledger: what is allowed.
        active_controller: the node that leads the metadata quorum, if any.
    """

    def __init__(
        self, world: World, plan: Sequence[Fault], ledger: Ledger, active_controller: Callable[[], SimulatedNode | None]
    ) -> None:
        self.effective = 0
        """Faults that did something."""
        self._world = world
        self._plan = plan
        self._ledger = ledger
        self._active_controller = active_controller
        self._rules: dict[int, None] = {}
        self._armed: list[Fault] = []
        self._ostracized_until_s = 0.0
        """The time until which a leader is ostracized for long."""
        self._is_over = False
        self._disks = DiskNemesis(world, ledger, lambda: self._is_over)
        self.caretaker = self._disks.caretaker
        self._relocation = Relocation(
            world.profile.layout,
            ledger.may_move_member,
            lambda node: world.spawn(world.restart(node, RELOCATION_S)),
        )
        self._late_timers = LateTimers(world, active_controller, lambda: self._is_over)
        self.twins = Twins(world, ledger, lambda: self._is_over)
        self.voter_twins = VoterTwins(world, lambda: self._is_over)
        self._beyond = BeyondPromise(world, ledger, self.caretaker, self._disks.newest_image)
        self.coordinators = self._make_coordinator_faults()
        self.deletions = DeletionFaults(world, self.bring, self._disks.newest_image, lambda: self._is_over)
        self.share_writes = ShareWriteFaults(world, self.bring, self._disks.newest_image, lambda: self._is_over)
        world.on_point = self._on_point
        self._actions = self._make_actions()

    def _make_actions(self) -> dict[FaultKind, Callable[[Fault, SimulatedNode], bool]]:
        """The action that brings a fault of each kind; it returns False where the fault is left out."""
        return {
            FaultKind.KILL: self._kill,
            FaultKind.ABSENCE: self._kill,
            FaultKind.KILL_IN_DISK: self._kill_in_disk,
            FaultKind.KILL_CONTROLLER: self._kill_controller,
            FaultKind.STRAND: self._strand,
            FaultKind.RESTART: self._restart,
            FaultKind.POWER_LOSS: self._power_loss,
            FaultKind.BLACKOUT: lambda fault, _node: self._beyond.black_out(fault),
            FaultKind.LOSE_COPIES: lambda fault, _node: self._beyond.lose_copies(fault),
            FaultKind.PAUSE: self._pause,
            FaultKind.CUT: lambda fault, _node: self._cut(fault),
            FaultKind.CUT_ONE_WAY: lambda fault, _node: self._cut_one_way(fault),
            FaultKind.ISOLATE: self._isolate,
            FaultKind.CUT_CLIENTS: self._cut_clients,
            FaultKind.OSTRACIZE: self._ostracize,
            FaultKind.LONG_OSTRACISM: lambda fault, _node: self._ostracize_leader(fault),
            FaultKind.FLAP: lambda fault, _node: self._flap(fault),
            FaultKind.DELAY: self._delay,
            FaultKind.LOSS: self._loss,
            FaultKind.THROTTLE: self._throttle,
            FaultKind.FLIP: self._flip,
            FaultKind.RESET: self._reset,
            FaultKind.SLOW_DISK: self._slow_disk,
            FaultKind.FULL_DISK: self._full_disk,
            FaultKind.IO_ERROR: self._io_error,
            FaultKind.BIT_ROT: self._disks.rot,
            FaultKind.NEW_DISK: self._disks.replace,
            FaultKind.OLD_DISK: self._disks.old_copies.bring,
            FaultKind.LOST_CACHE: self._disks.lost_caches.bring,
            FaultKind.LOST_PART: lambda fault, _node: self._disks.lost_parts.bring(fault),
            FaultKind.LOST_FILES: self._disks.lost_files.bring,
            FaultKind.LOG_DIR_AWAY: self._disks.away_directories.bring,
            FaultKind.TWIN: self.twins.bring,
            FaultKind.VOTER_TWIN: self.voter_twins.bring,
            FaultKind.RELOCATE: lambda _fault, node: self._relocation.bring(node),
            FaultKind.LATE_TIMER: self._late_timers.bring,
            FaultKind.CLOCK_JUMP: self._clock_jump,
            FaultKind.LAPSE: lambda fault, _node: self._lapse(fault),
            FaultKind.TARGETED: self._arm,
            **dict.fromkeys(_AT_DECISIONS, self.coordinators.arm),
        }

    def _make_coordinator_faults(self) -> CoordinatorFaults:
        image, controller = self._disks.newest_image, self._active_controller
        return CoordinatorFaults(self._world, self.bring, controller, image, lambda: self._is_over)

    async def run(self) -> None:
        """Carry out the plan; returns after the last fault began."""
        start_s = self._world.loop.time()
        for fault in self._plan:
            await asyncio.sleep(max(0.0, start_s + fault.at_s - self._world.loop.time()))
            self.bring(fault)

    def bring(self, fault: Fault) -> None:
        """Let one fault happen now; none once they have ended, as nothing would lift it (``_later``)."""
        if self._is_over:
            return
        node = self._world.nodes[fault.nodes[0]]
        done = self._actions[fault.kind](fault, node)
        self.effective += done and fault.kind not in _ARMED
        self._world.trace.say("nemesis", f"{fault}" if done else f"{fault}: left out")

    def end(self) -> None:
        """Lift everything that lifts itself later, and begin nothing more; a node that is dead stays dead."""
        self._is_over = True
        self._armed.clear()
        self.twins.end()
        self.voter_twins.end()
        self._world.network.links.clear()
        for node in self._world.nodes.values():
            node.calm()
            node.device.slowness = 1.0
            node.clock.wall_shift_ms = 0
            node.disk.heal()
            node.disk.faults.kill_at = None
            if node.process is not None and node.process.is_paused:
                node.process.resume()

    # --- deaths ------------------------------------------------------------------------------------------------------------------

    def _may_end(self, node: SimulatedNode) -> bool:
        return self._ledger.may_end(node.node_id, is_starting=node.is_starting)

    def _kill(self, fault: Fault, node: SimulatedNode) -> bool:
        if not node.is_alive or not self._may_end(node):
            return False
        node.kill()
        self._world.start_later(node, fault.seconds)
        return True

    def _kill_controller(self, fault: Fault, _node: SimulatedNode) -> bool:
        active = self._active_controller()
        return active is not None and self._kill(fault, active)

    def _kill_in_disk(self, fault: Fault, node: SimulatedNode) -> bool:
        if not node.is_alive or not self._may_end(node):
            return False
        node.disk.kill_after(int(fault.amount))
        return True

    def _restart(self, fault: Fault, node: SimulatedNode) -> bool:
        if not node.is_serving:
            return False
        self._world.spawn(self._world.restart(node, fault.seconds))
        return True

    def _strand(self, fault: Fault, _node: SimulatedNode) -> bool:
        topic = self._disks.newest_image().topics_by_name.get(RECKLESS)
        if topic is None or any(state.leader == NO_NODE for state in topic.partitions):
            return False
        if not all(self._may_end(self._world.nodes[number]) for state in topic.partitions for number in state.replicas):
            return False
        for state in topic.partitions:
            others = [self._world.nodes[number] for number in state.replicas if number != state.leader]
            if others and all(other.is_alive for other in others):
                for other in others:
                    other.kill()
                self._world.spawn(self._strand_on(fault, state.partition, self._world.nodes[state.leader], others))
                return True
        return False

    async def _strand_on(
        self, fault: Fault, partition: int, leader: SimulatedNode, others: Sequence[SimulatedNode]
    ) -> None:
        for _ in range(int(ALONE_MAX_S * 10)):
            await asyncio.sleep(0.1)
            topic = self._disks.newest_image().topics_by_name.get(RECKLESS)
            states = topic.partitions if topic is not None else ()
            if self._is_over or partition >= len(states) or states[partition].isr == (leader.node_id,):
                break
        if not self._is_over:
            self._kill(fault, leader)
        for other in others:
            self._world.start_later(other, 0.0)

    def _power_loss(self, fault: Fault, node: SimulatedNode) -> bool:
        if not node.is_alive or not self._ledger.may_lose_power(node.node_id):
            return False
        self._ledger.on_power_loss(node.node_id, self._world.loop.time())
        node.lose_power()
        self._world.start_later(node, fault.seconds)
        return True

    def _pause(self, fault: Fault, node: SimulatedNode) -> bool:
        process = node.process
        if process is None or not process.alive or process.is_paused:
            return False
        process.pause()
        self._later(fault.seconds, lambda: process.resume() if process.alive else None)
        return True

    # --- network -----------------------------------------------------------------------------------------------------------------

    def _cut(self, fault: Fault) -> bool:
        first, second = (frozenset({node_host(number)}) for number in fault.nodes)
        self._disturb(fault.seconds, LinkRule(BLOCKED, first, second), LinkRule(BLOCKED, second, first))
        return True

    def _cut_one_way(self, fault: Fault) -> bool:
        first, second = (frozenset({node_host(number)}) for number in fault.nodes)
        self._disturb(fault.seconds, LinkRule(BLOCKED, first, second))
        return True

    def _isolate(self, fault: Fault, node: SimulatedNode) -> bool:
        host = frozenset({node.host})
        self._disturb(fault.seconds, LinkRule(BLOCKED, host, None), LinkRule(BLOCKED, None, host))
        return True

    def _cut_clients(self, fault: Fault, node: SimulatedNode) -> bool:
        host, clients = frozenset({node.host}), frozenset({CLIENT_HOST})
        self._disturb(fault.seconds, LinkRule(BLOCKED, host, clients), LinkRule(BLOCKED, clients, host))
        return True

    def _ostracize(self, fault: Fault, node: SimulatedNode) -> bool:
        host = frozenset({node.host})
        others = frozenset(other.host for other in self._world.nodes.values()) - host
        self._disturb(fault.seconds, LinkRule(BLOCKED, host, others), LinkRule(BLOCKED, others, host))
        return True

    def _ostracize_leader(self, fault: Fault) -> bool:
        """One at a time, and only where another replica can lead: else no leader is replaced."""
        now_s = self._world.loop.time()
        states = [
            state
            for topic in self._disks.newest_image().topics_by_name.values()
            for state in topic.partitions
            if state.leader != NO_NODE and len(state.isr) > 1
        ]
        if now_s < self._ostracized_until_s or not states:
            return False
        self._ostracized_until_s = now_s + fault.seconds
        leader = states[int(fault.amount * len(states))].leader
        return self._ostracize(fault, self._world.nodes[leader])

    def _flap(self, fault: Fault) -> bool:
        self._world.spawn(self._flap_on(fault))
        return True

    async def _flap_on(self, fault: Fault) -> None:
        for _ in range(int(fault.seconds / (2 * fault.amount)) + 1):
            if self._is_over:
                return
            self._cut(fault._replace(seconds=fault.amount))
            await asyncio.sleep(2 * fault.amount)

    def _delay(self, fault: Fault, node: SimulatedNode) -> bool:
        most_us = int(fault.amount * 1_000_000)
        self._disturb_node(fault, node, LinkCondition(delay_us=(most_us // 2, most_us)))
        return True

    def _loss(self, fault: Fault, node: SimulatedNode) -> bool:
        self._disturb_node(fault, node, LinkCondition(loss=fault.amount))
        return True

    def _flip(self, fault: Fault, node: SimulatedNode) -> bool:
        self._disturb_node(fault, node, LinkCondition(flips=fault.amount))
        return True

    def _throttle(self, fault: Fault, node: SimulatedNode) -> bool:
        self._disturb_node(fault, node, LinkCondition(bytes_per_s=int(fault.amount)))
        return True

    def _reset(self, _fault: Fault, node: SimulatedNode) -> bool:
        found = False
        for connection in tuple(self._world.network.connections):
            if connection.local.host == node.host:
                connection.reset()
                found = True
        return found

    def _disturb_node(self, fault: Fault, node: SimulatedNode, condition: LinkCondition) -> None:
        host = frozenset({node.host})
        self._disturb(fault.seconds, LinkRule(condition, host, None), LinkRule(condition, None, host))

    def _disturb(self, seconds: float, *rules: LinkRule) -> None:
        links = self._world.network.links
        for rule in rules:
            rule_id = links.add(rule)
            self._later(seconds, lambda rule_id=rule_id: links.remove(rule_id))  # type: ignore[misc]  # bound now

    # --- disks and clocks --------------------------------------------------------------------------------------------------------

    def _slow_disk(self, fault: Fault, node: SimulatedNode) -> bool:
        node.device.slowness = fault.amount
        self._later(fault.seconds, lambda: setattr(node.device, "slowness", 1.0))
        return True

    def _full_disk(self, fault: Fault, node: SimulatedNode) -> bool:
        node.disk.fill_up(int(fault.amount))
        node.disk_was_faulty = True
        self._later(fault.seconds, node.disk.heal)
        return True

    def _io_error(self, fault: Fault, node: SimulatedNode) -> bool:
        if fault.amount < 0:
            if not self._ledger.may_fail_syncs(node.node_id):
                return False
            self._ledger.on_failed_sync(node.node_id, self._world.loop.time())
            node.disk.fail("sync", error=errno.EIO, times=int(-fault.amount))
        else:
            node.disk.fail("write", error=errno.EIO, times=int(fault.amount))
        node.disk_was_faulty = True
        self._later(fault.seconds, node.disk.heal)
        return True

    def _clock_jump(self, fault: Fault, node: SimulatedNode) -> bool:
        node.clock.wall_shift_ms = int(fault.amount * 1000)
        return True

    def _lapse(self, fault: Fault) -> bool:
        self._world.lapse(fault.amount)
        return True

    # --- the nastiest thing for a place ------------------------------------------------------------------------------------------

    def _arm(self, fault: Fault, _node: SimulatedNode) -> bool:
        self._armed.append(fault)
        return True

    def _on_point(self, node: SimulatedNode, point: str) -> None:
        if not self._armed:
            return
        fault = self._armed.pop(0)
        self._world.trace.say(node.name, f"reaches {point}")
        others = [other for other in self._world.nodes.values() if other is not node and other.is_alive] or [node]
        other = others[int(fault.amount * 1000) % len(others)]
        choices: tuple[tuple[FaultKind, SimulatedNode], ...] = (
            (FaultKind.KILL, node),
            (FaultKind.KILL, other),
            (FaultKind.POWER_LOSS, other),
            (FaultKind.POWER_LOSS, node),
            (FaultKind.PAUSE, node),
            (FaultKind.PAUSE, other),
            (FaultKind.ISOLATE, node),
            (FaultKind.KILL_CONTROLLER, node),
            (FaultKind.RESET, node),
            (FaultKind.KILL_IN_DISK, node),
            (FaultKind.BIT_ROT, other),
            (FaultKind.NEW_DISK, other),
        )
        kind, victim = choices[int(fault.amount * len(choices))]
        chosen = Fault(fault.at_s, kind, (victim.node_id,), fault.seconds, fault.amount * 10)
        # not within the step that reached the point: a step is never interrupted but by a death in the disk
        self._world.loop.call_soon(self.bring, chosen, context=self._world.context)

    def _later(self, seconds: float, undo: Callable[[], object]) -> None:
        self._world.loop.call_later(seconds, lambda: None if self._is_over else undo(), context=self._world.context)
