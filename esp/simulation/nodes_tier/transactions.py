"""The transactions of a run: raises the cluster's level, sets producers and readers to work, and says in the end whether all is well."""

import asyncio
import dataclasses
import datetime as dt
from collections.abc import Callable, Collection, Iterable
from typing import Final

from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.static.primitive import i8, i16, i32Timedelta

from esp.controller.feature_updates import UpgradeType
from esp.controller.image import ClusterImage
from esp.model.errors import ErrorCode
from esp.model.features import TRANSACTION_VERSION
from esp.model.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from esp.protocol.registry import ApiKey
from esp.simulation.checkers import probe
from esp.simulation.checkers.replica_checker import ReplicaChecker
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.checkers.transaction_checker import TransactionChecker
from esp.simulation.checkers.transaction_history import TransactionHistory
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.cluster import CLIENT_HOST, bootstrap_addresses
from esp.simulation.nodes_tier.groups import Key, Until
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.transaction_profile import LEVEL, LOWER_LEVEL, STATE_CONFIGS, TRANSACTIONAL_TOPIC
from esp.simulation.nodes_tier.world import World
from esp.simulation.outcome import Outcome
from esp.simulation.workload import admin_requests
from esp.simulation.workload.abandoned_transactions import ABANDONED, AbandonedTransactions
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.committed_reader import CommittedReader
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.consumer import Seen
from esp.simulation.workload.history import History
from esp.simulation.workload.policy_setter import PolicySetter
from esp.simulation.workload.producer import KeyDraws
from esp.simulation.workload.transaction_client import TransactionClient
from esp.simulation.workload.transaction_crew import NewGroupClient, TransactionCrew

STABLE_S: Final = 120.0
"""The time that transactions may take to end in a cluster that is whole, beside the longest of their timeouts."""

COMMITS_ALONE: Final = 8
"""The number of transactions of each id that must be committed in a whole cluster where next to nothing else goes on."""

TIMEOUT_S: Final = 10.0
BACKOFF_S: Final = 0.5
READ_TRIES: Final = 10_000
OFFSET_TRIES: Final = 100
LOOK_AGAIN_TRIES: Final = 20
"""After so many the coordinator of a group is looked for anew."""
UPDATE_FEATURES_VERSION: Final = 2


class Transactions:
    """The crews of a run's transactional ids, and their checker; nothing if the run has none.

    Args:
        world: the cluster in which they live.
        history: counts what clients met with.
        image: the newest committed metadata.
        replicas: knows what is committed, and whether a partition lost more than is promised.
        seen: told of what readers got.
        new_group_client: makes a client of a group by the group's and its own name.
    """

    def __init__(
        self,
        world: World,
        history: History,
        image: Callable[[], ClusterImage],
        replicas: ReplicaChecker,
        seen: Seen,
        new_group_client: NewGroupClient,
    ) -> None:
        self._world = world
        self._history = history
        self._image = image
        self._replicas = replicas
        self._profile = profile = world.profile.transactions
        self.checker = TransactionChecker(TRANSACTIONAL_TOPIC, world.loop.time, TransactionHistory(), self._is_excused)
        self.held_ends = 0
        """Partitions of which a transaction that cannot end holds the latest offset."""
        self.left_behind = 0
        """Leaders in the end that others have replaced, and whose last stable offset does not reach their high watermark."""
        self._seen = seen
        self._partitions = [
            TopicPartition(TRANSACTIONAL_TOPIC, number) for number in range(profile.partitions if profile else 0)
        ]
        self._crews = [
            TransactionCrew(
                one,
                self._partitions,
                world.random(f"crew of {one.name}"),
                self.checker.history,
                history,
                self._new_client,
                new_group_client,
                world.random(f"late requests of {one.name}"),
                self._new_keys(one.name),
                lambda: self._level() >= LEVEL,
            )
            for one in (profile.ids if profile else ())
        ]
        self._reader = self._new_reader("reader of committed records")
        self._working: list[asyncio.Task[None]] = []
        self.abandoned = AbandonedTransactions(
            TransactionClient(self._new_client(ABANDONED), ABANDONED),
            world.random(ABANDONED),
            self.checker.history,
            history,
        )
        """The transactions that are abandoned in topics that are deleted."""
        self.checker.unwatched = frozenset((ABANDONED,))
        self._policy_setter = self._new_policy_setter()

    def on_committed(self, partition: TopicPartition, batches: Iterable[BatchView]) -> None:
        """Batches were seen to be committed for the first time. Raises ViolationError: see TransactionChecker.on_committed."""
        if self._profile is not None:
            self.checker.on_committed(partition, batches)

    def begin(self) -> None:
        """Raise the level, and set all clients to work."""
        if self._profile is not None:
            self._working.append(self._world.spawn(self._begin()))

    async def _begin(self) -> None:
        assert self._profile is not None, "a run with transactions"
        client, rises_s = self._new_client("operator of features"), self._profile.rises_s
        await self._raise_to(LEVEL if rises_s is None else LOWER_LEVEL, client)
        topic_id = self._image().topics_by_name[TRANSACTIONAL_TOPIC].topic_id
        if self._profile.compacts:
            self._working.append(self._world.spawn(self._compact_coordinators()))
        if self._policy_setter is not None:
            self._working.append(self._world.spawn(self._policy_setter.run()))
        self._working += [self._world.spawn(crew.run()) for crew in self._crews]
        self._working += [
            self._world.spawn(self._reader.run(TRANSACTIONAL_TOPIC, topic_id, number)) for _, number in self._partitions
        ]
        if rises_s is not None:
            await asyncio.sleep(rises_s)
            await self._raise_to(LEVEL, client)
        client.close()

    async def _raise_to(self, level: int, client: ClusterClient) -> None:
        """Raise the level until the metadata have it; nothing if they do."""
        while self._level() < level:
            await self._ask_to_raise_to(level, client)
            await asyncio.sleep(BACKOFF_S)

    def _level(self) -> int:
        """The newest level that is committed."""
        return self._image().features.get(TRANSACTION_VERSION, 0)

    async def _compact_coordinators(self) -> None:
        """Have the logs of coordinators rolled and compacted, from the time on at which there are any."""
        client = self._new_client("operator of coordinators")
        request = admin_requests.alter_configs(admin_requests.TOPIC, {TRANSACTIONS_TOPIC: STATE_CONFIGS})
        version = admin_requests.INCREMENTAL_ALTER_CONFIGS_VERSION
        while True:
            await asyncio.sleep(BACKOFF_S)
            try:
                connection = await client.any_broker()
                answer = await connection.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request, TIMEOUT_S)
            except NoAnswerError as error:
                self._history.on_no_answer(client.name, str(error))
            else:
                code = ErrorCode(answer.responses[0].error_code)
                if code is ErrorCode.none or self._reader.is_stopping:
                    break
                self._history.on_refusal(client.name, code.name)
        client.close()

    async def _ask_to_raise_to(self, level: int, client: ClusterClient) -> None:
        update = FeatureUpdateKey(
            feature=TRANSACTION_VERSION, max_version_level=i16(level), upgrade_type=i8(UpgradeType.UPGRADE)
        )
        request = UpdateFeaturesRequest(
            timeout=i32Timedelta.parse(dt.timedelta(seconds=TIMEOUT_S)), feature_updates=(update,), validate_only=False
        )
        try:
            connection = await client.any_broker()
            answer = await connection.call(ApiKey.UPDATE_FEATURES, UPDATE_FEATURES_VERSION, request, TIMEOUT_S)
        except NoAnswerError as error:
            self._history.on_no_answer(client.name, str(error))
        else:
            if answer.error_code is not ErrorCode.none:
                self._history.on_refusal(client.name, ErrorCode(answer.error_code).name)

    def look(self, node: SimulatedNode) -> None:
        """Hold the last stable offsets of a node against what is committed. Raises ViolationError: INV-LSO."""
        if self._profile is None:
            return
        for hosted in probe.hosted_partitions(node):
            if hosted.name.topic == TRANSACTIONAL_TOPIC:
                log = hosted.log
                view = self._replicas.views[node.node_id].get((hosted.topic_id, hosted.name.partition))
                self.checker.check_stable(
                    f"{node.name}, {hosted.name}",
                    hosted.name,
                    stable=log.last_stable_offset,
                    high_watermark=log.high_watermark,
                    log_start=log.log_start_offset,
                    compacted=view.batches if view is not None and self._profile.compaction is not None else None,
                    has_rotted=log.rot is not None,
                )

    def is_open(self, partition: TopicPartition) -> bool:
        """True if a partition has a transaction that has not ended: in the end only if its coordinator waits for an operator."""
        return bool(self.checker.fold(partition).open)

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome of a run with what was not judged of its transactions."""
        checker = self.checker
        return dataclasses.replace(
            outcome,
            unverified_batches=checker.unverified,
            unjudged_transactions=checker.unjudged,
            one_turn_completions=checker.one_turn_completions,
            late_begins=checker.late_begins,
            unknown_begins=checker.unknown_begins,
            compacted_begins=checker.compacted_begins,
            rotten_markers=checker.rotten_markers,
            unjudged_refusals=checker.unjudged_refusals,
            left_behind_leaders=self.left_behind,
            held_ends=self.held_ends,
        )

    async def before_trash(self, name: str) -> None:
        """A topic is about to go into the trash: have a transaction be open in it then.

        Not where offsets are asked for: the checkers hold both kinds of readers to the same answers in topics without transactions.
        """
        if self._profile is None or self._world.profile.asks_offsets:
            return
        topic = self._image().topics_by_name.get(name)
        if topic is not None and TRANSACTIONS_TOPIC in self._image().topics_by_name:
            await self.abandoned.begin_in(topic)

    def calm(self) -> None:
        """The faults are over."""
        if self._policy_setter is not None:
            self._policy_setter.is_stopping = True
        for crew in self._crews:
            crew.calm()

    async def end(self, until: Until, find_helpless: Callable[[], Collection[Key]]) -> None:
        """Wait until every id commits again, let the producers end, then wait until every transaction has ended, and judge them all.

        Args:
            until: waits for the end of problems, in seconds, else an invariant is violated.
            find_helpless: partitions that cannot have a leader.

        Raises:
            ViolationError: LIVE-TXN, LIVE-NO-STUCK, INV-TXN-NO-HANG, INV-TXN-ATOMIC, INV-OFFSETS-TXN, INV-LSO, INV-ABORTED-LIST.
        """
        if self._profile is None:
            return
        whole_s = self._world.loop.time()
        if (
            not self._world.profile.heals_core_only
        ):  # else leaders and coordinators may live on that know nothing any more
            self.checker.whole_s = whole_s
        else:
            self.checker.core_s = whole_s
        given_up = self._find_given_up(find_helpless())
        if not given_up:
            await until(STABLE_S, "LIVE-TXN", lambda: self._find_idle(whole_s))
        for crew in self._crews:
            crew.stop(waits=not given_up)
        longest_s = max(one.timeout_s for one in self._profile.ids)
        await until(STABLE_S, "LIVE-NO-STUCK", self._find_running)
        await until(STABLE_S + longest_s, "LIVE-TXN", lambda: self._find_hanging(given_up))
        if not given_up:
            await self._ask_offsets()
        self.checker.judge(given_up)
        await self._read_everything(given_up)

    def _find_given_up(self, helpless: Collection[Key]) -> frozenset[TopicPartition]:
        """The partitions of which nothing is asked; all of them if a coordinator's partition is among them."""
        image = self._image()
        names = frozenset(
            TopicPartition(image.topics_by_id[topic_id].name, number)
            for topic_id, number in helpless
            if topic_id in image.topics_by_id
        )
        every = [
            TopicPartition(name, number)
            for name in (TRANSACTIONS_TOPIC, TRANSACTIONAL_TOPIC, OFFSETS_TOPIC)
            if name in image.topics_by_name
            for number in range(len(image.topics_by_name[name].partitions))
        ]
        found = frozenset(one for one in every if one in names or self._is_excused(one))
        return frozenset(every) if any(one.topic == TRANSACTIONS_TOPIC for one in found) else found

    def _find_idle(self, since_s: float) -> list[str]:
        history = self.checker.history
        least = COMMITS_ALONE if self._profile is not None and self._profile.is_alone else 1
        return [
            f"{count} transactions of {crew.profile.name} are committed"
            for crew in self._crews
            if (count := history.committed_since(crew.profile.name, since_s)) < least
        ]

    def _find_running(self) -> list[str]:
        self._reader.is_stopping = True
        return [] if all(task.done() for task in self._working) else ["a transactional client has not ended"]

    def _find_hanging(self, given_up: Collection[TopicPartition]) -> list[str]:
        """Transactions that have not ended, unless a partition can hold them up for good, and leaders whose readers wait."""
        if any(one.topic == TRANSACTIONS_TOPIC for one in given_up):
            return []
        found = self.checker.find_hanging(given_up)
        topic = self._image().topics_by_name[TRANSACTIONAL_TOPIC]
        self.left_behind = 0
        for node in self._world.living:
            for hosted in probe.hosted_partitions(node):
                log = hosted.log
                if (
                    hosted.leader is None
                    or hosted.name.topic != TRANSACTIONAL_TOPIC
                    or hosted.name in given_up
                    or log.last_stable_offset >= log.high_watermark
                ):
                    continue
                if topic.partitions[hosted.name.partition].leader == node.node_id:
                    found.append(f"{node.name}, {hosted.name}: stable up to {log.last_stable_offset}")
                else:
                    self.left_behind += 1
        return found

    async def _ask_offsets(self) -> None:
        """Ask once more for the offset of each application, all transactions of which have ended."""
        for crew in self._crews:
            if not crew.profile.commits_offsets:
                continue
            offsets = crew.new_offsets(f"last reader of offsets of {crew.profile.name}")
            for tries in range(OFFSET_TRIES):
                try:
                    await offsets.ask()
                except NoAnswerError as error:
                    answer = error
                    if tries % LOOK_AGAIN_TRIES == LOOK_AGAIN_TRIES - 1:
                        offsets.client.forget_coordinator()  # it may be cut off for ever from those that end transactions
                    await asyncio.sleep(BACKOFF_S)
                else:
                    break
            else:
                raise ViolationError("LIVE-TXN", offsets.client.group_id, f"tells no offset: {answer}")
            offsets.client.client.close()

    async def _read_everything(self, given_up: Collection[TopicPartition]) -> None:
        topic = self._image().topics_by_name[TRANSACTIONAL_TOPIC]
        for place in self._partitions:
            committed = self._replicas.of_partition((topic.topic_id, place.partition))
            if committed is None or place in given_up:
                continue
            reader = self._new_reader("last reader of committed records")
            # The end of a transaction that wrote to a partition that is given up may be repeated.
            wanted = committed.end_offset
            end = await reader.read_to(TRANSACTIONAL_TOPIC, topic.topic_id, place.partition, wanted, READ_TRIES)
            if end < wanted:
                raise ViolationError("LIVE-TXN", f"{place}", f"readers come to {end} of {wanted}")

    def _is_excused(self, partition: TopicPartition) -> bool:
        topic = self._image().topics_by_name.get(partition.topic)
        return topic is not None and self._replicas.is_excused((topic.topic_id, partition.partition))

    def _new_keys(self, transactional_id: str) -> KeyDraws | None:
        compaction = self._profile.compaction if self._profile is not None else None
        if compaction is None:
            return None
        rng = self._world.random(f"keys of {transactional_id}")
        return KeyDraws(rng, compaction.keys, compaction.tombstone_share)

    def _new_policy_setter(self) -> PolicySetter | None:
        compaction = self._profile.compaction if self._profile is not None else None
        if compaction is None or not compaction.changes_policy:
            return None
        name = "policy setter of transactions"
        return PolicySetter(TRANSACTIONAL_TOPIC, self._new_client(name), self._world.random(name), self._history)

    def _new_client(self, name: str) -> ClusterClient:
        world = self._world
        return ClusterClient(
            world.client_network(), bootstrap_addresses(world.profile.layout), name, world.random(f"client {name}")
        )

    def _new_reader(self, name: str) -> CommittedReader:
        reader = CommittedReader(
            self._new_client(name),
            self._world.random(name),
            self._history,
            self._seen,
            self._replicas.log_starts.on_told,
            is_spoilt=lambda batch: self._world.network.flips.excuses(CLIENT_HOST, batch),
        )
        reader.checker = self.checker
        return reader
