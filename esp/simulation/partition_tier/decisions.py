"""The product's own controller for a simulated partition: the decisions of :mod:`esp.controller`, replayed at once, without a quorum.

It takes the place of :class:`~esp.simulation.partition_tier.controller.PartitionController`, which was written from the rules alone, in
some of the runs: so bugs of the controller meet the faults that are aimed at changes of the in-sync set.
"""

import functools
import uuid
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from esp.controller.alter_partition import IsrProposal as ProposedIsr
from esp.controller.alter_partition import decide_alter_partition
from esp.controller.broker_sessions import UNDECIDED_SHUTDOWN, BrokerSessions
from esp.controller.brokers import BrokerRegistration, decide_broker_registration
from esp.controller.config_rules import ConfigRules
from esp.controller.configs import ConfigChange, ConfigOperation, ConfigResource, Operation, decide_alter_configs
from esp.controller.decision import SLICE_CHANGES_MAX, Decision
from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.heartbeats import Heartbeat, HeartbeatReply, decide_fence, decide_heartbeat
from esp.controller.image import (
    CLUSTER_DEFAULT,
    EMPTY_IMAGE,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION,
    ClusterImage,
)
from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.controller.replay import MetadataReplay
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import UNASSIGNED_DIRECTORY, BrokerEpoch, DirectoryId, LeaderEpoch, NodeId
from esp.model.partition import PartitionState
from esp.ports.network import Address
from esp.replication.isr_changes import IsrAnswer, IsrChange
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
)
from esp.settings.node import load_broker_settings
from esp.simulation.partition_tier.controller import Broker, Election, Image

_CLUSTER_ID: Final = "simulated-cluster-id"
_TOPIC: Final = "topic"
_EPOCH: Final = LeaderEpoch(1)
_LISTENER: Final = "PLAINTEXT"

Reply = TypeVar("Reply")


class _Rest(NamedTuple):
    """The part of a decision that is left."""

    decide: Callable[[ClusterImage], Decision[Any]]
    on_reply: Callable[[Any], None]


@functools.cache
def _config_rules() -> ConfigRules:
    return ConfigRules(load_broker_settings(None))


class DecidingController:
    """See :class:`~esp.simulation.partition_tier.controller.PartitionController`, arguments included.

    ``spares`` are brokers without a replica. With ``in_slices`` a slice changes one partition, and the next one is decided with the next
    look at the sessions: where a broker leaves the partition, as if it had many others.
    """

    def __init__(
        self,
        partition: PartitionState,
        min_insync_replicas: int,
        session_us: int,
        on_change: Callable[[Image, Election | None], None],
        *,
        has_own_minimum: bool = True,
        unclean_allowed: bool,
        spares: Collection[NodeId] = (),
        in_slices: bool = False,
    ) -> None:
        self._changes_max = 1 if in_slices else SLICE_CHANGES_MAX
        self._rests: list[_Rest] = []
        brokers = (*partition.replicas, *spares)
        self._replay = MetadataReplay(EMPTY_IMAGE)
        self._next_offset = 0
        self._topic_id = partition.topic_id
        self._sessions = BrokerSessions(session_us)
        self._unclean_allowed = unclean_allowed
        self._incarnations = dict.fromkeys(brokers, 0)
        for node in brokers:
            self._decide_registration(node, 0, -1, 0)
        self._has_own_minimum = has_own_minimum
        minimum = {MIN_INSYNC_REPLICAS: str(min_insync_replicas)}
        settings = dict(minimum) if has_own_minimum else {}
        if unclean_allowed:
            settings[UNCLEAN_LEADER_ELECTION] = "true"
        self._apply(
            [
                *(
                    ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=CLUSTER_DEFAULT, name=name, value=value)
                    for name, value in minimum.items()
                    if not has_own_minimum
                ),
                TopicRecord(name=_TOPIC, topic_id=partition.topic_id),
                *(
                    ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=_TOPIC, name=name, value=value)
                    for name, value in settings.items()
                ),
                PartitionRecord(
                    partition_id=partition.partition,
                    topic_id=partition.topic_id,
                    replicas=partition.replicas,
                    isr=partition.isr,
                    removing_replicas=(),
                    adding_replicas=(),
                    leader=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    directories=(UNASSIGNED_DIRECTORY,) * len(partition.replicas),
                ),
            ]
        )
        for node in brokers:
            self._beat(node, self._replay.image.brokers[node].epoch, self._next_offset, 0, wants_shutdown=False)
        self.image = self._new_image()
        self._on_change = on_change

    def register(self, node: NodeId, incarnation: int, previous_epoch: int, now_us: int) -> int | None:
        """BRK-1, BRK-2; a process's requests end with it, so that nothing comes of an incarnation that is over."""
        known = self._incarnations[node]
        if incarnation <= known:
            return self.image.brokers[node].epoch if incarnation == known else None
        self._incarnations[node] = incarnation
        is_lossy = previous_epoch != self.image.brokers[node].epoch
        epoch = self._decide_registration(node, incarnation, previous_epoch, now_us)
        self._publish(lossy=(node,) if is_lossy else ())
        return epoch

    def heartbeat(self, node: NodeId, epoch: int, applied_offset: int, now_us: int, *, wants_shutdown: bool) -> bool:
        """BRK-4, 5, 7. False if the broker's epoch is stale."""
        try:
            self._beat(node, epoch, applied_offset, now_us, wants_shutdown=wants_shutdown)
        except ApiError:
            return False
        self._publish()
        return True

    def expire_sessions(self, now_us: int) -> None:
        """BRK-6."""
        rests, self._rests = self._rests, []
        for rest in rests:
            decision = rest.decide(self._replay.image)
            self._apply(decision.records)
            self._keep_rest(decision, rest.on_reply)
            self._publish()
        for node, epoch in self._sessions.expired(now_us):
            self._sessions.end(node, epoch)
            fencing = decide_fence(self._replay.image, node, epoch, self._changes_max)
            self._apply(fencing.records)
            self._keep_rest(fencing, lambda _: None)
            self._publish()

    def alter_partition(self, sender: NodeId, sender_epoch: int, change: IsrChange) -> IsrAnswer:
        """ISR-7."""
        proposed = ProposedIsr(
            topic_id=self._topic_id,
            partition=0,
            leader_epoch=LeaderEpoch(change.leader_epoch),
            partition_epoch=change.partition_epoch,
            new_isr=tuple((node, BrokerEpoch(epoch)) for node, epoch in change.members),
            recovering=change.recovering,
        )
        try:
            decision = decide_alter_partition(self._replay.image, sender, BrokerEpoch(sender_epoch), [proposed])
        except ApiError as error:
            return IsrAnswer(error.code)
        self._apply(decision.records)
        self._publish()
        (reply,) = decision.reply
        if isinstance(reply, ApiError):
            return IsrAnswer(reply.code)
        return IsrAnswer(
            ErrorCode.none, reply.isr, reply.leader, reply.leader_epoch, reply.partition_epoch, reply.recovering
        )

    def reassign(self, target: tuple[NodeId, ...] | None) -> bool:
        """Give the partition other replicas, or cancel that (REASSIGN-1, REASSIGN-3); returns whether that was accepted."""
        wanted = [Reassignment(_TOPIC, 0, target)]
        decision = decide_reassignments(self._replay.image, wanted)
        self._apply(decision.records)
        self._publish()
        return decision.reply == [None]

    def set_minimum(self, min_insync_replicas: int) -> None:
        """Another minimum of in-sync replicas, of the topic or of all (ELR-3)."""
        resource = (
            ConfigResource(TOPIC_RESOURCE, _TOPIC)
            if self._has_own_minimum
            else ConfigResource(BROKER_RESOURCE, CLUSTER_DEFAULT)
        )
        operation = ConfigOperation(MIN_INSYNC_REPLICAS, Operation.SET, str(min_insync_replicas))
        change = ConfigChange(resource, (operation,))
        decision = decide_alter_configs(self._replay.image, [change], _config_rules(), validate_only=False)
        assert decision.reply == [None]
        self._apply(decision.records)
        self._publish()

    def _decide_registration(self, node: NodeId, incarnation: int, previous_epoch: int, now_us: int) -> BrokerEpoch:
        decision = decide_broker_registration(
            self._replay.image,
            BrokerRegistration(
                node_id=node,
                cluster_id=_CLUSTER_ID,
                incarnation_id=uuid.UUID(int=((node + 1) << 64) + incarnation),
                endpoints={_LISTENER: Address("host", 9092 + node)},
                security_protocols={_LISTENER: 0},
                features=SUPPORTED_FEATURES,
                rack=None,
                log_dirs=(DirectoryId(uuid.UUID(int=(node + 1) << 64)),),
                previous_broker_epoch=BrokerEpoch(previous_epoch),
            ),
            self._next_offset,
            has_session=self._has_session(node, now_us),
        )
        self._apply(decision.records)
        self._sessions.begin(node, decision.reply, now_us)
        return decision.reply

    def _has_session(self, node: NodeId, now_us: int) -> bool:
        broker = self._replay.image.brokers.get(node)
        return broker is not None and self._sessions.is_live(node, broker.epoch, now_us)

    def _beat(self, node: NodeId, epoch: int, applied_offset: int, now_us: int, *, wants_shutdown: bool) -> None:
        heartbeat = Heartbeat(
            node_id=node,
            broker_epoch=BrokerEpoch(epoch),
            metadata_offset=applied_offset,
            want_fence=False,
            want_shut_down=wants_shutdown,
        )
        decision = decide_heartbeat(self._replay.image, heartbeat, self._sessions, self._changes_max)
        self._apply(decision.records)
        has_rest = decision.rest is not None
        self._sessions.touch(node, heartbeat.broker_epoch, now_us, applied_offset)
        if decision.reply.in_controlled_shutdown:
            self._sessions.begin_shutdown(node, UNDECIDED_SHUTDOWN if has_rest else self._next_offset - 1)

        def on_reply(reply: HeartbeatReply) -> None:
            if has_rest and reply.in_controlled_shutdown:
                self._sessions.decide_shutdown(node, heartbeat.broker_epoch, self._next_offset - 1)
            if reply.should_shut_down:
                self._sessions.end(node, heartbeat.broker_epoch)

        self._keep_rest(decision, on_reply)

    def _keep_rest(self, decision: Decision[Reply], on_reply: Callable[[Reply], None]) -> None:
        if decision.rest is None:
            on_reply(decision.reply)
        else:
            self._rests.append(_Rest(decision.rest, on_reply))

    def _apply(self, records: Sequence[MetadataRecord]) -> None:
        for record in records:
            self._replay.replay(self._next_offset, record)
            self._next_offset += 1
        if records:
            self._replay.publish(self._next_offset - 1, _EPOCH)

    def _new_image(self) -> Image:
        image = self._replay.image
        brokers = {
            node: Broker(broker.epoch, broker.fenced, broker.in_controlled_shutdown)
            for node, broker in image.brokers.items()
        }
        topic = image.topics_by_id[self._topic_id]
        return Image(image.offset, topic.partitions[0], brokers, image.min_insync_replicas(topic))

    def _publish(self, lossy: Collection[NodeId] = ()) -> None:
        """Publish a new image, and the election that came with it; ``lossy`` are the brokers that came back from an unclean end (BRK-2)."""
        before = self.image
        if before.offset == self._replay.image.offset:
            return
        self.image = self._new_image()
        self._on_change(self.image, self._find_election(before.partition, self.image.partition, lossy))

    def _find_election(
        self, before: PartitionState, after: PartitionState, lossy: Collection[NodeId]
    ) -> Election | None:
        """The kind of election that a change of the leader was, by the state before it (ELECT-1)."""
        if after.leader < 0 or after.leader_epoch == before.leader_epoch:
            return None
        kind = "unclean"
        complete = {*before.isr, *before.elr}.difference(lossy)
        if after.leader in complete:
            kind = "isr" if after.leader in before.isr else "elr"
        elif not complete and before.last_known_elr == (after.leader,):
            kind = "last-known"
        elif before.is_reassigning and not after.is_reassigning and not after.recovering:
            kind = "isr"  # it came into the ISR with the same change, which ended the reassignment (REASSIGN-2)
        assert kind != "unclean" or self._unclean_allowed, f"{before} -> {after}: no rule allows that (ELECT-1)"
        return Election(after.leader, after.leader_epoch, kind)
