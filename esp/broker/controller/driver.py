"""The controller of a node: answers requests while it is the active one, and refuses them with NOT_CONTROLLER while it is not.

What is decided stands in :mod:`esp.controller`, how that is committed in :mod:`esp.broker.controller.proposals`, what an active controller
does by itself in :mod:`esp.broker.controller.term`.
"""

import logging
from collections.abc import Sequence

from esp.broker.controller.config import ControllerConfig
from esp.broker.controller.proposals import NewestMetadata, Proposals, Quorum
from esp.broker.controller.term import ControllerTerm
from esp.broker.request import ClientContext
from esp.broker.tasks import Tasks
from esp.controller.alter_partition import IsrProposal, decide_alter_partition
from esp.controller.brokers import (
    BrokerRegistration,
    ControllerRegistration,
    decide_broker_registration,
    decide_controller_registration,
    decide_unregister_broker,
    is_duplicate,
)
from esp.controller.configs import ConfigChange, decide_alter_configs, names_unclean_election
from esp.controller.decision import Decision
from esp.controller.directories import decide_assign_directories
from esp.controller.elections import Outcome, decide_elect_leaders
from esp.controller.feature_updates import FeatureAuthority, FeatureUpdate, decide_update_features
from esp.controller.heartbeats import Heartbeat, HeartbeatReply, decide_heartbeat, decide_offline_directories
from esp.controller.image import ClusterImage
from esp.controller.partition_change import Election
from esp.controller.partitions import NewPartitions, decide_create_partitions
from esp.controller.producer_ids import decide_producer_id_block
from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.controller.self_repair import Proposal
from esp.controller.topics import CreatedTopic, DeletedTopic, NewTopic, TopicCreation, decide_delete_topics
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import BrokerEpoch, DirectoryId, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.ports.env import Env

log = logging.getLogger(__name__)


class ControllerDriver:
    """One node's controller.

    All coroutines return, or raise the ApiError of a refusal, once what that rests on is committed. They raise ApiError(NOT_CONTROLLER) if
    this controller is not the active one, or ceases to be before that; then what was asked for may have been done (PROMISE-7).

    Args:
        env: the outside.
        config: the controller's settings.
        quorum: the metadata quorum.
        metadata: the state that its log describes.
        tasks: where background work lives.
    """

    def __init__(
        self, env: Env, config: ControllerConfig, quorum: Quorum, metadata: NewestMetadata, tasks: Tasks
    ) -> None:
        self._env = env
        self._config = config
        self._quorum = quorum
        self._metadata = metadata
        self._tasks = tasks
        self._proposals = Proposals(quorum, metadata)
        self._term: ControllerTerm | None = None
        self._closed = False
        self._connections: dict[NodeId, tuple[BrokerEpoch, ClientContext]] = {}
        """By which connection each broker was heard of last, under which epoch; only those that have not ended."""

    def start(self) -> None:
        """Be ready to become active. Called once, before the quorum starts."""
        self._quorum.on_leadership(self._on_leadership)
        self._on_leadership()

    def close(self) -> None:
        """Stop what the controller does by itself, and refuse requests."""
        self._closed = True
        self._on_leadership()

    @property
    def is_active(self) -> bool:
        """Whether this is the active controller."""
        return self._term is not None and self._quorum.is_active

    @property
    def proposed_repair(self) -> Proposal | None:
        """What this controller, if it is the active one, would do, or does, about brokers that are gone, draining or new."""
        return None if self._term is None else self._term.self_repair.proposal

    async def register_broker(
        self, registration: BrokerRegistration, client: ClientContext | None = None
    ) -> BrokerEpoch:
        """See :func:`~esp.controller.brokers.decide_broker_registration`.

        If another incarnation is in the way, its listeners are probed first: one that is gone gives way at once (BRK-1).

        Args:
            registration: what the broker says.
            client: the connection that it came by.
        """
        term = self._require_term()
        node_id = registration.node_id
        if registration.cluster_id != self._config.cluster_id:
            log.warning(
                "broker %d of cluster %s is refused, this is cluster %s: it has the data directory, or the controllers, of another cluster",
                node_id,
                registration.cluster_id,
                self._config.cluster_id,
            )
            raise ApiError(
                ErrorCode.inconsistent_cluster_id,
                f"Expected cluster ID {self._config.cluster_id}, but got cluster ID {registration.cluster_id}",
            )
        existing = self._proposals.newest.brokers.get(node_id)
        if (
            existing is not None
            and self._has_session(term, node_id)
            and is_duplicate(existing, registration, is_connected=self._is_connected(term, node_id))
        ):
            await term.end_session_if_dead(existing)
            term = self._require_term()

        def decide(image: ClusterImage) -> Decision[BrokerEpoch]:
            return decide_broker_registration(
                image,
                registration,
                self._proposals.next_offset,
                has_session=self._has_session(term, node_id),
                is_connected=self._is_connected(term, node_id),
                unclean_elections=self._config.unclean_leader_election,
            )

        try:
            epoch = self._proposals.propose(decide, "Broker registration")
        except ApiError as refusal:
            log.warning("registration of broker %d is refused: %s", node_id, refusal)
            await self._proposals.settled()
            raise
        term.sessions.begin(node_id, epoch, self._env.clock.monotonic_us())
        term.watch_sessions()
        if client is not None:
            self._watch_connection(node_id, epoch, client)
        await self._proposals.settled()
        return epoch

    async def register_controller(self, registration: ControllerRegistration) -> None:
        """See :func:`~esp.controller.brokers.decide_controller_registration`."""
        self._require_term()
        await self._proposals.commit(lambda _: decide_controller_registration(registration), "Controller registration")

    async def heartbeat(self, heartbeat: Heartbeat, client: ClientContext | None = None) -> HeartbeatReply:
        """See :func:`~esp.controller.heartbeats.decide_heartbeat`; directories that are newly offline come first.

        Args:
            heartbeat: what the broker says.
            client: the connection that it came by; its end may be the broker's.
        """
        term = self._require_term()
        node_id, broker_epoch = heartbeat.node_id, heartbeat.broker_epoch
        unclean = self._config.unclean_leader_election
        try:
            if heartbeat.offline_log_dirs:
                self._proposals.propose(
                    lambda image: decide_offline_directories(
                        image, node_id, broker_epoch, heartbeat.offline_log_dirs, unclean_elections=unclean
                    ),
                    "Offline directories",
                )
            reply = self._proposals.propose(
                lambda image: decide_heartbeat(image, heartbeat, term.sessions, unclean_elections=unclean),
                "Broker heartbeat",
            )
        except ApiError:
            await self._proposals.settled()
            raise
        term.sessions.touch(node_id, broker_epoch, self._env.clock.monotonic_us(), heartbeat.metadata_offset)
        term.watch_sessions()
        if client is not None:
            self._watch_connection(node_id, broker_epoch, client)
        if reply.in_controlled_shutdown:
            term.sessions.begin_shutdown(node_id, self._proposals.next_offset - 1)
        if reply.should_shut_down:
            term.sessions.end(node_id, broker_epoch)  # its next incarnation need not wait for this one's session
        await self._proposals.settled()
        return reply

    def on_broker_connection_lost(self, node_id: NodeId) -> None:
        """A connection of a broker's has broken: see whether it is gone, and fence it at once if so (FAST-1)."""
        if self._term is not None and self._quorum.is_active:
            self._term.probe(node_id)

    async def alter_partitions(
        self, sender: NodeId, broker_epoch: BrokerEpoch, changes: Sequence[IsrProposal]
    ) -> list[PartitionState | ApiError]:
        """See :func:`~esp.controller.alter_partition.decide_alter_partition`."""
        self._require_term()
        unclean = self._config.unclean_leader_election
        return await self._proposals.commit(
            lambda image: decide_alter_partition(image, sender, broker_epoch, changes, unclean_elections=unclean),
            "Alter partition",
        )

    async def elect_leaders(
        self, election: Election, wanted: Sequence[tuple[str, Sequence[int]]] | None
    ) -> list[Outcome]:
        """See :func:`~esp.controller.elections.decide_elect_leaders`."""
        self._require_term()
        return await self._proposals.commit(
            lambda image: decide_elect_leaders(image, election, wanted), "Leader election"
        )

    async def alter_reassignments(
        self, wanted: Sequence[Reassignment], *, may_change_replication_factor: bool
    ) -> list[ApiError | None]:
        """One answer for each, in order, None for success. See :func:`~esp.controller.reassignment.decide_reassignments`."""
        self._require_term()
        unclean = self._config.unclean_leader_election
        return await self._proposals.commit(
            lambda image: decide_reassignments(
                image,
                wanted,
                may_change_replication_factor=may_change_replication_factor,
                unclean_elections=unclean,
            ),
            "Reassignment",
        )

    async def unregister_broker(self, node_id: NodeId) -> None:
        """See :func:`~esp.controller.brokers.decide_unregister_broker`."""
        self._require_term()
        unclean = self._config.unclean_leader_election
        await self._proposals.commit(
            lambda image: decide_unregister_broker(image, node_id, unclean_elections=unclean),
            "Unregister broker",
        )

    async def assign_directories(
        self, node_id: NodeId, broker_epoch: BrokerEpoch, wanted: Sequence[tuple[DirectoryId, TopicId, int]]
    ) -> list[ApiError | None]:
        """See :func:`~esp.controller.directories.decide_assign_directories`."""
        self._require_term()
        unclean = self._config.unclean_leader_election
        return await self._proposals.commit(
            lambda image: decide_assign_directories(image, node_id, broker_epoch, wanted, unclean_elections=unclean),
            "Assign replicas to directories",
        )

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool) -> list[CreatedTopic | ApiError]:
        """One answer for each topic, in the order of the topics. See :class:`~esp.controller.topics.TopicCreation`."""
        self._require_term()
        config = self._config
        return await self._proposals.commit(
            lambda image: TopicCreation(image, config.defaults, config.validate_topic_configs, self._env.random).decide(
                topics, validate_only=validate_only
            ),
            "Topic creation",
        )

    async def create_partitions(self, wanted: Sequence[NewPartitions], *, validate_only: bool) -> list[ApiError | None]:
        """One answer for each topic, in order, None for success. See :func:`~esp.controller.partitions.decide_create_partitions`."""
        self._require_term()
        return await self._proposals.commit(
            lambda image: decide_create_partitions(image, wanted, self._env.random, validate_only=validate_only),
            "Partition creation",
        )

    async def update_features(
        self, updates: Sequence[FeatureUpdate], kraft_version: int, *, validate_only: bool
    ) -> None:
        """See :func:`~esp.controller.feature_updates.decide_update_features`; ``kraft_version`` is that of the quorum now."""
        self._require_term()
        config = self._config
        authority = FeatureAuthority(
            node_id=config.node_id,
            kraft_version=kraft_version,
            min_insync_replicas=config.min_insync_replicas,
            supported=config.features,
        )
        await self._proposals.commit(
            lambda image: decide_update_features(image, authority, updates, validate_only=validate_only),
            "Feature update",
        )

    async def alter_configs(self, changes: Sequence[ConfigChange], *, validate_only: bool) -> list[ApiError | None]:
        """One answer for each change, in the order of the changes. See :func:`~esp.controller.configs.decide_alter_configs`."""
        self._require_term()
        rules = self._config.config_rules
        outcomes = await self._proposals.commit(
            lambda image: decide_alter_configs(image, changes, rules, validate_only=validate_only), "Alter configs"
        )
        if self._term is not None and not validate_only and any(map(names_unclean_election, changes)):
            self._term.elect_unclean_soon()
        return outcomes

    async def delete_topics(self, topics: Sequence[str | TopicId]) -> list[DeletedTopic | ApiError]:
        """One answer for each topic, in the order of the topics. See :func:`~esp.controller.topics.decide_delete_topics`."""
        self._require_term()
        return await self._proposals.commit(lambda image: decide_delete_topics(image, topics), "Topic deletion")

    async def allocate_producer_ids(self, node_id: NodeId, broker_epoch: BrokerEpoch) -> range:
        """Ids that nobody else has, for one broker. See :func:`~esp.controller.producer_ids.decide_producer_id_block`."""
        self._require_term()
        return await self._proposals.commit(
            lambda image: decide_producer_id_block(image, node_id, broker_epoch), "Producer id block"
        )

    def _watch_connection(self, node_id: NodeId, broker_epoch: BrokerEpoch, client: ClientContext) -> None:
        _, known = self._connections.get(node_id, (None, None))
        self._connections[node_id] = broker_epoch, client
        if known is not client:

            def on_end() -> None:
                _, last = self._connections.get(node_id, (None, None))
                if last is client:
                    del self._connections[node_id]
                    self.on_broker_connection_lost(node_id)

            client.at_end.append(on_end)

    def _is_connected(self, term: ControllerTerm, node_id: NodeId) -> bool:
        """Whether the registered incarnation of a broker is connected to this controller, or had no time yet to find it."""
        existing = self._proposals.newest.brokers.get(node_id)
        if existing is None:
            return False
        epoch, _ = self._connections.get(node_id, (None, None))
        return epoch == existing.epoch or term.is_awaited(existing)

    def _on_leadership(self) -> None:
        quorum, term = self._quorum, self._term
        may_act = quorum.is_active and not self._closed
        if term is not None and not (may_act and term.epoch == quorum.epoch):
            term.end()
            self._term = None
            log.info("no longer the active controller of epoch %d", term.epoch)
        if may_act and self._term is None:
            log.info("the active controller of epoch %d", quorum.epoch)
            self._term = ControllerTerm(self._env, self._config, self._proposals, self._tasks, quorum.epoch)
            self._term.begin(self._quorum.leader_contact, in_transaction=self._metadata.in_transaction)

    def _require_term(self) -> ControllerTerm:
        self._proposals.require_active()
        if self._term is None:
            raise ApiError(ErrorCode.not_controller, "The controller is closing.")
        return self._term

    def _has_session(self, term: ControllerTerm, node_id: NodeId) -> bool:
        existing = self._proposals.newest.brokers.get(node_id)
        return existing is not None and term.sessions.is_live(node_id, existing.epoch, self._env.clock.monotonic_us())
