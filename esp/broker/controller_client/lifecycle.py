"""A broker's dealings with the controller: it registers, sends heartbeats, begins to serve, and ends (BRK-1 to BRK-7; KIP-631).

A heartbeat goes out every ``broker.heartbeat.interval.ms``, and at once when there is something to say or to learn: the logs are recovered,
metadata was applied that the controller waits for, a directory failed, topics are gone that were led here, the node is to stop. Each
carries the broker epoch, so that the controller tells this registration from any other with the same number, and the offset of the
metadata that is applied here.

A broker that gets STALE_BROKER_EPOCH has been fenced and replaced without noticing: it stops leading, and registers anew (BRK-4).
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Feature, Listener
from kio.schema.types import BrokerId
from kio.static.primitive import i64

from esp.broker.connections.unheard import told_refusal
from esp.broker.controller_client.channel import ControllerCalls
from esp.broker.controller_client.registration_fields import encode_features, encode_listeners
from esp.broker.tasks import Tasks
from esp.broker.waiting import Waiters
from esp.controller.brokers import BrokerRegistration
from esp.model.errors import ApiError, ErrorCode, OperatorError
from esp.model.ids import NO_BROKER_EPOCH, BrokerEpoch, DirectoryId
from esp.ports.env import Env
from esp.protocol.broker_heartbeat import BrokerHeartbeatRequest, FinalEndOfPartition
from esp.protocol.registry import ApiKey
from esp.settings.broker import BrokerSettings

log = logging.getLogger(__name__)

HASTE_US: Final = 50_000
"""Between heartbeats while the controller's answer is awaited with impatience: to be unfenced, to be let go."""

REGISTRATION_BACKOFF_US: Final = 100_000
"""Between attempts to register that the controller answered with an error."""

REGISTRATION_ATTEMPT_MS: Final = 5_000
"""The time for which one attempt to register looks for a controller before the operator is notified that it goes on."""

UNCONFIRMED_INTERVALS: Final = 2
"""So many intervals of heartbeats without one that is taken, and a broker does not say for certain any more that it leads."""

SHUTDOWN_SILENCE_US: Final = 3_000_000
"""The time for which a broker that is to stop waits for a silent controller: no other leader can be elected without one."""

SHUTDOWN_MAX_US: Final = 300_000_000
"""The time for which a broker that is to stop waits in all; Kafka's five minutes."""

FINAL_ENDS_MAX: Final = 1_000
"""Ends of logs in one heartbeat; the next one, with more of them, follows at once."""

_UNKNOWN_HERE: Final = frozenset((ErrorCode.stale_broker_epoch, ErrorCode.broker_id_not_registered))
"""The controller knows another registration of this broker, or none."""


class BrokerState(Enum):
    """A broker's state towards the controller; the names are Kafka's."""

    NOT_RUNNING = "not running"
    STARTING = "starting"
    """It registers, for the first time or anew."""

    RECOVERY = "recovery"
    """Registered; its logs are not recovered, and it wants to stay fenced (REC-8)."""

    RUNNING = "running"
    """It wants to serve, and does unless the controller has fenced it."""

    PENDING_CONTROLLED_SHUTDOWN = "pending controlled shutdown"
    """It wants to stop, and waits until it leads nothing."""

    SHUTTING_DOWN = "shutting down"
    """The controller needs it no more."""


TRANSITIONS: Final[Mapping[BrokerState, frozenset[BrokerState]]] = MappingProxyType(
    {
        BrokerState.NOT_RUNNING: frozenset((BrokerState.STARTING, BrokerState.SHUTTING_DOWN)),
        BrokerState.STARTING: frozenset((BrokerState.RECOVERY, BrokerState.RUNNING, BrokerState.SHUTTING_DOWN)),
        BrokerState.RECOVERY: frozenset((BrokerState.RUNNING, BrokerState.STARTING, BrokerState.SHUTTING_DOWN)),
        BrokerState.RUNNING: frozenset((BrokerState.STARTING, BrokerState.PENDING_CONTROLLED_SHUTDOWN)),
        BrokerState.PENDING_CONTROLLED_SHUTDOWN: frozenset((BrokerState.SHUTTING_DOWN,)),
        BrokerState.SHUTTING_DOWN: frozenset(),
    }
)
"""The states that may follow each."""


class BrokerLifecycle:
    """One broker, from its first registration to its controlled shutdown.

    Args:
        env: the outside.
        settings: the node's own.
        tasks: where heartbeats are sent from.
        channel: to the controller; for heartbeats alone.
        registration: what the broker says of itself.
        applied_offset: the offset of the metadata that is applied here; see :meth:`on_metadata_applied`.
        on_stale: told that this registration counts no more, before there is another: stop leading, at once (BRK-4).
        on_registered: told the epoch of each registration.
    """

    def __init__(
        self,
        env: Env,
        settings: BrokerSettings,
        tasks: Tasks,
        channel: ControllerCalls,
        *,
        registration: BrokerRegistration,
        applied_offset: Callable[[], int],
        on_stale: Callable[[], None],
        on_registered: Callable[[BrokerEpoch], None],
    ) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.epoch: BrokerEpoch = NO_BROKER_EPOCH
        """The epoch of the present registration."""
        self.is_fenced = True
        """The state that the controller reported last."""
        self._env = env
        self._settings = settings
        self._tasks = tasks
        self._channel = channel
        self._registration = registration
        self._applied_offset = applied_offset
        self._on_stale = on_stale
        self._on_registered = on_registered
        self._is_distrusted = False
        self._wants_to_serve = False
        self._offline_log_dirs: tuple[DirectoryId, ...] = ()
        self._final_ends: dict[FinalEndOfPartition, None] = {}
        self._is_due = False
        self._alarm = Waiters(env.clock)
        self._progress = Waiters(env.clock)
        self._answered_us = 0
        self._confirmed_us = 0
        """The time at which the last heartbeat was sent that the active controller took."""

    @property
    def is_confirmed(self) -> bool:
        """True if the active controller took a heartbeat lately. Not so in a process that stood still, until it is heard again (BRK-9)."""
        silent_us = self._env.clock.monotonic_us() - self._confirmed_us
        return silent_us <= UNCONFIRMED_INTERVALS * self._settings.broker_heartbeat_interval_ms * 1000

    async def register(self) -> BrokerEpoch:
        """Register, and send heartbeats from then on; the broker stays fenced until :meth:`unfence`.

        Raises:
            OperatorError: this broker does not belong to that cluster, or no controller has registered it within
                ``initial.broker.registration.timeout.ms``.
        """
        self._become(BrokerState.STARTING)
        await self._register(self._settings.initial_broker_registration_timeout_ms)
        self._tasks.start(self._send_heartbeats(), name="heartbeats")
        return self.epoch

    def register_as_unclean(self) -> None:
        """Less was found in the logs than the registration says: register anew, before anything else, as one that may lack records (BRK-3).

        Until then the broker is fenced, and a member of no in-sync set; then of no eligible one either.
        """
        if self._registration.previous_broker_epoch != NO_BROKER_EPOCH:
            self._registration = replace(
                self._registration,
                incarnation_id=self._env.random.uuid(),
                previous_broker_epoch=NO_BROKER_EPOCH,
            )
            self.epoch = NO_BROKER_EPOCH
            self._is_distrusted = True
            self._hurry()

    async def unfence(self) -> None:
        """Ask to serve, and return when the controller has agreed; the logs are recovered (REC-8)."""
        self._wants_to_serve = True
        if self.state is BrokerState.RECOVERY:
            self._become(BrokerState.RUNNING)
        self._hurry()
        while self.is_fenced and not self._is_over:
            await self._progress.wait(SHUTDOWN_MAX_US)

    async def controlled_shutdown(self) -> None:
        """Give up leadership, and return when the broker may stop (BRK-7), or must because no controller answers. Heartbeats end.

        A broker that serves no clients may stop at once.
        """
        if self.state is not BrokerState.RUNNING:
            self._become(BrokerState.SHUTTING_DOWN)
        else:
            self._become(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
            begun_us = self._answered_us = self._env.clock.monotonic_us()
            self._hurry()
            while not self._is_over:
                await self._progress.wait(HASTE_US)
                self._maybe_give_up(begun_us)
        self._hurry()

    def on_metadata_applied(self, *, is_awaited: bool = False) -> None:
        """The applied offset has moved: tell the controller at once if it waits for that (BRK-5).

        Args:
            is_awaited: another broker may stop only when all have applied what was (BRK-7).
        """
        if self._is_impatient or is_awaited:
            self._hurry()

    def on_leadership(self) -> None:
        """Another controller may be active: it learns by the end of a heartbeat's connection that this broker is gone (FAST-1), once it
        has had a heartbeat."""
        self._hurry()

    def set_offline_log_dirs(self, directories: tuple[DirectoryId, ...]) -> None:
        """These directories have failed (REC-9): the controller gives what they hold to other leaders."""
        self._offline_log_dirs = directories
        self._hurry()

    def report_final_ends(self, ends: Iterable[FinalEndOfPartition]) -> None:
        """Say where the logs of deleted partitions ended that this broker led last, until the controller has it written down (FLOOR-3)."""
        self._final_ends.update(dict.fromkeys(ends))
        self._hurry()

    @property
    def _is_impatient(self) -> bool:
        if self.state is BrokerState.RUNNING:
            return self.is_fenced
        return self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN

    @property
    def _is_over(self) -> bool:
        return self.state is BrokerState.SHUTTING_DOWN

    def _become(self, state: BrokerState) -> None:
        if state is not self.state:
            assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
            log.info("broker %d: %s", self._registration.node_id, state.value)
            self.state = state
            self._progress.wake()

    def _hurry(self) -> None:
        """Let the next heartbeat go out now, or as soon as the one on its way is answered."""
        self._is_due = True
        self._alarm.wake()

    async def _send_heartbeats(self) -> None:
        while not self._is_over:
            if not self._is_due:
                interval_us = self._settings.broker_heartbeat_interval_ms * 1000
                await self._alarm.wait(min(HASTE_US, interval_us) if self._is_impatient else interval_us)
            self._is_due = False
            if self._is_distrusted:
                self._is_distrusted = False
                await self._register_anew()
            elif not self._is_over:
                await self._send_heartbeat()

    async def _send_heartbeat(self) -> None:
        asked_in = self.state
        request = BrokerHeartbeatRequest(
            broker_id=BrokerId(self._registration.node_id),
            broker_epoch=i64(self.epoch),
            current_metadata_offset=i64(self._applied_offset()),
            want_fence=not self._wants_to_serve,
            want_shut_down=asked_in is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=self._offline_log_dirs,
            final_ends=tuple(islice(self._final_ends, FINAL_ENDS_MAX)),
        )
        sent_us = self._env.clock.monotonic_us()
        try:
            answer = await self._channel.call(
                ApiKey.BROKER_HEARTBEAT, request, timeout_ms=self._settings.broker_heartbeat_interval_ms
            )
        except ApiError as error:
            log.debug("heartbeat: %s", error)
            return
        self._answered_us = self._env.clock.monotonic_us()
        if answer.error_code in _UNKNOWN_HERE:
            log.warning(
                "the controller no longer knows broker epoch %d (%s): registering again",
                request.broker_epoch,
                answer.error_code.name,
            )
            await self._register_anew()
        elif answer.error_code is not ErrorCode.none:
            log.warning("the controller refused a heartbeat: %s", told_refusal(answer.error_code))
        else:
            self._confirmed_us = sent_us
            for end in request.final_ends:
                self._final_ends.pop(end, None)
            if self._final_ends:
                self._hurry()
            self._take_in(answer, asked_in)

    def _take_in(self, answer: Any, asked_in: BrokerState) -> None:
        if answer.is_fenced is not self.is_fenced:
            log.info("broker %d is %s", self._registration.node_id, "fenced" if answer.is_fenced else "unfenced")
            self.is_fenced = answer.is_fenced
            self._progress.wake()
        if answer.should_shut_down and asked_in is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self._become(BrokerState.SHUTTING_DOWN)

    def _maybe_give_up(self, begun_us: int) -> None:
        now_us = self._env.clock.monotonic_us()
        if self._is_over:
            return
        if now_us - self._answered_us > SHUTDOWN_SILENCE_US:
            log.warning("stopping without having given up leadership: no controller answers")
            self._become(BrokerState.SHUTTING_DOWN)
        elif now_us - begun_us > SHUTDOWN_MAX_US:
            log.warning("stopping although the controller has not agreed within %d s", SHUTDOWN_MAX_US // 1_000_000)
            self._become(BrokerState.SHUTTING_DOWN)

    async def _register_anew(self) -> None:
        """Stop leading and begin again, after this registration was replaced, removed or given up; or stop, if that was wanted."""
        self.is_fenced = True
        self._on_stale()
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self._become(BrokerState.SHUTTING_DOWN)
            return
        self._become(BrokerState.STARTING)
        try:
            await self._register(None)
        except OperatorError as error:
            self._env.host.fatal(str(error))
        self._is_due = True

    async def _register(self, limit_ms: int | None) -> None:
        """Register, however long it takes or until the limit."""
        begun_us = self._env.clock.monotonic_us()
        told_us = begun_us
        while self.state is BrokerState.STARTING:
            reason = await self._attempt_to_register()
            if reason is None:
                self._env.maybe("a broker has registered")
                return
            now_us = self._env.clock.monotonic_us()
            if limit_ms is not None and now_us - begun_us > limit_ms * 1000:
                raise OperatorError(
                    f"Broker {self._registration.node_id} could not register within {limit_ms} ms: {reason}.",
                    "Make sure that a majority of the controllers runs and is reachable, or raise "
                    "initial.broker.registration.timeout.ms.",
                )
            if now_us - told_us > REGISTRATION_ATTEMPT_MS * 1000:
                log.warning("broker %d is not registered yet: %s; retrying", self._registration.node_id, reason)
                told_us = now_us
            await self._progress.wait(REGISTRATION_BACKOFF_US)

    async def _attempt_to_register(self) -> str | None:
        """Ask once; return None, or the reason why there is no registration.

        Raises:
            OperatorError: there will never be one.
        """
        node_id = self._registration.node_id
        request = registration_request(self._registration, self.epoch)
        try:
            answer = await self._channel.call(ApiKey.BROKER_REGISTRATION, request, timeout_ms=REGISTRATION_ATTEMPT_MS)
        except ApiError:
            return "no active controller answers"
        if answer.error_code is ErrorCode.inconsistent_cluster_id:
            raise OperatorError(
                f"Broker {node_id} belongs to the cluster {self._registration.cluster_id}, but its controllers belong to another cluster.",
                "Set controller.quorum.bootstrap.servers or controller.quorum.voters to the controllers of its own cluster, or use data "
                "directories that are formatted for the cluster of these controllers.",
            )
        if answer.error_code is ErrorCode.unsupported_version:
            raise OperatorError(
                f"Broker {node_id} does not support a feature level that the cluster has finalized.",
                "Use the release that the other nodes use, or a newer one.",
            )
        if answer.error_code is ErrorCode.duplicate_broker_registration:
            return (
                f"another broker with node.id {node_id} is registered and alive, or was until a moment ago "
                "(if this continues, two nodes have that node.id)"
            )
        if answer.error_code is not ErrorCode.none:
            return f"the controller refuses it with {told_refusal(answer.error_code)}"
        self.epoch = BrokerEpoch(answer.broker_epoch)
        self._on_registered(self.epoch)
        if self.state is BrokerState.STARTING:
            self._become(BrokerState.RUNNING if self._wants_to_serve else BrokerState.RECOVERY)
        log.info("broker %d is registered with epoch %d", node_id, self.epoch)
        return None


def registration_request(registration: BrokerRegistration, epoch: BrokerEpoch) -> BrokerRegistrationRequest:
    """The message that says ``registration``.

    A process that was registered before, with ``epoch``, has lost nothing since (BRK-2).
    """
    return BrokerRegistrationRequest(
        broker_id=BrokerId(registration.node_id),
        cluster_id=registration.cluster_id,
        incarnation_id=registration.incarnation_id,
        listeners=encode_listeners(Listener, registration.endpoints, registration.security_protocols),
        features=encode_features(Feature, registration.features),
        rack=registration.rack,
        log_dirs=registration.log_dirs,
        previous_broker_epoch=i64(registration.previous_broker_epoch if epoch == NO_BROKER_EPOCH else epoch),
    )
