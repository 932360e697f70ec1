"""One partition on a few brokers under faults: the cores of :mod:`esp.replication` on a heap of events, by seed.

The protocol tier of the simulator: no files, no sockets, no coroutines, and so a thousand times faster than real time. What it finds are
wrong decisions: which replica is in sync, what is committed, where to truncate. Messages are delayed, lost, and overtake one another as if
each had a connection of its own; answers reach a process also after it gave up waiting for them.

Some faults come at the moments of a partition at which they hurt most (KAFKA-7128). Some runs end with a follower that hears nothing of its
leader for a while, though every other node, the controller too, hears it.
"""

from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush
from random import Random
from typing import Any, Final

from esp.model.errors import ErrorCode
from esp.model.ids import NO_NODE, ZERO_UUID, LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.replication.isr_changes import IsrChange
from esp.replication.partition_leader import PartitionLeader, effective_min_isr
from esp.settings.setting import LONG_MAX
from esp.settings.topic import TopicSettings
from esp.simulation.partition_tier.checks import PartitionChecks
from esp.simulation.partition_tier.controller import Election, Image, PartitionController
from esp.simulation.partition_tier.decisions import DecidingController
from esp.simulation.partition_tier.deletions import PartitionDeletions
from esp.simulation.partition_tier.memory_log import MemoryLog
from esp.simulation.partition_tier.minimums import PartitionMinimums
from esp.simulation.partition_tier.node import Asked, PartitionNode
from esp.simulation.partition_tier.producers import PAYLOAD_BYTES, PartitionProducers
from esp.simulation.partition_tier.profile import SECOND_US, SESSION_US, PartitionProfile
from esp.simulation.partition_tier.stranded_leaders import StrandedLeaders
from esp.simulation.streams import stream

_MEAN_US: Final = 2 * SECOND_US
_CANCEL_SHARE: Final = 0.4
_AGAIN_SHARE: Final = 0.5
"""The share of the times at which an administrator would ask while a reassignment goes on, and lets it be."""


class PartitionMoves:
    """Gives a simulated partition other replicas: begins, changes and cancels reassignments, at brokers that may be dead.

    Args:
        cluster: that they happen in.
    """

    def __init__(self, cluster: "PartitionCluster") -> None:
        self.accepted = 0
        self._cluster = cluster

    def start(self) -> None:
        """Ask now and then, as long as there are faults."""
        cluster = self._cluster
        cluster.later(int(cluster.random.expovariate(1) * _MEAN_US), self._act)

    def _act(self) -> None:
        cluster, random = self._cluster, self._cluster.random
        if cluster.is_calm:
            return
        state = cluster.controller.image.partition
        if not (state.is_reassigning and random.random() < _AGAIN_SHARE):
            target = None
            if not (state.is_reassigning and random.random() < _CANCEL_SHARE):
                nodes = [node.node_id for node in cluster.nodes]
                target = tuple(random.sample(nodes, random.randint(cluster.min_isr, min(3, len(nodes)))))
            cluster.note(f"reassignment to {target}")
            self.accepted += cluster.reassign(target)
        self.start()


_SOON_US: Final = 100_000
_AGAIN_US: Final = 5_000
_TRIES: Final = 200
_CUT_US: Final = 600_000
_LONG_US: Final = 8_000_000


def kill_after_shrink(cluster: "PartitionCluster", leader: PartitionNode) -> None:
    """Let the leader die when it has just committed what it waited for, and the member that was taken out of the ISR come back at once.

    The new leader knows of the commit only later, so that the member that comes back may seem to hold everything.
    """
    if not cluster.is_calm and cluster.random.random() < cluster.profile.targeted:
        cluster.note(f"aimed at {leader.node_id} after a shrink")
        cluster.later(int(cluster.random.random() * _SOON_US), _kill_and_heal, cluster, leader)


def _kill_and_heal(cluster: "PartitionCluster", leader: PartitionNode) -> None:
    if leader.is_running:
        cluster.inflict("kill", leader)
        cluster.cuts.clear()
        for node in cluster.nodes:
            cluster.resume(node)


def lose_tail_at_takeover(cluster: "PartitionCluster", tries: int = _TRIES) -> None:
    """Wait until the one that would lead next does not know yet what is committed; then the leader dies, and later another loses records.

    The one that takes over counts the other as in sync until that registers anew, and would let it in again by a high watermark of old.
    """
    state = cluster.controller.image.partition
    if cluster.is_calm or state.leader < 0:
        return
    followers = [cluster.nodes[node] for node in state.replicas if node in state.isr and node != state.leader]
    committed_end = cluster.checks.committed_end
    heir, *losers = followers or (None,)
    if heir is not None and losers and heir.is_running and heir.log.high_watermark < committed_end:
        leader = cluster.nodes[state.leader]
        cluster.note(f"aimed at {losers[0].node_id}, while {heir.node_id} takes over from {leader.node_id}")
        cluster.inflict("kill", leader)
        cluster.cuts[leader.node_id, heir.node_id] = cluster.now_us + _LONG_US
        cluster.cuts[losers[0].node_id, heir.node_id] = cluster.now_us + _LONG_US
        _lose_tail(cluster, heir, losers[0], _TRIES * 4)
    elif tries:
        cluster.later(_AGAIN_US, lose_tail_at_takeover, cluster, tries - 1)


def _lose_tail(cluster: "PartitionCluster", heir: PartitionNode, loser: PartitionNode, tries: int) -> None:
    """Once the heir leads, the other loses its last records, and serves again before it can fetch."""
    if cluster.is_calm or not loser.is_running:
        return
    if cluster.controller.image.partition.leader == heir.node_id:
        log = loser.log
        kept = heir.log.high_watermark if cluster.profile.loses_tails else log.log_end_offset - 2
        log.recovery_point = max(log.recovery_point, kept)
        cluster.inflict("power-loss", loser)
        cluster.cuts[loser.node_id, heir.node_id] = cluster.now_us + _CUT_US
        if cluster.profile.loses_tails:  # what it asks for then arrives before what it gets
            cluster.cuts[heir.node_id, loser.node_id] = cluster.now_us + 3 * _CUT_US
        cluster.later(_SOON_US, cluster.restart, loser)
    elif tries:
        cluster.later(_AGAIN_US, _lose_tail, cluster, heir, loser, tries - 1)


_NEVER_US: Final = 1 << 62
"""The end of a cut that is taken away explicitly."""
_DEAF_US: Final = 10 * SECOND_US
_STREAM_US: Final = 4 * SECOND_US


def let_one_be_deaf(cluster: "PartitionCluster") -> None:
    """A follower that hears nothing of its leader leaves the ISR in time (ISR-3), and gets in again, also under load (HW-4).

    Raises:
        InvariantError: it does not.
    """
    followers = [node for node in cluster.nodes if node.node_id != cluster.controller.image.partition.leader]
    deaf = cluster.random.choice(followers)
    for node in cluster.nodes:
        cluster.cuts[node.node_id, deaf.node_id] = cluster.cuts[deaf.node_id, node.node_id] = _NEVER_US
    cluster.run_until(cluster.now_us + _DEAF_US)
    state = cluster.controller.image.partition
    if deaf.node_id in state.isr and deaf.node_id != state.leader:
        cluster.checks.fail("LIVE-ISR", f"{deaf.node_id} hears nothing, and is in the ISR: {state}")
    cluster.cuts.clear()
    if cluster.profile.streams:
        end_us = cluster.now_us + _STREAM_US
        cluster.producers.stream(end_us)
        cluster.run_until(end_us)
        state = cluster.controller.image.partition
        if set(state.isr) != set(state.replicas):
            cluster.checks.fail("LIVE-ISR", f"{deaf.node_id} does not get in while records come: {state}")


CONTROLLER: Final = NO_NODE
_LAST_OUTAGE_US: Final = 3 * SECOND_US
"""The longest outage of a node whose clean shutdown ends when there are no more faults: it has to be whole again by the end."""
CLIENTS: Final = NodeId(-2)


class PartitionCluster:
    """The world of one run.

    Args:
        seed: of everything random.
        profile: the kind of run; drawn from the seed if left out.
    """

    def __init__(self, seed: int, profile: PartitionProfile | None = None) -> None:
        self.random = Random(seed)  # noqa: S311 -- a replay by seed is what this is for
        if profile is None:
            profile = PartitionProfile.of_seed(seed, self.random)
        self.profile = profile
        self.now_us = 0
        self.events = 0
        self.faults = 0
        self.trace: list[str] | None = None
        """Readable lines, if a list is put here."""
        self.lag_time_max_us = profile.lag_time_max_us
        least = min((profile.min_insync_replicas, *profile.minimums))
        self.min_isr = effective_min_isr(least, profile.replicas)
        """The least that has to be in sync at any time; there are never fewer replicas."""
        self._settings = TopicSettings(
            min_insync_replicas=profile.min_insync_replicas,
            flush_messages=1 if profile.flush_every_batch else LONG_MAX,
        )
        self.checks = PartitionChecks(unclean_allowed=profile.unclean_allowed)
        self.nodes = [
            PartitionNode(NodeId(number), self, MemoryLog(self._settings, self.checks))
            for number in range(profile.replicas + profile.spares)
        ]
        self.checks.nodes = self.nodes
        self.checks.owner = {node.log: node for node in self.nodes}
        everybody = tuple(node.node_id for node in self.nodes)
        ids, spares = everybody[: profile.replicas], everybody[profile.replicas :]
        created = PartitionState(TopicId(ZERO_UUID), 0, ids, ids, ids[0], LeaderEpoch(1), 0)
        deciding = partial(DecidingController, spares=spares, in_slices=profile.decides_in_slices)
        controller = deciding if profile.decides else PartitionController
        self.controller: PartitionController | DecidingController = controller(
            created,
            profile.min_insync_replicas,
            SESSION_US,
            self._on_change,
            has_own_minimum=profile.has_own_minimum,
            unclean_allowed=profile.unclean_allowed,
        )
        self.checks.begin(self.controller.image)
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._held: dict[PartitionNode, list[tuple[Callable[..., None], tuple[Any, ...]]]] = {}
        self.cuts: dict[tuple[NodeId, NodeId], int] = {}
        self._held_up: dict[NodeId, int] = {}
        self._lossy: set[NodeId] = set()
        self.is_calm = False
        self.is_quiet = False
        """True if there is no more load; before that, with ``is_calm``, there are no more faults."""
        self._deletions = deletions = PartitionDeletions(self.checks, self.random, seed, deletes=profile.deletes)
        self.maybe_delete = deletions.maybe_delete
        self.on_stopped, self.on_answered = self.checks.stopped, self.checks.answered
        self.producers = PartitionProducers(self, deletions.draw_size)
        self.stranded_leaders = StrandedLeaders(self, stream("strandings", seed))
        self.checks.elected(Election(ids[0], 1, "isr"))
        for node in self.nodes:
            node.begin(self.controller.image)
        self._plan_fault()
        self.producers.start()
        self.moves = PartitionMoves(self)
        if spares:
            self.moves.start()
        self.minimums = PartitionMinimums(self, stream("changes of the minimum", seed))
        if profile.minimums:
            self.minimums.start()
        self.later(SECOND_US // 2, self._expire_sessions)

    # --- running -------------------------------------------------------------------------------------------------------------------

    def run(self, chaos_us: int = 40 * SECOND_US, calm_us: int = 15 * SECOND_US) -> None:
        """A phase of faults, then one without, at whose end everything must be whole again.

        Raises:
            InvariantError: something went wrong.
        """
        self.run_until(chaos_us)
        self.recover(calm_us)

    def recover(self, calm_us: int = 15 * SECOND_US) -> None:
        """No more faults: everything must be whole again after ``calm_us``.

        Raises:
            InvariantError: something went wrong.
        """
        self._calm_down()
        if self.profile.ends_deaf:
            self.run_until(self.now_us + calm_us)
            let_one_be_deaf(self)
        self.is_quiet = True
        self.run_until(self.now_us + calm_us)
        self.checks.check_end(self.controller.image.partition)

    def run_until(self, end_us: int) -> None:
        """Let time pass, up to a moment."""
        heap = self._heap
        while heap and heap[0][0] <= end_us:
            self.step()
        self.now_us = end_us

    def step(self, place: int = 0) -> None:
        """Do what is due next; with a ``place``, what is due after so many others, before them."""
        heap = self._heap
        if place:
            event = sorted(heap)[min(place, len(heap) - 1)]
            heap.remove(event)
            heapify(heap)
        else:
            event = heappop(heap)
        self.now_us = max(self.now_us, event[0])
        event[2](*event[3])

    def later(self, delay_us: int, action: Callable[..., None], *arguments: Any) -> None:
        """Call ``action`` after so much simulated time."""
        self.events += 1
        heappush(self._heap, (self.now_us + delay_us, self.events, action, arguments))

    def note(self, line: str) -> None:
        """A line of the trace, if one is kept."""
        if self.trace is not None:
            self.trace.append(f"{self.now_us / SECOND_US:9.3f} {line}")

    def reassign(self, target: tuple[NodeId, ...] | None) -> bool:
        """Ask the controller for other replicas; None cancels that. Returns whether it was accepted."""
        assert isinstance(self.controller, DecidingController)
        return self.controller.reassign(target)

    # --- what nodes use ------------------------------------------------------------------------------------------------------------

    def after(self, node: PartitionNode, delay_us: int, action: Callable[..., None], *arguments: Any) -> None:
        """A timer of a node: it dies with the process."""
        self.later(delay_us, self.arrive, node, node.incarnation, action, arguments)

    def send(self, sender: PartitionNode, receiver: NodeId, name: str, *arguments: Any) -> None:
        """A request to another node: to the process that runs there now."""
        node = self.nodes[receiver]
        self._transmit(sender.node_id, receiver, self.arrive, node, node.incarnation, getattr(node, name), arguments)

    def answer(self, sender: PartitionNode, asked: Asked, name: str, *arguments: Any) -> None:
        """An answer to a follower: to the process that asked."""
        node = self.nodes[asked.replica]
        self._transmit(
            sender.node_id, asked.replica, self.arrive, node, asked.incarnation, getattr(node, name), arguments
        )

    def ask_controller(self, node: PartitionNode, name: str, *arguments: Any) -> None:
        """A request to the controller: it arrives also when the process that sent it is gone."""
        if name == "alter_partition" and self._aim(node, *arguments):
            return
        self._transmit(node.node_id, CONTROLLER, self._control, node, node.incarnation, name, arguments)

    def answer_client(self, node: PartitionNode, request_id: int, error: ErrorCode, base_offset: int) -> None:
        """An answer to the producer."""
        if error is ErrorCode.out_of_order_sequence_number and self.checks.durability_is_owed:
            role = node.role  # one that leads no longer may know less
            is_current = role and role.leader_epoch == self.controller.image.partition.leader_epoch
            if is_current and self.producers.is_waiting_for(request_id):
                self.checks.fail("INV-SEQ", f"the sequence of request {request_id} is refused")
        self.later(self.delay_us(), self.producers.on_produced, request_id, error, base_offset)

    def _transmit(self, sender: NodeId, receiver: NodeId, action: Callable[..., None], *arguments: Any) -> None:
        if self.cuts.get((sender, receiver), 0) > self.now_us:
            return
        if not self.is_calm and self.random.random() < self.profile.loss:
            return
        self.later(self.delay_us(), action, *arguments)

    def delay_us(self) -> int:
        """The time for which a message is under way."""
        random = self.random
        profile = self.profile
        if not self.is_calm and random.random() < profile.spike_probability:
            return int(random.random() * profile.spike_max_us)
        return 200 + int(random.random() * profile.delay_max_us)

    def arrive(
        self, node: PartitionNode, incarnation: int, action: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        """Something reaches a process, if that still runs; one that stands still gets it later."""
        if not node.is_running or node.incarnation != incarnation:
            return
        held = self._held.get(node)
        if held is not None:
            held.append((action, arguments))
        else:
            if self.trace is not None:
                self.note(f"{node.node_id} {action.__name__}{arguments}")
            action(*arguments)
            if isinstance(node.role, PartitionLeader):
                self.checks.check_promptness(node, node.role)

    def carry(self, records: bytes) -> bytes:
        """The bytes of an answer that arrive: on rare occasions not just those that were sent, where a checksum covers them."""
        if records and not self.is_calm and self.random.random() < self.profile.corruption:
            changed = bytearray(records)
            changed[self.random.randrange(len(changed) - PAYLOAD_BYTES, len(changed))] ^= 1 << self.random.randrange(8)
            return bytes(changed)
        return records

    # --- controller ----------------------------------------------------------------------------------------------------------------

    def _control(self, node: PartitionNode, incarnation: int, name: str, arguments: tuple[Any, ...]) -> None:
        controller = self.controller
        node_id = node.node_id
        self.note(f"controller {name} of {node_id} {arguments}")
        if name == "register":
            epoch = controller.register(node_id, incarnation, arguments[0], self.now_us)
            if epoch is not None:
                self._reply(node, incarnation, self._registered, node, epoch, controller.image)
        elif name == "heartbeat":
            epoch, applied, wants_shutdown = arguments
            controller.heartbeat(node_id, epoch, applied, self.now_us, wants_shutdown=wants_shutdown)
            # Lost news are told again: metadata is pulled, not pushed.
            self._tell(node, incarnation, controller.image)
        else:
            epoch, change = arguments
            self.minimums.before_proposal(change)
            before = controller.image.partition
            answer = controller.alter_partition(node_id, epoch, change)
            if answer.error_code is ErrorCode.none and set(change.isr) < set(before.isr):
                kill_after_shrink(self, node)
            self._reply(node, incarnation, node.on_isr_answer, change, answer)

    def _reply(self, node: PartitionNode, incarnation: int, action: Callable[..., None], *arguments: Any) -> None:
        self._transmit(CONTROLLER, node.node_id, self.arrive, node, incarnation, action, arguments)

    def _tell(self, node: PartitionNode, incarnation: int, image: Image) -> None:
        """Send metadata on its way, which may be a slow one."""
        slow_us = 0 if self.is_calm else int(self.random.random() * self.profile.slow_metadata_us)
        self.later(slow_us, self._reply, node, incarnation, node.on_image, image)

    def _registered(self, node: PartitionNode, epoch: int, image: Image) -> None:
        if node.broker_epoch < 0:
            node.registered(epoch, image)

    def _on_change(self, image: Image, election: Election | None) -> None:
        self.note(f"metadata {image.offset}: {image.partition} {image.brokers} {election}")
        if election is not None:
            self.checks.elected(election)
        self.checks.changed(image)
        if set(image.partition.isr) == set(image.partition.replicas):
            self._lossy.clear()
        for node in self.nodes:
            self._tell(node, node.incarnation, image)
        if election is not None:
            self.stranded_leaders.after_election(election)

    def _expire_sessions(self) -> None:
        self.controller.expire_sessions(self.now_us)
        self.later(SECOND_US // 2, self._expire_sessions)

    # --- faults --------------------------------------------------------------------------------------------------------------------

    def _plan_fault(self) -> None:
        if self.profile.faults_per_s:
            self.later(int(self.random.expovariate(self.profile.faults_per_s) * SECOND_US), self._next_fault)

    def _next_fault(self) -> None:
        if not self.is_calm:
            kind, node = self.random.choice(self.profile.kinds), self.random.choice(self.nodes)
            if kind == "power-loss" and self.random.random() < self.profile.targeted:
                lose_tail_at_takeover(self)
            else:
                self.inflict(kind, node)
            self._plan_fault()

    def inflict(self, kind: str, node: PartitionNode) -> None:
        """One fault on a node, if it can happen to it now and the promise covers it."""
        self.faults += 1
        self.note(f"{kind} of {node.node_id}")
        random = self.random
        if kind == "cut":
            until_us = self.now_us + int(random.expovariate(1) * 2 * SECOND_US)
            others = [other.node_id for other in self.nodes if other is not node] + [CONTROLLER]
            for other in random.sample(others, random.randint(1, len(others))):
                self.cuts[node.node_id, other] = until_us
                if random.random() < 0.7:
                    self.cuts[other, node.node_id] = until_us
        elif not node.is_running:
            return
        elif kind == "pause":
            if node not in self._held:  # else nothing is drawn
                self.pause(node, int(random.expovariate(1) * 2 * SECOND_US))
        elif kind == "stop":
            node.wants_shutdown = True
            self.later(SECOND_US, self._stop_in_order, node, node.incarnation)
        else:
            self._crash(node, kind)

    def _stop_in_order(self, node: PartitionNode, incarnation: int) -> None:
        if node in self._held:
            self.later(SECOND_US, self._stop_in_order, node, incarnation)
        elif node.is_running and node.incarnation == incarnation:
            node.log.flush()
            node.log.checkpoint()
            self._crash(node, "stop")

    def _crash(self, node: PartitionNode, kind: str) -> None:
        is_lossy = kind == "disk-swap" or kind == "power-loss"
        if is_lossy and not (kind == "power-loss" and self.profile.flush_every_batch):
            if len(self._lossy | {node.node_id}) >= self.min_isr:
                return
            self._lossy.add(node.node_id)
            node.is_incomplete = True
            node.lost_epoch = self.controller.image.brokers[node.node_id].epoch
        self._held.pop(node, None)
        if is_lossy:
            node.previous_epoch = -1
        elif node.broker_epoch >= 0:  # the machine runs on (BRK-3)
            node.previous_epoch = node.broker_epoch
        node.stop()
        if kind == "disk-swap":
            self.empty(node)
        else:
            node.log.reopen(self.random, lossy=kind == "power-loss")
        down_us = int((0.05 + self.random.expovariate(1) * 2) * SECOND_US)
        self.later(min(down_us, _LAST_OUTAGE_US) if self.is_calm else down_us, self.restart, node)

    def empty(self, node: PartitionNode) -> None:
        """Take away all that a node has of the partition."""
        if node.is_running and node.image is not None:  # by the metadata that it follows, not with its disk
            self.checks.let_go(node, node.image.partition.partition_epoch)
        del self.checks.owner[node.log]
        node.log = MemoryLog(self._settings, self.checks)
        self.checks.owner[node.log] = node

    def pause(self, node: PartitionNode, duration_us: int) -> None:
        """Let a node stand still for a while; what reaches it meanwhile comes in one burst."""
        if node not in self._held:
            self._held[node] = []
            self.later(duration_us, self.resume, node)

    def cut_off(self, node: NodeId, duration_us: int) -> None:
        """Let neither clients nor other nodes reach a node for a while, nor it them; the controller and it hear one another."""
        until_us = self.now_us + duration_us
        self.cuts[CLIENTS, node] = until_us
        for other in self.nodes:
            self.cuts[node, other.node_id] = self.cuts[other.node_id, node] = until_us

    def is_cut_off(self, node: NodeId) -> bool:
        """True if clients do not reach a node."""
        return self.cuts.get((CLIENTS, node), 0) > self.now_us

    def restart(self, node: PartitionNode) -> None:
        """Begin a new process, if there is none."""
        if not node.is_running:
            self._deletions.before_return(node)
            node.start()

    def resume(self, node: PartitionNode) -> None:
        """Let a node that stood still go on."""
        for action, arguments in self._held.pop(node, ()):
            self.arrive(node, node.incarnation, action, arguments)

    def _aim(self, node: PartitionNode, epoch: int, change: IsrChange) -> bool:
        """The nastiest that may happen to a change of the ISR; True if its request is not to be sent as usual.

        The member to be added loses its disk while the request is under way (KIP-903); the leader dies right after asking; or requests are
        held up until the new member was fenced, and the first of them arrives when it is back.
        """
        random = self.random
        joining = [member for member in change.isr if member not in self.controller.image.partition.isr]
        if not joining or self.is_calm:
            return False
        if self._held_up.get(node.node_id, 0) > self.now_us:
            return True
        if random.random() >= self.profile.targeted:
            return False
        self.note(f"aimed at {joining}")
        late_us = int(random.random() * 4 * SECOND_US)
        kind = random.choice(("joining", "joining", "leader", "fenced"))
        if kind == "leader":
            self.later(int(random.random() * SECOND_US / 2), self.inflict, "kill", node)
            return random.random() < 0.5
        if kind == "fenced":
            self.cuts[joining[0], CONTROLLER] = self.now_us + SESSION_US + SECOND_US // 2
            self._held_up[node.node_id] = self.now_us + SESSION_US
            late_us = SESSION_US + int(random.random() * 2 * SECOND_US)
        else:
            kinds = [kind for kind in self.profile.kinds if kind in ("kill", "power-loss", "disk-swap")]
            if kinds:
                self.inflict(random.choice(kinds), self.nodes[joining[0]])
        self.later(late_us, self._control, node, node.incarnation, "alter_partition", (epoch, change))
        return kind == "fenced" or random.random() < 0.5

    def _calm_down(self) -> None:
        self.is_calm = True
        self.cuts.clear()
        for node in self.nodes:
            self.resume(node)
            self.restart(node)
