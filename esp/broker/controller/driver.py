"""The controller of a node: answers requests while it is the active one, and refuses them with NOT_CONTROLLER while it is not.

:mod:`esp.controller` makes the decisions, :mod:`esp.broker.controller.proposals` commits them, and :mod:`esp.broker.controller.term` is the
work that an active controller does by itself.
"""

import asyncio
import importlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from esp.broker.controller.config import ControllerConfig
from esp.broker.controller.proposals import NewestMetadata, Proposals, Quorum
from esp.broker.controller.term import ControllerTerm
from esp.broker.request import ClientContext
from esp.broker.tasks import Tasks
from esp.controller.broker_sessions import UNDECIDED_SHUTDOWN
from esp.controller.brokers import (
    BrokerRegistration,
    decide_broker_registration,
    decide_unregister_broker,
    departures_of,
    is_duplicate,
)
from esp.controller.configs import ConfigChange, decide_alter_configs, names_unclean_election
from esp.controller.decision import Decision
from esp.controller.heartbeats import Heartbeat, HeartbeatReply, decide_heartbeat, decide_offline_directories
from esp.controller.image import ClusterImage
from esp.controller.offset_floors import decide_final_ends
from esp.controller.self_repair import Proposal
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NO_BROKER_EPOCH, BrokerEpoch, NodeId
from esp.ports.env import Env

if TYPE_CHECKING:
    from esp.controller.delegation_tokens import DelegationTokens

log = logging.getLogger(__name__)

_DELEGATION_TOKENS: Final = "esp.controller.delegation_tokens"  # loaded when a client asks for a token

Reply = TypeVar("Reply")


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
        self.config = config
        """The facts that decisions depend on besides the metadata."""
        self._quorum = quorum
        self._metadata = metadata
        self._tasks = tasks
        self._proposals = Proposals(quorum, metadata, config.batch_records_max)
        self._term: ControllerTerm | None = None
        self._closed = False
        self._delegation_tokens: DelegationTokens | None = None
        self._connections: dict[NodeId, tuple[BrokerEpoch, ClientContext]] = {}
        """The connection by which each broker was heard of last, and its epoch; only connections that have not ended."""

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
        """True if this is the active controller."""
        return self._term is not None and self._quorum.is_active

    @property
    def delegation_tokens(self) -> "DelegationTokens":
        """The decisions about delegation tokens."""
        if self._delegation_tokens is None:
            make = importlib.import_module(_DELEGATION_TOKENS).DelegationTokens
            self._delegation_tokens = make(self.config.tokens, self._env.random)
        return self._delegation_tokens

    @property
    def proposed_repair(self) -> Proposal | None:
        """The repairs that this controller proposes or makes, if it is the active one, for brokers that are gone, draining or new."""
        return None if self._term is None else self._term.self_repair.proposal

    @property
    def sessions_due_us(self) -> int | None:
        """The time at which this controller looks at the brokers' sessions next, by its monotonic clock; None if it is not to do so."""
        return None if self._term is None else self._term.sessions_due_us

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
        self._require_cluster(registration)
        existing = self._proposals.newest.brokers.get(node_id)
        is_dead = False
        if (
            existing is not None
            and self._has_session(term, node_id)
            and is_duplicate(existing, registration, is_connected=self._is_connected(term, node_id, client))
        ):
            is_dead = await term.end_session_if_dead(existing)
            term = self._require_term()

        departures = departures_of(registration, self.config.slice_changes_max)
        epochs: list[BrokerEpoch] = []
        ends: list[BrokerRegistration] = []

        def on_end() -> None:
            ends.append(registration)

        def decide(image: ClusterImage) -> Decision[BrokerEpoch]:
            decision = decide_broker_registration(
                image,
                registration,
                self._proposals.next_offset,
                has_session=self._has_session(term, node_id),
                is_connected=self._is_connected(term, node_id, client),
                departures=departures,
            )
            if decision.reply != NO_BROKER_EPOCH:
                return decision
            if client is not None and on_end not in client.at_end:
                client.at_end.append(on_end)
            return replace(decision, rest=decide)

        def on_registered(epoch: BrokerEpoch) -> None:
            epochs.append(epoch)
            term.sessions.begin(node_id, epoch, self._env.clock.monotonic_us())
            term.watch_sessions()
            if client is not None and not ends:
                self._watch_connection(node_id, epoch, client)

        try:
            await term.slices.decide(decide, "Broker registration", on_registered)
        except ApiError as refusal:
            log.warning("registration of broker %d is refused: %s", node_id, refusal)
            if existing is not None and is_dead:  # its session has ended, and nothing takes its place
                term.fence_dead(existing)
            await self._proposals.settled()
            raise
        await self._proposals.settled()
        return epochs[0]

    async def unregister_broker(self, node_id: NodeId) -> None:
        """See :func:`~esp.controller.brokers.decide_unregister_broker`."""
        term = self._require_term()
        changes_max = self.config.slice_changes_max
        try:
            await term.slices.decide(
                lambda image: decide_unregister_broker(image, node_id, changes_max), "Unregister broker", lambda _: None
            )
        except ApiError as refusal:
            if refusal.code is ErrorCode.policy_violation:
                term.elect_leaderless()  # it may have left last copies by force, before that was taken back
            await self._proposals.settled()
            raise
        await self._proposals.settled()

    async def heartbeat(self, heartbeat: Heartbeat, client: ClientContext | None = None) -> HeartbeatReply:
        """See :func:`~esp.controller.heartbeats.decide_heartbeat`; directories that are newly offline and ends of logs come first.

        Args:
            heartbeat: what the broker says.
            client: the connection that it came by; its end may be the broker's.
        """
        term = self._require_term()
        node_id, broker_epoch = heartbeat.node_id, heartbeat.broker_epoch
        changes_max = self.config.slice_changes_max
        try:
            ended = [self._lose_directories(term, heartbeat)]
            if heartbeat.final_ends:
                self._proposals.propose(
                    lambda image: decide_final_ends(image, node_id, broker_epoch, heartbeat.final_ends), "Final ends"
                )
            decision = self._proposals.propose_slice(
                lambda image: decide_heartbeat(image, heartbeat, term.sessions, changes_max), "Broker heartbeat"
            )
        except ApiError:
            await self._proposals.settled()
            raise
        term.sessions.touch(node_id, broker_epoch, self._env.clock.monotonic_us(), heartbeat.metadata_offset)
        term.watch_sessions()
        if client is not None:
            self._watch_connection(node_id, broker_epoch, client)
        has_rest = decision.rest is not None
        if decision.reply.in_controlled_shutdown:
            offset = UNDECIDED_SHUTDOWN if has_rest else self._proposals.next_offset - 1
            term.sessions.begin_shutdown(node_id, offset)

        def on_reply(reply: HeartbeatReply) -> None:
            if has_rest and reply.in_controlled_shutdown:
                term.sessions.decide_shutdown(node_id, broker_epoch, self._proposals.next_offset - 1)
            if reply.should_shut_down:
                term.sessions.end(node_id, broker_epoch)  # its next incarnation need not wait for this one's session

        ended.append(term.slices.finish(decision, "Broker heartbeat", on_reply))
        refusals = [await outcome for outcome in ended if outcome is not None]
        await self._proposals.settled()
        for refusal in refusals:
            if refusal is not None:
                raise refusal
        return decision.reply

    def _lose_directories(self, term: ControllerTerm, heartbeat: Heartbeat) -> asyncio.Future[ApiError | None] | None:
        """Begin to move leadership away from the directories that a broker has lost; the outcome, if that takes several slices."""
        offline, name = heartbeat.offline_log_dirs, "Offline directories"
        if not offline:
            return None
        decision = self._proposals.propose_slice(
            lambda image: decide_offline_directories(
                image, heartbeat.node_id, heartbeat.broker_epoch, offline, self.config.slice_changes_max
            ),
            name,
        )
        return term.slices.finish(decision, name, lambda _: None)

    def on_broker_connection_lost(self, node_id: NodeId) -> None:
        """A connection of a broker's has broken: see whether it is gone, and fence it at once if so (FAST-1)."""
        if self._term is not None and self._quorum.is_active:
            self._term.probe(node_id)

    async def commit(self, decide: Callable[[ClusterImage], Decision[Reply]], name: str) -> Reply:
        """Decide on the newest state, and return the reply, or raise the refusal, once that is committed.

        Args:
            decide: makes the decision; the functions of :mod:`esp.controller` that are called so do.
            name: of the metadata transaction, if one is needed.
        """
        self._require_term()
        return await self._proposals.commit(decide, name)

    async def alter_configs(self, changes: Sequence[ConfigChange], *, validate_only: bool) -> list[ApiError | None]:
        """One answer for each change, in the order of the changes. See :func:`~esp.controller.configs.decide_alter_configs`."""
        rules = self.config.config_rules
        outcomes = await self.commit(
            lambda image: decide_alter_configs(image, changes, rules, validate_only=validate_only), "Alter configs"
        )
        if self._term is not None and not validate_only and any(map(names_unclean_election, changes)):
            self._term.elect_unclean_soon()
        return outcomes

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

    def _is_connected(self, term: ControllerTerm, node_id: NodeId, client: ClientContext | None) -> bool:
        """True if the registered incarnation of a broker is connected to this controller, or had no time yet to find it.

        Not so if its connection is the ``client``'s, by which a newcomer registers: one process has the connection, and has given the
        incarnation up (BRK-3).
        """
        existing = self._proposals.newest.brokers.get(node_id)
        if existing is None:
            return False
        epoch, known = self._connections.get(node_id, (None, None))
        if epoch == existing.epoch:
            return known is not client
        return term.is_awaited(existing)

    def _on_leadership(self) -> None:
        quorum, term = self._quorum, self._term
        may_act = quorum.is_active and not self._closed
        if term is not None and not (may_act and term.epoch == quorum.epoch):
            term.end()
            self._term = None
            log.info("no longer the active controller of epoch %d", term.epoch)
        if may_act and self._term is None:
            log.info("the active controller of epoch %d", quorum.epoch)
            self._term = ControllerTerm(self._env, self.config, self._proposals, self._tasks, quorum.epoch)
            self._term.begin(self._quorum.leader_contact, in_transaction=self._metadata.in_transaction)

    def _require_cluster(self, registration: BrokerRegistration) -> None:
        if registration.cluster_id != self.config.cluster_id:
            log.warning(
                "broker %d of cluster %s is refused, this is cluster %s: its data directory or controllers belong to another cluster",
                registration.node_id,
                registration.cluster_id,
                self.config.cluster_id,
            )
            raise ApiError(
                ErrorCode.inconsistent_cluster_id,
                f"Expected cluster ID {self.config.cluster_id}, but got cluster ID {registration.cluster_id}",
            )

    def _require_term(self) -> ControllerTerm:
        self._proposals.require_active()
        if self._term is None:
            raise ApiError(ErrorCode.not_controller, "The controller is closing.")
        return self._term

    def _has_session(self, term: ControllerTerm, node_id: NodeId) -> bool:
        existing = self._proposals.newest.brokers.get(node_id)
        return existing is not None and term.sessions.is_live(node_id, existing.epoch, self._env.clock.monotonic_us())
