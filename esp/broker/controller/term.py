"""The work that an active controller does by itself, from the moment it is active until it loses the epoch.

It ends a transaction that an earlier controller left half done, elects leaders where its last decision was cut between two slices,
and gives a new cluster its first records; it watches the brokers' sessions
(BRK-6), and probes brokers that may be dead (FAST-1); now and then it gives leadership back to preferred replicas, elects where settings
have come to allow it, looks after brokers that are gone, draining or new (:mod:`esp.controller.self_repair`), and writes a record when
nothing else is written, so that followers of the log see it move.
"""

import importlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from esp.broker.connections.node_probe import is_gone
from esp.broker.controller.config import ControllerConfig
from esp.broker.controller.proposals import Proposals
from esp.broker.controller.slices import Slices
from esp.broker.tasks import Tasks
from esp.controller.bootstrap import bootstrap_records
from esp.controller.broker_sessions import BrokerSessions
from esp.controller.decision import Decision
from esp.controller.elections import decide_preferred_leaders, decide_unclean_leaders
from esp.controller.heartbeats import decide_fence, decide_leaderless
from esp.controller.image import BrokerImage, ClusterImage
from esp.controller.internal_replication import decide_internal_replication
from esp.controller.self_repair import PlanRequest, Proposal, SelfRepair
from esp.controller.self_repair_marks import decide_mark_removal
from esp.controller.trash import TrashClock, decide_purge
from esp.model.delegation_token import DelegationToken
from esp.model.errors import ApiError, ErrorCode
from esp.model.features import METADATA_VERSION
from esp.model.ids import BrokerEpoch, LeaderEpoch, NodeId
from esp.ports.clock import Timer
from esp.ports.env import Env
from esp.raft.member import LeaderContact
from esp.schemas.metadata_records import AbortTransactionRecord, NoOpRecord

log = logging.getLogger(__name__)

_LATE_US: Final = 1_000_000
"""The delay of a timer from which the controller must have been away itself: it has heard no broker then, and holds it against none."""

_AT_ONCE_US: Final = 1_000

_FINDING_US: Final = 500_000
"""The time in which most live brokers find a new controller: until then no broker takes the place of another for having its address."""

_GROWTH_INTERVAL_US: Final = 3_000_000
"""The interval at which internal topics are compared with the brokers; nodes that start together mostly count as one step."""

_REPAIR_INTERVAL_US: Final = 3_000_000
"""The interval at which the cluster is checked for brokers that are gone, draining or new."""

_TRASH_INTERVAL_US: Final = 1_000_000
"""The interval at which topics in the trash are looked at."""

_PLANNER: Final = "esp.controller.self_repair_plan"

_DELEGATION_TOKENS: Final = "esp.controller.delegation_tokens"  # loaded where there are tokens

Reply = TypeVar("Reply")


@dataclass(slots=True)
class _Job:
    """Something that is done again and again."""

    interval_us: int
    run: Callable[[], int]
    """Does it, and returns the microseconds until the next time."""
    timer: Timer | None = None


class ControllerTerm:
    """One epoch as the active controller.

    Args:
        env: the outside.
        config: of the controller.
        proposals: how it decides.
        tasks: where probes live.
        epoch: which it leads.
    """

    def __init__(
        self, env: Env, config: ControllerConfig, proposals: Proposals, tasks: Tasks, epoch: LeaderEpoch
    ) -> None:
        self.epoch = epoch
        self.sessions = BrokerSessions(config.session_timeout_ms * 1000)
        self.slices = Slices(proposals, tasks)
        self._env = env
        self._config = config
        self._proposals = proposals
        self._tasks = tasks
        self._probed: set[tuple[NodeId, BrokerEpoch]] = set()
        self._session_timer: Timer | None = None
        self._session_due_us = 0
        self._last_offset = 0
        self._began_us = env.clock.monotonic_us()
        self._ended = False
        jobs: list[_Job] = []
        if config.max_idle_interval_ms > 0:
            jobs.append(_Job(config.max_idle_interval_ms * 1000, self._write_if_idle))
        if config.auto_leader_rebalance:
            jobs.append(_Job(config.imbalance_check_interval_s * 1_000_000, self._balance))
        if config.internal_replication:
            jobs.append(_Job(_GROWTH_INTERVAL_US, self._grow_internal_topics))
        self.self_repair = SelfRepair(config.cluster_id, config.self_repair)
        jobs.append(_Job(_REPAIR_INTERVAL_US, self._repair))
        self._trash_clock = TrashClock()
        jobs.append(_Job(_TRASH_INTERVAL_US, self._purge_trash))
        if config.tokens.is_enabled:
            jobs.append(_Job(config.tokens.check_interval_ms * 1000, self._sweep_tokens))
        self._unclean_job = _Job(config.unclean_election_interval_ms * 1000, self._elect_unclean)
        jobs.append(self._unclean_job)
        self._jobs = tuple(jobs)

    def begin(self, predecessor: LeaderContact | None, *, in_transaction: bool) -> None:
        """Take over, in one go: nothing is decided for others before the log is in order.

        Args:
            predecessor: the leader of the quorum that this node followed, and when it answered last.
            in_transaction: the log ends within a metadata transaction that will not be completed.
        """
        if in_transaction:
            reason = AbortTransactionRecord(reason="The controller that began it is no longer active")
            self._propose(lambda _: Decision((reason,), None), "Abort")
        if METADATA_VERSION not in self._proposals.newest.features:
            records = bootstrap_records(self._config.min_insync_replicas, self._config.features, self._config.first)
            self._propose(lambda _: Decision(records, None), "Bootstrap records")
        self.elect_leaderless()
        brokers = self._proposals.newest.brokers
        # A host that has gone silent may have led the quorum as well: then its silence began before this term did.
        heard_us = {} if predecessor is None else {predecessor.node_id: predecessor.heard_us}
        self.sessions.restart(brokers.values(), self._env.clock.monotonic_us(), heard_us)
        self.watch_sessions()
        for node_id in brokers:
            if node_id != self._config.node_id:  # this process runs
                self.probe(node_id)
        for job in self._jobs:
            self._schedule(job, job.interval_us)

    @property
    def sessions_due_us(self) -> int | None:
        """The time at which the timer of the sessions is due; None if none is set."""
        return None if self._session_timer is None else self._session_due_us

    def end(self) -> None:
        """The epoch is lost: do nothing more."""
        self._ended = True
        self.slices.end()
        for job in self._jobs:
            if job.timer is not None:
                job.timer.cancel()
        if self._session_timer is not None:
            self._session_timer.cancel()

    def probe(self, node_id: NodeId) -> None:
        """A broker may be dead: look, and fence it at once if its listeners say so. Does not wait for that."""
        broker = self._proposals.newest.brokers.get(node_id)
        if broker is not None and not broker.fenced and (node_id, broker.epoch) not in self._probed:
            self._probed.add((node_id, broker.epoch))
            self._tasks.start(self._probe(broker), name=f"probe of broker {node_id}")

    def elect_unclean_soon(self) -> None:
        """Settings have come that may allow leaders that could not be elected before."""
        if not self._ended:
            if self._unclean_job.timer is not None:
                self._unclean_job.timer.cancel()
            self._schedule(self._unclean_job, _AT_ONCE_US)

    def elect_leaderless(self) -> None:
        """Elect leaders where a decision was given up between two slices. Does not wait for that."""
        self._begin(lambda image: decide_leaderless(image, None, self._config.slice_changes_max), "Leaderless")

    async def end_session_if_dead(self, broker: BrokerImage) -> bool:
        """True if the process of a registered broker is known to be gone; its session has ended then."""
        if not await is_gone(self._env, broker.endpoints.values()):
            return False
        self.sessions.end(broker.node_id, broker.epoch)
        return True

    def fence_dead(self, broker: BrokerImage) -> None:
        """Fence a registered broker whose process is gone."""
        self._fence(broker.node_id, broker.epoch, "its process is gone: connections to its listeners are refused")

    def is_awaited(self, broker: BrokerImage) -> bool:
        """True if a live broker may not have found this controller yet; the broker in this process need not look."""
        return (
            broker.node_id != self._config.node_id
            and self.sessions.is_unheard(broker.node_id, broker.epoch)
            and self._env.clock.monotonic_us() - self._began_us < _FINDING_US
        )

    def watch_sessions(self) -> None:
        """Make sure that the end of every session is noticed. Needed when one began where there was none; heartbeats only move it on."""
        deadline_us = self.sessions.next_deadline_us()
        if self._session_timer is None and deadline_us is not None and not self._ended:
            self._session_due_us = deadline_us
            delay_us = max(0, deadline_us - self._env.clock.monotonic_us())
            self._session_timer = self._env.clock.call_later_us(delay_us, self._on_session_timer)

    async def _probe(self, broker: BrokerImage) -> None:
        try:
            is_dead = await self.end_session_if_dead(broker)
        finally:
            self._probed.discard((broker.node_id, broker.epoch))
        if is_dead:
            self.fence_dead(broker)

    def _on_session_timer(self) -> None:
        self._session_timer = None
        if self._ended:
            return
        now_us = self._env.clock.monotonic_us()
        if now_us - self._session_due_us > _LATE_US:
            self.sessions.renew(now_us)
        for node_id, epoch in self.sessions.expired(now_us):
            self.sessions.end(node_id, epoch)
            self._fence(node_id, epoch, f"no heartbeat for {self._config.session_timeout_ms} ms")
        self.watch_sessions()

    def _fence(self, node_id: NodeId, epoch: BrokerEpoch, reason: str) -> None:
        """Each broker for itself, so that the next decision sees what the one before has done, and in a round of the loop of its own.

        Until that comes the broker may be heard of again, and has a session then: it serves on.
        """
        changes_max = self._config.slice_changes_max

        def decide(image: ClusterImage) -> Decision[bool]:
            if self.sessions.is_live(node_id, epoch, self._env.clock.monotonic_us()):
                return Decision((), False)
            return decide_fence(image, node_id, epoch, changes_max)

        def on_reply(has_served: bool) -> None:
            if has_served:
                log.warning("broker %d of epoch %d is fenced: %s", node_id, epoch, reason)

        self._begin(decide, f"Fencing of broker {node_id}", on_reply)

    def _write_if_idle(self) -> int:
        """Let others see that the log moves. Alone, a node would only fill its disk."""
        proposals = self._proposals
        if proposals.next_offset == self._last_offset and proposals.has_followers:
            self._propose(lambda _: Decision((NoOpRecord(),), None), "NoOp")
        self._last_offset = proposals.next_offset
        return self._config.max_idle_interval_ms * 1000

    def _balance(self) -> int:
        more = self._propose(decide_preferred_leaders, "Preferred leaders")
        return _AT_ONCE_US if more else self._config.imbalance_check_interval_s * 1_000_000

    def _grow_internal_topics(self) -> int:
        wanted = self._config.internal_replication
        changed = self._propose(lambda image: decide_internal_replication(image, wanted), "Internal replication")
        if changed:
            log.info("%d partitions of internal topics get more replicas", changed)
        return _GROWTH_INTERVAL_US

    def _repair(self) -> int:
        self._propose(decide_mark_removal, "Self-repair marks")
        repair, image = self.self_repair, self._proposals.newest
        request = repair.look(image, self._env.clock.monotonic_us())
        if request is not None:
            self._tasks.start(self._plan_repair(request), name="plan of self-repair")
        begun = self._propose(repair.decide, "Self-repair")
        if begun is not None and not self._ended:
            repair.on_begun(begun, self._proposals.newest)
        return _REPAIR_INTERVAL_US

    async def _plan_repair(self, request: PlanRequest) -> None:
        """Plan off the loop, then go on with the answer as far as it fits the cluster as it is by then."""
        proposal = await self._env.cpu.run(_plan_repair_blocking, request)
        if not self._ended:
            self.self_repair.on_plan(proposal, self._proposals.newest)
            self._repair()

    def _sweep_tokens(self) -> int:
        """Remove expired delegation tokens, those of a time together (TOKEN-1)."""
        decide = importlib.import_module(_DELEGATION_TOKENS).decide_sweep
        now_ms = self._env.clock.wall_ms()
        expired: Sequence[DelegationToken] = self._propose(lambda image: decide(image, now_ms), "Expired tokens") or ()
        for token in expired:
            log.info("the delegation token %s of %s has expired, and is removed", token.token_id, token.owner)
        return _AT_ONCE_US if expired else self._config.tokens.check_interval_ms * 1000

    def _purge_trash(self) -> int:
        """Purge the topics in the trash that are due (TRASH-5)."""
        clock = self._env.clock
        due = self._trash_clock.find_due(self._proposals.newest, clock.monotonic_us(), clock.wall_ms())
        if due:
            self._propose(lambda image: decide_purge(image, due), "Purge of the trash")
            log.info("%d topics in the trash are purged: their time is over", len(due))
        return _TRASH_INTERVAL_US

    def _elect_unclean(self) -> int:
        more = self._propose(decide_unclean_leaders, "Unclean leaders")
        return _AT_ONCE_US if more else self._config.unclean_election_interval_ms * 1000

    def _propose(self, decide: Callable[[ClusterImage], Decision[Reply]], name: str) -> Reply | None:
        """Decide, unless the epoch is lost, or is found to be lost between two batches; no request waits for it."""
        if self._ended:
            return None
        try:
            return self._proposals.propose(decide, name)
        except ApiError as error:
            if error.code is not ErrorCode.not_controller:
                raise
            return None

    def _begin(
        self,
        decide: Callable[[ClusterImage], Decision[Reply]],
        name: str,
        on_reply: Callable[[Reply], None] = lambda _: None,
    ) -> None:
        """As :meth:`_propose`, for a decision that may take several slices: see :meth:`Slices.begin`."""
        if not self._ended:
            try:
                self.slices.begin(decide, name, on_reply)
            except ApiError as error:
                if error.code is not ErrorCode.not_controller:
                    raise

    def _schedule(self, job: _Job, delay_us: int) -> None:
        def on_time() -> None:
            if not self._ended:
                self._schedule(job, job.run())

        job.timer = self._env.clock.call_later_us(delay_us, on_time)


def _plan_repair_blocking(request: PlanRequest) -> Proposal | None:
    """Ask the planner, which is loaded when it is needed for the first time: no start of a node waits for it."""
    answer: Callable[[PlanRequest], Proposal | None] = importlib.import_module(_PLANNER).answer
    return answer(request)
