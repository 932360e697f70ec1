"""Runs the controller's decisions (:mod:`esp.controller`) on the metadata quorum.

Decide, then replay: a decision is made on the newest state, committed or not; its records are appended and replayed at once, and the image
that comes of it is published when they are committed. Nobody is answered before that (RAFT-21), not even with a refusal, since what it
rests on may not be committed yet.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from esp.broker.raft_driver import RaftDriver
from esp.controller.bootstrap import bootstrap_records
from esp.controller.brokers import (
    BrokerRegistration,
    ControllerRegistration,
    decide_broker_registration,
    decide_controlled_shutdown,
    decide_controller_registration,
    decide_unfence,
)
from esp.controller.decision import Decision, divide_into_batches
from esp.controller.errors import InvalidMetadataError
from esp.controller.features import METADATA_VERSION
from esp.controller.image import EMPTY_IMAGE, ClusterDelta, ClusterImage
from esp.controller.producer_ids import decide_producer_id_block
from esp.controller.replay import MetadataReplay
from esp.controller.topics import (
    CreatedTopic,
    DeletedTopic,
    NewTopic,
    TopicCreation,
    TopicDefaults,
    decide_delete_topics,
)
from esp.model.errors import ApiError, CorruptionError, OperatorError
from esp.model.ids import METADATA_PARTITION, METADATA_TOPIC_ID, BrokerEpoch, NodeId, TopicId
from esp.model.topic_settings import TopicSettings
from esp.ports.env import Env
from esp.raft.voters import VoterKey
from esp.records.batch import iterate_records
from esp.schemas.metadata_frames import UnknownRecordError, decode_record, encode_record
from esp.schemas.metadata_records import AbortTransactionRecord, MetadataRecord
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory

METADATA_LOG_SETTINGS: Final = TopicSettings(retention_ms=-1, retention_bytes=-1)
"""Kafka's, with nothing deleted by age or size: the log moves its start to a snapshot's end only (RAFT-31)."""

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """What a controller must know of its node."""

    directory: LogDirectory
    """The entry of ``log.dirs`` that holds the metadata log; formatted."""
    cluster_id: str
    registration: ControllerRegistration
    """What the controller says of itself."""
    defaults: TopicDefaults
    min_insync_replicas: int
    """The node's own value; the first controller of a cluster makes it the default of all (ELR-3)."""
    validate_topic_configs: Callable[[Mapping[str, str]], None]
    """Raises ApiError if a topic may not have these settings."""


class ControllerDriver:
    """The active controller, in a quorum of one; made by :meth:`start`.

    ``image`` is what was committed last. Methods return, or raise ApiError, once what they rest on is committed.
    """

    def __init__(
        self, env: Env, config: ControllerConfig, on_change: Callable[[ClusterImage, ClusterDelta], None]
    ) -> None:
        self.image = EMPTY_IMAGE
        self._env = env
        self._config = config
        self._on_change = on_change
        self._replay = MetadataReplay(EMPTY_IMAGE)
        self._uncommitted: deque[tuple[ClusterImage, ClusterDelta]] = deque()
        self._raft: RaftDriver

    @classmethod
    async def start(
        cls, env: Env, config: ControllerConfig, on_change: Callable[[ClusterImage, ClusterDelta], None]
    ) -> "ControllerDriver":
        """Recover and load the metadata log, lead the quorum, and write the records by which a controller begins.

        ``on_change`` is called from then on with every committed image and what it changed, the first time with everything.

        Raises:
            OperatorError: the log cannot be read by this release, is broken, or belongs to another node or cluster.
        """
        driver = cls(env, config, on_change)
        await driver._open(_open_log_blocking(env, config))
        return driver

    async def register_broker(self, registration: BrokerRegistration) -> BrokerEpoch:
        """See :func:`~esp.controller.brokers.decide_broker_registration`."""
        return await self._commit(
            lambda image: decide_broker_registration(image, registration, self._raft.next_offset),
            "Broker registration",
        )

    async def unfence_broker(self, node_id: NodeId, broker_epoch: BrokerEpoch) -> None:
        """See :func:`~esp.controller.brokers.decide_unfence`."""
        await self._commit(lambda image: decide_unfence(image, node_id, broker_epoch), "Unfence broker")

    async def controlled_shutdown(self, node_id: NodeId, broker_epoch: BrokerEpoch) -> None:
        """Return when the broker may stop: it leads nothing, is in no in-sync set, and is fenced (BRK-7)."""
        may_stop = False
        while not may_stop:
            may_stop = await self._commit(
                lambda image: decide_controlled_shutdown(image, node_id, broker_epoch), "Controlled shutdown"
            )

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool) -> list[CreatedTopic | ApiError]:
        """One answer for each topic, in the order of the topics. See :class:`~esp.controller.topics.TopicCreation`."""
        config = self._config
        return await self._commit(
            lambda image: TopicCreation(image, config.defaults, config.validate_topic_configs, self._env.random).decide(
                topics, validate_only=validate_only
            ),
            "Topic creation",
        )

    async def delete_topics(self, topics: Sequence[str | TopicId]) -> list[DeletedTopic | ApiError]:
        """One answer for each topic, in the order of the topics. See :func:`~esp.controller.topics.decide_delete_topics`."""
        return await self._commit(lambda image: decide_delete_topics(image, topics), "Topic deletion")

    async def allocate_producer_ids(self, node_id: NodeId, broker_epoch: BrokerEpoch) -> range:
        """Ids that nobody else has, for one broker. See :func:`~esp.controller.producer_ids.decide_producer_id_block`."""
        return await self._commit(
            lambda image: decide_producer_id_block(image, node_id, broker_epoch), "Producer id block"
        )

    async def close(self) -> None:
        """Return when everything that was decided is committed. The log is closed by its directory."""
        await self._raft.drain()

    async def _open(self, log: Log) -> None:
        try:
            self._raft = await RaftDriver.open(
                self._env, log, _local(self._config), on_batch=self._replay_batch, on_commit=self._on_commit
            )
        except (UnknownRecordError, InvalidMetadataError) as error:
            raise OperatorError(
                f"The metadata log {log.path} cannot be replayed: {error}.",
                "Use the release of the software that wrote it, or a newer one.",
            ) from error
        await self._raft.lead()
        self._publish()
        self._on_commit(self._raft.next_offset)
        await self._begin()

    async def _begin(self) -> None:
        """End what an earlier controller left half done; give a new cluster its first records; say who leads."""
        if self._replay.in_transaction:
            self._propose([AbortTransactionRecord(reason="The controller that began it is gone")])
        if METADATA_VERSION not in self._replay.image.features:
            self._propose(bootstrap_records(self._config.min_insync_replicas))
        registration = decide_controller_registration(self._config.registration)
        await self._commit(lambda _: registration, "Controller registration")

    async def _commit(self, decide: Callable[[ClusterImage], Decision[Reply]], name: str) -> Reply:
        """Decide on the newest state; return the reply, or raise the refusal, once everything decided so far is committed.

        Args:
            decide: makes the decision.
            name: of the metadata transaction, if one is needed.
        """
        refusal: ApiError | None = None
        try:
            decision = decide(self._replay.image)
        except ApiError as error:
            refusal = error
        else:
            for batch in divide_into_batches(decision.records, name):
                self._propose(batch)
        await self._raft.committed(self._raft.next_offset)
        if refusal is not None:
            raise refusal
        return decision.reply

    def _propose(self, records: Sequence[MetadataRecord]) -> None:
        """Take records into the newest state, and append them as one batch."""
        try:
            for offset, record in enumerate(records, start=self._raft.next_offset):
                self._replay.replay(offset, record)
        except InvalidMetadataError as error:  # RAFT-23: the state is half changed, and what was decided is wrong
            self._env.host.fatal(f"a decision of the controller cannot be applied: {error}")
        self._raft.propose([encode_record(record) for record in records])
        self._publish()

    def _publish(self) -> None:
        """Make an image of the newest state; it becomes :attr:`image` once everything that was appended so far is committed."""
        delta = self._replay.publish(self._raft.next_offset - 1, self._raft.epoch)
        self._uncommitted.append((self._replay.image, delta))

    def _replay_batch(self, batch: memoryview) -> None:
        for record in iterate_records(batch):
            if record.value is None:
                raise CorruptionError(f"the metadata record at {record.offset} has no value")
            self._replay.replay(record.offset, decode_record(record.value))

    def _on_commit(self, high_watermark: int) -> None:
        """Publish what is committed now, image by image."""
        while self._uncommitted and self._uncommitted[0][0].offset < high_watermark:
            self.image, delta = self._uncommitted.popleft()
            self._on_change(self.image, delta)


def _local(config: ControllerConfig) -> VoterKey:
    assert config.directory.meta is not None, "the directory is formatted"
    return VoterKey(config.registration.node_id, config.directory.meta.directory_id)


def _open_log_blocking(env: Env, config: ControllerConfig) -> Log:
    """Open the metadata log, or begin it."""
    directory = config.directory
    assert directory.meta is not None, "the directory is formatted"
    directory.meta.require(directory.path, cluster_id=config.cluster_id, node_id=config.registration.node_id)
    try:
        if directory.replicas.get(METADATA_PARTITION) is None:
            return directory.create_log_blocking(METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_LOG_SETTINGS)
        return directory.load_log_blocking(METADATA_PARTITION, METADATA_LOG_SETTINGS, env.clock.wall_ms())
    except (OSError, CorruptionError) as error:
        raise OperatorError(
            f"The metadata log in {directory.path} cannot be opened: {error}.",
            "Mend the disk, or restore the directory from a copy; without it the cluster's topics are not known.",
        ) from error
