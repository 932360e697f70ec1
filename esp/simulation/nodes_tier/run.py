"""One seed's run: boot, load, faults, healing, rest, and the last look at everything."""

import asyncio
import contextlib
import traceback
from collections.abc import Callable, Collection, Container, Iterator
from functools import partial
from typing import Final

from esp.controller.features import SUPPORTED_FEATURES
from esp.model.ids import TRANSACTIONS_TOPIC, TopicId, TopicPartition
from esp.settings.topic import TopicSettings
from esp.simulation.checkers import probe
from esp.simulation.checkers.client_checker import ClientChecker
from esp.simulation.checkers.committed_images import CommittedImages
from esp.simulation.checkers.compacted_records import CompactedRecords
from esp.simulation.checkers.convergence import (
    find_helpless,
    find_rot_in_service,
    find_silent_lanes,
    find_stranded,
    find_unconverged,
)
from esp.simulation.checkers.early_purges import EarlyPurges, find_left
from esp.simulation.checkers.feature_checker import FeatureChecker, is_too_old
from esp.simulation.checkers.log_start_checker import Taken
from esp.simulation.checkers.losses_told import LossesTold
from esp.simulation.checkers.metadata_checker import MetadataChecker
from esp.simulation.checkers.one_life import OneLifeChecker
from esp.simulation.checkers.quorum_checker import QuorumChecker
from esp.simulation.checkers.replica_checker import ReplicaChecker
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.checkers.rising_starts import RisingStarts
from esp.simulation.checkers.session_checker import SessionChecker
from esp.simulation.checkers.stopped_replicas import StoppedReplicas
from esp.simulation.checkers.told_offsets import ToldOffsets
from esp.simulation.checkers.trash_checker import check_restored_transactions
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.checkers.voter_checker import find_misplaced_voters, find_quorum_problems
from esp.simulation.derived_keys import remembered
from esp.simulation.excuses import Excuse, note
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.loop import Process, StuckError, current_process
from esp.simulation.nodes_tier.access import Access
from esp.simulation.nodes_tier.caretaker import (
    OWN_FAULT,
    blames_disk,
    find_damaged,
    find_named,
    find_unnamed,
    misses_member,
)
from esp.simulation.nodes_tier.cluster import SCRUB_INTERVAL_MS
from esp.simulation.nodes_tier.compaction_profile import COMPACTED, DELETE_RETENTION_MS
from esp.simulation.nodes_tier.consumer_groups import ConsumerGroups
from esp.simulation.nodes_tier.cooling import Cooler
from esp.simulation.nodes_tier.core import abandon_rest, choose_core
from esp.simulation.nodes_tier.faults import Fault
from esp.simulation.nodes_tier.given_up_starts import GivenUpStarts
from esp.simulation.nodes_tier.groups import Groups
from esp.simulation.nodes_tier.held_deletions import HeldDeletions
from esp.simulation.nodes_tier.late_epochs import late_epochs
from esp.simulation.nodes_tier.ledger import Ledger, copies_lost_allowed, is_flushed, lossy_restarts_allowed
from esp.simulation.nodes_tier.nemesis import Nemesis, draw_plan
from esp.simulation.nodes_tier.node import DELIBERATE, KILLED_IN_DISK, POWER_LOST, STOPPED, SimulatedNode
from esp.simulation.nodes_tier.offset_deletions import OffsetDeletions
from esp.simulation.nodes_tier.outage import Outage
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.quotas import Quotas
from esp.simulation.nodes_tier.rebalance_watch import RebalanceWatch
from esp.simulation.nodes_tier.rot import find_rotten_copies
from esp.simulation.nodes_tier.share_groups import ShareGroups
from esp.simulation.nodes_tier.tokens import Tokens
from esp.simulation.nodes_tier.transaction_profile import TRANSACTIONAL_TOPIC
from esp.simulation.nodes_tier.transactions import Transactions
from esp.simulation.nodes_tier.users import Users
from esp.simulation.nodes_tier.world import RESTART_S, World
from esp.simulation.outcome import Outcome
from esp.simulation.trace import logged_to
from esp.simulation.workload.clients import Clients
from esp.storage.log import Log

BOOT_S: Final = 30.0
CONVERGE_S: Final = 120.0
"""The time that a healed cluster may take: fetch and session time-outs, the lag time, and the back-offs of its clients."""

SCRUB_S: Final = 2 * SCRUB_INTERVAL_MS / 1000
"""Within which every sealed segment is read again."""

SETTLING_S: Final = 6.0
"""Until an idle cluster is at rest: each three seconds the controller gives internal topics the replicas that they lack."""
QUIET_S: Final = 10.0
STOP_S: Final = 60.0
READ_TRIES: Final = 50
"""The tries of a reader that asks all replicas of a partition that is whole."""

POLL_S: Final = 0.25
DEEP_CHECK_S: Final = 2.0
QUIET_DELIVERIES_PER_S: Final = 400
"""The most deliveries a second for each node of an idle cluster: heartbeats, fetches and their answers, with room to spare."""


class Run:
    """One run: brings the cluster up, carries out the plan of the faults under load, heals it, and checks it all the while.

    Args:
        profile: what the run is like.
        only: the places in the drawn plan of the faults that are brought; None for all.
        keep: called with each line of the trace; None if the trace is not read.
    """

    def __init__(
        self, profile: Profile, *, only: Collection[int] | None = None, keep: Callable[[str], None] | None = None
    ) -> None:
        plan = draw_plan(profile)
        self.plan: list[Fault] = plan if only is None else [plan[place] for place in sorted(only)]
        self._profile = profile
        self._world = world = World(profile, keep)
        self._ledger = _new_ledger(profile)
        self._replicas = ReplicaChecker(
            self._min_isr, self._min_isr_since, self._is_flushed, self._leader_epoch, self._ledger
        )
        self._replicas.begin_compacted = self._begin_compacted
        self._losses = LossesTold()
        self._replicas.on_loss = self._losses.on_loss
        self._stopped = StoppedReplicas(self._replicas.hosted_on, world.loop.time)
        self._metadata = MetadataChecker(self._replicas, self._ledger, self._stopped.since_s)
        self._features = FeatureChecker()
        self._quorum = QuorumChecker(self._ledger, world.loop.time)
        self._client_checker = ClientChecker(self._replicas.committed)
        self._told = self._new_told_offsets()
        self._clients = Clients(
            world,
            self._client_checker,
            self._told,
            self._replicas.log_starts,
            lambda: self._metadata.image,
            self._replicas.is_retired,
        )
        self._groups = Groups(world, self._clients.history, lambda: self._metadata.image, self._replicas)
        self._consumer_groups = self._new_consumer_groups()
        self._share_groups = self._new_share_groups()
        self._transactions = Transactions(
            world,
            self._clients.history,
            lambda: self._metadata.image,
            self._replicas,
            self._client_checker.on_read,
            self._groups.new_client,
        )
        self._access = Access(world, self._clients.history, lambda: self._metadata.image)
        self._users = Users(world, self._clients.history)
        self._tokens = Tokens(world, self._clients.history)
        self._quotas = Quotas(world, self._clients.history, lambda: self._quorum.last_led_epoch)
        self._replicas.on_committed = self._on_committed
        self._early_purges = EarlyPurges(self._on_found)
        self._nemesis = Nemesis(world, self.plan, self._ledger, lambda: probe.active_controller(world.nodes.values()))
        self._clients.administrator.before_deletion = self._nemesis.deletions.before_deletion
        self._offset_deletions = self._new_offset_deletions()
        self._one_life = self._new_one_life()
        self._sessions = SessionChecker(world.loop.time)
        self._rebalance = RebalanceWatch(world, self._metadata, self._replicas, self._clients.mover, self._on_found)
        self._by_process: dict[Process, SimulatedNode] = {}
        self._found: ViolationError | None = None
        self._is_healed = False
        self._is_closing = False
        self._core: Collection[int] = frozenset(world.nodes)
        """The nodes that are healed in the end."""
        self._waiting = 0
        """Partitions that wait for an operator in the end."""
        self._given_up_starts = GivenUpStarts(world, self._ledger)
        self._administration: list[asyncio.Task[None]] = []
        self._nemesis.caretaker.tell(self._replicas)
        self._attach()

    def _new_told_offsets(self) -> ToldOffsets:
        starts = self._replicas.highest_log_starts
        return ToldOffsets(
            self._replicas.committed, self._leader_epoch, lambda key: starts.get(key, 0), self._world.loop.time
        )

    def _new_consumer_groups(self) -> ConsumerGroups:
        history = self._clients.history
        return ConsumerGroups(self._world, history, lambda: self._metadata.image, self._replicas, self._groups)

    def _new_share_groups(self) -> ShareGroups:
        history = self._clients.history
        return ShareGroups(
            self._world, history, lambda: self._metadata.image, self._replicas, self._groups, self._on_found
        )

    def _new_one_life(self) -> OneLifeChecker:
        claimants, now_s = self._nemesis.twins.claimants, self._world.loop.time
        return OneLifeChecker(claimants, now_s, self._on_found, self._metadata.on_unclean, self._metadata.on_removal)

    def _new_offset_deletions(self) -> OffsetDeletions:
        history, bring = self._clients.history, self._nemesis.deletions.before_offsets_go
        return OffsetDeletions(self._world, history, lambda: self._metadata.image, self._groups, bring)

    def _attach(self) -> None:
        """Be called at the turns of the loop, at the lives of the nodes, and where administrators and checkers need one another."""
        self._replicas.log_starts.on_retained = self._on_retained
        self._clients.record_deleter.on_held_deleted = self._groups.holds.on_records_deleted
        holds, log_starts = self._groups.holds, self._replicas.log_starts
        deletions = HeldDeletions(self._world, lambda: self._metadata.image, log_starts, holds)
        self._clients.administrator.on_deleting = deletions.on_deleting
        self._clients.administrator.before_trash = self._transactions.before_trash
        self._share_groups.checker.on_words = self._nemesis.share_writes.on_words
        self._nemesis.share_writes.end_sessions = self._share_groups.end_sessions_of
        self._metadata.trash.is_asked = lambda topic_id: (
            topic_id in self._early_purges.asked or topic_id in self._clients.administrator.asked_purges
        )
        self._world.loop.on_turn = self._on_turn
        for node in self._world.nodes.values():
            node.on_end = self._on_end
            node.on_start = self._replicas.on_start
            node.on_new_disk = self._on_new_disk

    def execute(self) -> Outcome:
        """Run, and say what came of it. Violations are part of the outcome; nothing else is caught but what ends a simulation."""
        world = self._world
        violation, details = None, ""
        try:
            with self._watched(), remembered(), logged_to(world.trace, _running_process):
                world.loop.run(self._main())
        except ViolationError as error:
            violation = error
        except StuckError as error:
            violation = ViolationError("LIVE-NO-STUCK", "the simulation", str(error))
        except Exception as error:
            violation = ViolationError("INV-NO-CRASH", "a node", repr(error))
            details = traceback.format_exc()
        if violation is not None:
            world.trace.say("checker", str(violation))
        return self._outcome(violation, details)

    def _outcome(self, violation: ViolationError | None, details: str) -> Outcome:
        """The run in figures."""
        world, history = self._world, self._clients.history
        outcome = Outcome(
            seed=self._profile.seed,
            violation=str(violation) if violation is not None else None,
            invariant=violation.invariant if violation is not None else None,
            simulated_s=world.loop.time(),
            steps=world.loop.steps,
            faults=self._nemesis.effective,
            acked_records=history.acked_records,
            read_records=history.read_records,
            digest=world.trace.digest,
            taken_places=self._nemesis.twins.taken_places,
            second_voters=self._nemesis.voter_twins.count,
            administered=history.done,
            abandoned_nodes=len(world.keeps_down),
            given_up_starts=self._given_up_starts.count,
            retired_batches=history.retired_batches,
            losses=self._losses.losses,
            waiting_partitions=self._waiting,
            emptied_replicas=self._clients.asker.emptied_replicas,
            spoilt_batches=world.network.flips.count,
            excused_reads=world.network.flips.excused,
            details=details,
        )
        parts = (
            *(self._ledger, self._replicas, self._metadata, self._told, self._offset_deletions),
            *(self._groups, self._consumer_groups, self._share_groups, self._transactions),
            *(self._access, self._users, self._tokens, self._quotas),
        )
        for part in parts:
            outcome = part.added_to(outcome)
        return outcome

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Let the checkers look at what nodes do within their steps, until the block ends."""
        replicas = self._replicas
        within_steps = (
            self._losses,
            replicas.rises,
            replicas.replacements,
            self._stopped,
            RisingStarts(self._before_start),
            CommittedImages(self._running_disk, self._metadata.on_committed, self._on_found),
            self._rebalance,
            self._one_life,
            self._sessions,
            self._early_purges,
            self._groups.holds,
            self._share_groups,
        )
        transactions = self._profile.transactions
        with contextlib.ExitStack() as stack:
            for checker in within_steps:
                stack.enter_context(checker.watched())
            if transactions is not None and transactions.first_epoch:
                stack.enter_context(late_epochs(transactions.first_epoch))
            yield

    # --- phases ------------------------------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        await self._boot()
        await self._create_topics()
        self._world.spawn(self._watch())
        self._administration = self._clients.administer()
        self._groups.begin()
        self._offset_deletions.begin()
        self._consumer_groups.begin()
        self._share_groups.begin()
        self._transactions.checker.on_decision = self._nemesis.coordinators.on_decision
        self._transactions.begin()
        self._access.begin()
        self._users.begin()
        self._tokens.begin()
        self._quotas.begin()
        nemesis = self._world.spawn(self._nemesis.run())
        cooler = Cooler(self._world, self._ledger.poisoned)
        if self._profile.cools:
            self._world.spawn(cooler.run())
        await asyncio.sleep(self._profile.chaos_s)
        cooler.is_stopping = True
        await nemesis
        if self._profile.outage is not None:
            await Outage(self._world, self._profile.outage).run()
        await self._heal()
        await self._drain()
        await self._consumer_groups.end(self._until, self._find_helpless)
        await self._offset_deletions.end(self._until, self._find_helpless)
        await self._groups.end(self._until, self._find_helpless, self._core)
        await self._transactions.end(self._until, self._find_helpless)
        await self._share_groups.end(self._until, self._find_helpless)  # which read to the ends of transactions
        await self._rest()
        await self._read_everything()
        await self._stop()

    async def _boot(self) -> None:
        self._phase("boot")
        booting = self._world.spawn(self._world.boot())
        await self._until(BOOT_S, "LIVE-NO-STUCK", lambda: [] if booting.done() else ["the nodes do not come up"])
        down = [node.name for node in self._world.nodes.values() if not node.is_serving]
        if down:
            raise ViolationError("LIVE-NO-STUCK", ", ".join(down), self._world.nodes[1].end_reason)

    async def _create_topics(self) -> None:
        for topic in self._profile.every_topic:
            if not await self._clients.create_topic(topic):
                raise ViolationError("LIVE-PRODUCE", topic.name, "the topic cannot be created")
        await self._until(
            BOOT_S,
            "LIVE-ISR",
            lambda: [
                topic.name
                for topic in self._profile.every_topic
                if topic.name not in self._metadata.image.topics_by_name
            ],
        )
        self._begin_topics()

    async def _heal(self) -> None:
        """Lift all faults, or those of a core that must do without the rest. It must become whole, and take records, in time."""
        self._phase("heal")
        self._nemesis.end()
        self._groups.calm()
        self._consumer_groups.calm()
        self._share_groups.calm()
        self._access.calm()
        self._users.calm()
        self._tokens.calm()
        self._quotas.calm()
        self._transactions.calm()
        self._is_healed = True
        world = self._world
        self._clients.calm()
        may_do_without = not (self._ledger.copies or self._ledger.members or self._ledger.moved)
        if self._profile.heals_core_only and may_do_without:
            rng = world.random("core")
            doubtful = self._clients.quorum_administrator.doubtful(world.loop.time())
            moves = self._clients.mover.doubtful(world.loop.time())
            minimums = self._clients.doubtful_minimums
            self._core = choose_core(rng, world.nodes, self._metadata.image, doubtful, moves, minimums)
            abandon_rest(rng, world, self._core)
            lost = [number for number in self._profile.layout.brokers if number not in self._core]
            self._clients.avoid(lost)
            self._share_groups.avoid(lost)
            self._quotas.avoid(lost)
        for number in sorted(self._core):
            node = world.nodes[number]
            if not node.is_alive:
                world.spawn(world.start(node))
            elif node.disk_was_faulty:
                world.spawn(self._mend(node))
        healed_s = world.loop.time()
        await self._until(CONVERGE_S, "LIVE-PRODUCE", lambda: self._silent_lanes(healed_s))
        await self._until(CONVERGE_S, "LIVE-PRODUCE", lambda: self._quotas.find_silent(healed_s))
        self._clients.stop()
        self._access.stop()
        self._quotas.stop()
        opening = self._world.spawn(self._access.open_topics())
        await self._until(CONVERGE_S, "LIVE-NO-STUCK", lambda: [] if opening.done() else ["rules of topics stay"])

    def _find_helpless(self) -> list[tuple[TopicId, int]]:
        return find_helpless(self._metadata.image, self._core, self._replicas)

    def _silent_lanes(self, since_s: float) -> list[str]:
        image = self._metadata.image
        stranded = find_stranded(image, self._core)
        return [
            f"{lane.producer} to {lane.topic}-{lane.partition}"
            for lane in find_silent_lanes(self._clients.history.lanes, since_s, image)
            if not self._replicas.is_excused(key := (lane.topic_id, lane.partition)) and key not in stranded
        ]

    async def _mend(self, node: SimulatedNode) -> None:
        """Restart a node whose disk failed, as its operator does: a log that failed is served again after that only (LOG-13)."""
        # Only a node that has come up can be shut down cleanly, and it does not announce that it has.
        while node.is_alive and not node.is_serving:  # noqa: ASYNC110 - see above
            await asyncio.sleep(POLL_S)
        if node.is_alive:
            await node.stop()
        if not node.is_alive:
            await self._world.start(node)

    async def _drain(self) -> None:
        self._phase("drain")
        await self._until(
            CONVERGE_S,
            "LIVE-PRODUCE",
            lambda: [f"{self._clients.pending_batches} batches are pending"] if self._clients.pending_batches else [],
        )
        await self._until(
            CONVERGE_S,
            "LIVE-NO-STUCK",
            lambda: [] if all(task.done() for task in self._administration) else ["an administrator waits"],
        )
        await self._rebalance.settle(self._until, self._core, self._unconverged, CONVERGE_S)
        await self._until(
            CONVERGE_S, "LIVE-NO-STUCK", lambda: probe.directory_moves(self._world.nodes[n] for n in sorted(self._core))
        )
        if self._clients.upgrader is not None:
            await self._clients.upgrader.finish()
        if self._ledger.rotten:
            await asyncio.sleep(SCRUB_S)
            await self._until(
                CONVERGE_S, "LIVE-ISR", lambda: self._unconverged() + find_rot_in_service(self._world.living)
            )

    async def _rest(self) -> None:
        """An idle cluster stays as it is, and says little (LIVE-QUIET)."""
        for topic_id, partition in (waiting := self._find_helpless()):
            topic = self._metadata.image.topics_by_id[topic_id]
            self._world.trace.say(
                "run", f"{topic.name}-{partition} waits for an operator: {topic.partitions[partition]}"
            )
        self._waiting = len(waiting)
        self._phase("rest")
        await asyncio.sleep(SETTLING_S)
        image = self._metadata.image
        topics, events = image.topics_by_id, self._world.trace.events
        await asyncio.sleep(QUIET_S)
        if self._metadata.image.topics_by_id != topics:
            raise ViolationError("LIVE-QUIET", "the cluster", "partitions change though nothing happens")
        for node in self._world.living:
            if node.is_serving and node.node_id in self._core:
                _check_purged(node, {*image.topics_by_id, *image.trashed_topics})
        rate = (self._world.trace.events - events) / QUIET_S
        most = QUIET_DELIVERIES_PER_S * len(self._world.nodes)
        if rate > most:
            raise ViolationError(
                "LIVE-QUIET", "the cluster", f"{rate:.0f} deliveries and device waits a second, more than {most}"
            )

    async def _read_everything(self) -> None:
        self._phase("read")
        for node in self._world.living:
            if node.node_id not in self._core:
                node.kill()  # a reader without newer metadata would be content with what it says
        for node in self._world.living:
            self._replicas.check_deeply(node)
        image = self._metadata.image
        stranded = find_stranded(image, self._core)
        for (topic_id, partition), committed in self._replicas.committed.items():
            topic = image.topics_by_id.get(topic_id)
            if topic is None or committed.is_excused or (topic_id, partition) in stranded:
                continue
            if topic.partitions[partition].restored_epoch >= 0:
                check_restored_transactions(
                    committed.name,
                    committed.batches.values(),
                    topic.partitions[partition].restored_epoch,
                    self._transactions.abandoned.producer_ids,
                )
            reader = self._clients.final_reader
            end = await reader.read_to(topic.name, topic_id, partition, committed.end_offset, tries=10_000)
            if end < committed.end_offset:
                raise ViolationError(
                    "INV-ACK-DURABLE", f"{committed.name}", f"readers come to {end} of {committed.end_offset}"
                )
            asks = self._profile.asks_offsets and committed.last is not None and committed.compacted is None
            is_held = asks and self._transactions.is_open(committed.name)
            self._transactions.held_ends += is_held
            if asks and not is_held:
                state = topic.partitions[partition]
                in_sync = [number for number in state.isr if number in self._core]
                last_offset = committed.end_offset - 1
                short = await self._clients.asker.find_short(
                    topic.name,
                    topic_id,
                    partition,
                    in_sync,
                    last_offset,
                    READ_TRIES,
                    partial(self._log_start_on, (topic_id, partition)),
                )
                if short is not None:
                    raise ViolationError("LIVE-READ", f"{committed.name}", short)
        self._metadata.floors.check()
        self._client_checker.check_history(self._clients.history)
        self._access.checker.check_end(self._metadata.image)
        self._users.checker.check_end(self._metadata.image)
        self._tokens.checker.check_end(self._metadata.image, self._world.nodes[1].settings.delegation_terms)
        self._quotas.checker.check_end(self._metadata.image)

    async def _stop(self) -> None:
        self._phase("stop")
        self._is_closing = True
        stopping = [self._world.spawn(node.stop()) for node in self._world.living]
        await self._until(
            STOP_S,
            "LIVE-NO-STUCK",
            lambda: [] if all(task.done() for task in stopping) else ["nodes do not stop in order"],
        )

    # --- watching ------------------------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Run the checks that are due from time to time."""
        while not self._is_closing:
            await asyncio.sleep(DEEP_CHECK_S)
            for node in self._world.living:
                self._replicas.check_deeply(node)
                self._transactions.look(node)
            self._begin_topics()
            self._rebalance.look()
            self._given_up_starts.look()
            self._forget_rot()
            if not self._world.keeps_down and not self._unconverged():
                self._ledger.on_whole()

    def _forget_rot(self) -> None:
        """Rot counts until nothing is left of it: the files were removed, or the disk is another one."""
        for node_id in tuple(self._ledger.rotten):
            if not find_rotten_copies(self._world.nodes[node_id].disk):
                del self._ledger.rotten[node_id]

    def _begin_topics(self) -> None:
        image = self._metadata.image
        stranded = find_stranded(image, self._core) if self._is_healed and self._core_is_up() else []
        restores = not self._is_healed or not all(task.done() for task in self._administration)
        for producer in self._clients.producers:
            for topic_id, partition in tuple(producer.lanes):
                key = (topic_id, partition)
                may_come_back = topic_id in image.trashed_topics and restores
                is_gone = topic_id not in image.topics_by_id and not may_come_back
                if is_gone or self._replicas.is_given_up(key) or key in stranded:
                    producer.give_up(topic_id, partition)
        if not self._is_healed:
            for topic in image.topics_by_id.values():
                self._clients.begin_topic(topic)

    def _core_is_up(self) -> bool:
        """True if every node of the core serves with all its disks: until then a directory that failed may come back."""
        core = [self._world.nodes[number] for number in self._core]
        return all(node.is_serving and not node.disk_was_faulty for node in core)

    def _unconverged(self) -> list[str]:
        core = [node for node in self._world.nodes.values() if node.node_id in self._core]
        serving = [node for node in core if node.is_serving]
        missing = [f"{node.name} does not serve" for node in core if not node.is_serving]
        image = self._metadata.image
        quorum = find_quorum_problems(serving) + find_misplaced_voters(serving)
        return missing + quorum + find_unconverged(image, serving, self._replicas)

    async def _until(self, limit_s: float, invariant: str, find_problems: Callable[[], list[str]]) -> None:
        """Wait until nothing is wrong any more; a violation of ``invariant`` if that takes too long."""
        end_s = self._world.loop.time() + limit_s
        while True:
            problems = find_problems()
            if not problems:
                return
            if self._world.loop.time() > end_s:
                raise ViolationError(invariant, "the cluster", f"after {limit_s:g} s: " + "; ".join(problems))
            await asyncio.sleep(POLL_S)

    def _on_turn(self, touched: dict[Process, None]) -> None:
        if self._found is not None:
            found, self._found = self._found, None
            raise found
        for process in touched:
            if process not in self._by_process and (
                self._nemesis.twins.look(process) or self._nemesis.voter_twins.look(process)
            ):
                continue
            node = self._node_of(process)
            if node is not None and process.alive:
                self._quorum.look(node)
                self._features.look(node)
                self._sessions.look(node)
                self._metadata.look(node, self._world.loop.time())
                self._replicas.look(node)

    def _node_of(self, process: Process) -> SimulatedNode | None:
        """The node that a process is; None if it is a second one of a node, or something else."""
        node = self._by_process.get(process)
        if node is None:
            node = next((node for node in self._world.nodes.values() if node.process is process), None)
            if node is not None:
                self._by_process[process] = node
        return node

    def _running_node(self) -> SimulatedNode | None:
        """The node of the running code; None for a second process of a node, and for the world outside."""
        process = current_process()
        return self._node_of(process) if process is not None else None

    def _running_disk(self) -> SimulatedDisk | None:
        node = self._running_node()
        return node.disk if node is not None else None

    def _before_start(self, log: Log, start_offset: int) -> None:
        node = self._running_node()
        if node is None:
            return
        try:
            self._metadata.look(node, self._world.loop.time())
            self._replicas.before_start(node, log, start_offset)
        except ViolationError as error:  # the node must not take it for an error of its own
            self._on_found(error)

    def _on_committed(self, partition: TopicPartition, batches: list[BatchView]) -> None:
        self._groups.on_committed(partition, batches)
        self._consumer_groups.on_committed(partition, batches)
        self._share_groups.on_committed(partition, batches)
        self._transactions.on_committed(partition, batches)

    def _on_found(self, violation: ViolationError) -> None:
        """Something was found in the midst of a node's step; the first one counts, when the turn ends."""
        self._found = self._found or violation

    def _on_end(self, node: SimulatedNode) -> None:
        process = node.process
        assert process is not None
        reason = process.end_reason
        self._by_process.pop(process, None)
        self._look_at_last_turn(node, process)
        keeps_page_cache = reason != POWER_LOST
        self._replicas.on_end(node, keeps_page_cache=keeps_page_cache, has_faulty_disk=node.disk_was_faulty)
        self._metadata.on_end(node)
        if reason != STOPPED:
            self._ledger.on_end(node.node_id, was_starting=node.is_starting)
        is_own = reason not in DELIBERATE
        named = find_damaged(node) or find_unnamed(node)
        names_a_loss = bool(find_named(node)) or named is not None or misses_member(node)
        is_excused = is_own and names_a_loss
        if is_own and is_too_old(node, self._metadata.image):
            note(Excuse.OUTDATED_RELEASES)
            is_excused, node.features = True, SUPPORTED_FEATURES  # as its operator is told to
        is_excused = is_excused or self._given_up_starts.excuses(node)
        if is_own and not is_excused and blames_disk(node):
            note(Excuse.FAULTY_DISKS)
            is_excused = True
        if is_own and (not is_excused or OWN_FAULT.search(reason)):
            self._found = self._found or ViolationError("INV-NO-CRASH", node.name, f"the node ended itself: {reason}")
        if is_own or reason == KILLED_IN_DISK:
            self._world.loop.call_soon(self._world.start_later, node, RESTART_S, context=self._world.context)

    def _look_at_last_turn(self, node: SimulatedNode, process: Process) -> None:
        """Look at what a process left: it may have committed, and told its clients, in its last turn.

        If it has ended in the midst of a step of its own it need not be consistent.
        """
        try:
            self._replicas.look(node)
        except ViolationError as error:
            if current_process() is process:
                note(Excuse.UNFINISHED_STEPS)
            else:
                self._on_found(error)

    def _on_new_disk(self, node: SimulatedNode) -> None:
        self._replicas.on_new_disk(node)
        self._quorum.on_new_disk(node)

    # --- what the checkers ask -----------------------------------------------------------------------------------------------------

    def _min_isr(self, topic_id: TopicId, partition: int, partition_epoch: int) -> int:
        return self._metadata.minimums.least(topic_id, partition, partition_epoch)

    def _min_isr_since(self, topic_id: TopicId, partition: int, partition_epoch: int) -> int:
        return self._metadata.minimums.least_since(topic_id, partition, partition_epoch)

    def _begin_compacted(self, topic: str) -> CompactedRecords | None:
        """The model of a partition of a topic, None if it is not compacted.

        Wall clocks part by up to 20 %, and jump in part of the runs.
        """
        transactions = self._profile.transactions
        stay_ms = DELETE_RETENTION_MS
        if topic == TRANSACTIONAL_TOPIC and transactions is not None and transactions.compaction is not None:
            stay_ms = transactions.compaction.delete_retention_ms
        elif topic not in (COMPACTED, TRANSACTIONS_TOPIC):
            return None
        rates = self._profile.clock_rates
        stay_s, drift = stay_ms / 1000 / max(rates), max(rates) - min(rates)
        return CompactedRecords(
            self._world.loop.time, stay_s, drift, lambda since_s: self._leap_s(since_s) / max(rates)
        )

    def _leap_s(self, since_s: float) -> float:
        """By how much the wall clocks of all nodes were apart at most since a time, by jumps alone."""
        shifts = [shift_ms for node in self._world.nodes.values() for shift_ms in node.clock.shifts_since(since_s)]
        return (max(shifts) - min(shifts)) / 1000

    def _on_retained(self, who: str, key: tuple[TopicId, int], settings: TopicSettings, taken: Taken) -> None:
        """A replica gives up records of a topic that groups hold; one that is not there any more is held by none."""
        topic = self._metadata.image.topics_by_id.get(key[0])
        if topic is not None:
            self._groups.holds.on_taken(who, TopicPartition(topic.name, key[1]), settings, taken)

    def _log_start_on(self, key: tuple[TopicId, int], node_id: int) -> int:
        view = self._replicas.views.get(node_id, {}).get(key)
        return view.log_start_offset if view is not None else 0

    def _is_flushed(self, topic_id: TopicId) -> bool:
        topic = self._metadata.image.topics_by_id.get(topic_id)
        return topic is not None and is_flushed(topic.configs)

    def _leader_epoch(self, topic_id: TopicId, partition: int) -> int:
        topic = self._metadata.image.topics_by_id.get(topic_id)
        return topic.partitions[partition].leader_epoch if topic is not None else -1

    def _phase(self, name: str) -> None:
        self._world.trace.say("run", f"--- {name}")


def _new_ledger(profile: Profile) -> Ledger:
    """The account of a run."""
    return Ledger(
        lossy_restarts_allowed(profile.every_topic),
        copies_allowed=copies_lost_allowed(profile.every_topic),
        members_allowed=(len(profile.layout.first_voters) - 1) // 2,
        is_beyond_promise=profile.breaks_promise,
        believes_markers=profile.believes_markers,
    )


def _check_purged(node: SimulatedNode, known: Container[TopicId]) -> None:
    """Nothing is left of a topic that is not known any more, but in a directory whose disk has failed. Raises ViolationError."""
    online = probe.online_directories(node) if node.disk_was_faulty else node.settings.log_dirs
    offline = [directory for directory in node.settings.log_dirs if directory not in online]
    if find_left(node.disk, offline, known):
        note(Excuse.UNPURGED_TRASH)
    left = find_left(node.disk, online, known)
    if left:
        raise ViolationError("INV-TRASH", node.name, f"has {left} of topics that were purged")


def _running_process() -> str:
    process = current_process()
    return process.name if process is not None else "clients"
