"""Verbs of one partition: leader and followers (:mod:`esp.replication`), and a controller (:mod:`esp.controller`) that never fails."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from esp.controller.alter_partition import IsrProposal as ProposedIsr
from esp.controller.alter_partition import decide_alter_partition
from esp.controller.broker_sessions import BrokerSessions
from esp.controller.heartbeats import decide_fence
from esp.controller.image import ClusterImage
from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NO_BROKER_EPOCH, NO_NODE, BrokerEpoch, LeaderEpoch, NodeId
from esp.model.partition import PartitionState
from esp.replication.fetch_check import check_leader_epoch
from esp.replication.isr_changes import IsrAnswer, IsrChange
from esp.replication.partition_follower import FetchAnswer, FetchPosition, Next, PartitionFollower, is_still_firm
from esp.replication.partition_leader import ALL_REPLICAS, PartitionLeader
from esp.schemas.metadata_records import (
    FENCE,
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    RECOVERING,
    UNFENCE,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from esp.settings.topic import TopicSettings
from esp.simulation.partition_tier.memory_log import LogWatcher, MemoryLog
from esp.simulation.partition_tier.producers import make_batch
from tests.scenarios.script import verb
from tests.scenarios.verbs.courier import CONTROLLER, Courier, Message, name_of
from tests.unit.controller.samples import Cluster

_TOPIC: Final = "t"
_LAG_TIME_MAX_US: Final = 30_000_000
_SESSION_US: Final = 9_000_000
_BATCHES_PER_FETCH: Final = 10


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A follower's fetch on its way, or parked at its leader."""

    follower: "Broker"
    life: int
    broker_epoch: BrokerEpoch
    leader: NodeId
    position: FetchPosition


@dataclass(frozen=True, slots=True)
class Producing:
    """A produce request that waits for its commit."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    value: str


@dataclass(slots=True, eq=False)
class Broker:
    """A broker's process, with the metadata that it has applied, and its replica."""

    number: NodeId
    log: MemoryLog
    life: int = 0
    is_running: bool = True
    image: ClusterImage | None = None
    role: PartitionLeader | PartitionFollower | None = None
    epoch: BrokerEpoch = NO_BROKER_EPOCH
    asked: Asked | None = None
    """The fetch that it waits for an answer to."""
    parked: dict[NodeId, Asked] = field(default_factory=dict)
    """As a leader: fetches that wait for something new."""
    told: dict[tuple[NodeId, int], int] = field(default_factory=dict)
    """As a leader: the high watermark that each follower, in each of its lives, was told last."""
    producing: list[Producing] = field(default_factory=list)

    @property
    def name(self) -> str:
        """As outcomes name it."""
        return name_of(self.number)


class PartitionStage(Courier, LogWatcher):
    """A controller that never fails, brokers, and one partition."""

    def __init__(self) -> None:
        super().__init__()
        self._now_us = 0
        self._controller = Cluster()
        self._controller.sessions = BrokerSessions(_SESSION_US)
        self._brokers: dict[int, Broker] = {}
        self._settings = TopicSettings()

    # Verbs

    @verb
    def cluster(
        self, brokers: tuple[int, ...], *, replicas: tuple[int, ...], min_insync_replicas: int = 1, records: str = ""
    ) -> None:
        """Start brokers, create a partition, and write records to it, which all replicas have and know to be committed."""
        self._settings = TopicSettings(min_insync_replicas=min_insync_replicas)
        for number in brokers:
            broker = self._brokers[number] = Broker(NodeId(number), MemoryLog(self._settings, self))
            broker.epoch = self._controller.start_broker(number)
        self._controller.create_partition(*replicas, **{"min.insync.replicas": str(min_insync_replicas)})
        self._publish()
        self.deliver()
        for value in records.split(",") if records else ():
            self.produce(replicas[0], value)
            self.deliver()
        self.take()
        self.status()

    @verb
    def produce(self, number: int, value: str, *, acks: str = "all") -> None:
        """Send a broker a batch of one record."""
        broker = self._brokers[number]
        self.say(f"client -> {broker.name} Produce {value} acks={acks}")
        role = broker.role
        if not isinstance(role, PartitionLeader):
            self._answer_client(broker, ErrorCode.not_leader_or_follower, value)
            return
        batch = memoryview(bytearray(make_batch(value.encode(), -1, -1)))
        try:
            base_offset, next_offset, _ = role.append(batch, ALL_REPLICAS if acks == "all" else int(acks), 0)
        except ApiError as error:
            self._answer_client(broker, error.code, value)
            return
        if acks == "all":
            broker.producing.append(Producing(base_offset, next_offset, role.leader_epoch, value))
        else:
            self._answer_client(broker, ErrorCode.none, f"{value} offset={base_offset}")
        self._progress(broker)

    @verb
    def sleep(self, s: int) -> None:
        """Let time pass. Brokers send heartbeats meanwhile, sessions end, leaders look at their ISR, lost fetches are sent again."""
        self._now_us += s * 1_000_000
        for broker in self._running():
            if not self.is_cut(broker.number, CONTROLLER):
                self._heartbeat(broker)
        for node, epoch in self._controller.sessions.expired(self._now_us):
            self._controller.sessions.end(node, epoch)
            self.say(f"controller: the session of {name_of(node)} has ended")
            self._decide(decide_fence(self._controller.image, node, epoch).records)
        for broker in self._running():
            self._alter_isr(broker)
            self._fetch(broker)

    @verb
    def kill(self, number: int) -> None:
        """End a broker's process; its disk stays as it is. Fetches that wait there fail."""
        broker = self._brokers[number]
        for asked in broker.parked.values():
            self._forget(asked)
        broker.is_running = False
        broker.role, broker.image, broker.asked = None, None, None
        broker.parked.clear()
        broker.producing.clear()

    @verb
    def start(self, number: int) -> None:
        """Start a killed broker: it registers, without the marker of an orderly stop."""
        broker = self._brokers[number]
        broker.life += 1
        broker.is_running = True
        broker.log.reopen(Random(0), lossy=False)
        self.say(f"{broker.name} -> controller BrokerRegistration")
        before = len(self._controller.log)
        broker.epoch = self._controller.register(number)
        self._say_records(self._controller.log[before:])
        self._controller.sessions.begin(broker.number, broker.epoch, self._now_us)
        self._publish()

    @verb
    def reassign(self, replicas: tuple[int, ...]) -> None:
        """Ask the controller for other replicas."""
        self.say(f"client -> controller AlterPartitionReassignments replicas={_list(replicas)}")
        self._reassign(tuple(map(NodeId, replicas)))

    @verb
    def cancel(self) -> None:
        """Ask the controller to cancel the reassignment."""
        self.say("client -> controller AlterPartitionReassignments cancel")
        self._reassign(None)

    @verb
    def status(self) -> None:
        """Say what the controller has decided, and where each replica stands."""
        self.say(_describe_partition(self._state))
        for broker in self._brokers.values():
            self.say(f"{broker.name} {self._describe_replica(broker)}")

    # The controller

    @property
    def _state(self) -> PartitionState:
        state: PartitionState = self._controller.partition(_TOPIC)
        return state

    def _decide(self, records: Sequence[MetadataRecord]) -> None:
        self._say_records(records)
        if records:
            self._controller.apply(records)
            self._publish()

    def _say_records(self, records: Sequence[MetadataRecord]) -> None:
        for record in records:
            self.say(f"  controller decides {_describe_record(record)}")

    def _publish(self) -> None:
        """Tell all brokers of the newest metadata."""
        for broker in self._running():
            self._tell(broker)

    def _tell(self, broker: Broker) -> None:
        image, life = self._controller.image, broker.life
        self.withdraw("Metadata", to=broker.number)  # what is pulled now has it as well
        state = self._state
        line = (
            f"controller -> {broker.name} Metadata offset={image.offset}"
            f" leader-epoch={state.leader_epoch} partition-epoch={state.partition_epoch}"
        )
        self.post(Message(CONTROLLER, broker.number, "Metadata", line, lambda: self._apply(broker, life, image)))

    def _heartbeat(self, broker: Broker) -> None:
        """A heartbeat, whose way takes no time."""
        offset = NO_NODE if broker.image is None else broker.image.offset
        controller = self._controller
        try:
            decision = controller.plan_heartbeat(broker.number, broker_epoch=broker.epoch, metadata_offset=offset)
        except ApiError as error:
            self.say(f"{broker.name} <- controller BrokerHeartbeat {error.code.name.upper()}")
            return
        controller.sessions.touch(broker.number, broker.epoch, self._now_us, offset)
        if decision.records:
            self.say(f"{broker.name} -> controller BrokerHeartbeat")
            self._decide(decision.records)

    def _on_alter_partition(self, broker: Broker, broker_epoch: BrokerEpoch, change: IsrChange, life: int) -> None:
        proposed = ProposedIsr(
            topic_id=self._state.topic_id,
            partition=0,
            leader_epoch=LeaderEpoch(change.leader_epoch),
            partition_epoch=change.partition_epoch,
            new_isr=tuple((node, BrokerEpoch(epoch)) for node, epoch in change.members),
            recovering=change.recovering,
        )
        try:
            decision = decide_alter_partition(self._controller.image, broker.number, broker_epoch, [proposed])
        except ApiError as error:
            answer = IsrAnswer(error.code)
        else:
            (reply,) = decision.reply
            if isinstance(reply, ApiError):
                answer = IsrAnswer(reply.code)
            else:
                answer = IsrAnswer(
                    ErrorCode.none, reply.isr, reply.leader, reply.leader_epoch, reply.partition_epoch, reply.recovering
                )
            self._decide(decision.records)
        line = f"{broker.name} <- controller AlterPartition {answer.error_code.name.upper()}"
        if answer.error_code is ErrorCode.none:
            line += f" isr={_set(answer.isr)} partition-epoch={answer.partition_epoch}"
        self.post(
            Message(
                CONTROLLER,
                broker.number,
                "AlterPartition",
                line,
                lambda: self._on_isr_answer(broker, life, change, answer),
                change,
            )
        )

    def _reassign(self, target: tuple[NodeId, ...] | None) -> None:
        decision = decide_reassignments(self._controller.image, [Reassignment(_TOPIC, 0, target)])
        (error,) = decision.reply
        self._decide(decision.records)
        outcome = "NONE" if error is None else f"{error.code.name.upper()}: {error.message or ''}".rstrip(": ")
        self.say(f"client <- controller AlterPartitionReassignments {outcome}")

    # Brokers

    def _running(self) -> list[Broker]:
        return [broker for broker in self._brokers.values() if broker.is_running]

    def _apply(self, broker: Broker, life: int, image: ClusterImage) -> None:
        """Newer metadata has come: the replica leads, follows or goes."""
        old = broker.image
        if not broker.is_running or broker.life != life or (old is not None and image.offset <= old.offset):
            return
        broker.image = image
        topic = image.topics_by_name.get(_TOPIC)
        if topic is None:
            return
        state, role = topic.partitions[0], broker.role
        if role is not None and role.leader_epoch == state.leader_epoch:
            if isinstance(role, PartitionLeader):
                role.update(state, self._now_us)
            else:
                role.update(state)
        else:
            before = (
                None if old is None or _TOPIC not in old.topics_by_name else old.topics_by_name[_TOPIC].partitions[0]
            )
            is_firm = is_still_firm(
                before,
                state,
                was_leader=isinstance(role, PartitionLeader),
                follower=role if isinstance(role, PartitionFollower) else None,
            )
            self._take_role(broker, state, is_firm=is_firm)
        self._progress(broker)
        self._alter_isr(broker)
        self._fetch(broker)
        own = image.brokers.get(broker.number)
        if own is not None and own.fenced and own.epoch == broker.epoch:
            self._heartbeat(broker)

    def _take_role(self, broker: Broker, state: PartitionState, *, is_firm: bool) -> None:
        broker.asked = None
        if broker.number not in state.replicas:
            if broker.role is not None:
                self.say(f"  {broker.name} deletes its replica")
            broker.role = None
            broker.log = MemoryLog(self._settings, self)
        elif state.leader == broker.number:
            broker.log.begin_epoch(state.leader_epoch)
            broker.told.clear()
            broker.role = PartitionLeader(
                broker.log,
                state,
                broker.number,
                now_us=self._now_us,
                lag_time_max_us=_LAG_TIME_MAX_US,
                is_eligible=lambda node, epoch: _is_eligible(broker, node, epoch),
            )
            self.say(f"  {broker.name} leads, epoch={state.leader_epoch} from offset {broker.log.log_end_offset}")
        else:
            broker.role = PartitionFollower(broker.log, state, broker.number, high_watermark_is_firm=is_firm)
            leader = "nobody" if state.leader == NO_NODE else name_of(state.leader)
            self.say(f"  {broker.name} follows {leader}, epoch={state.leader_epoch}")

    # Followers

    def _fetch(self, broker: Broker) -> None:
        role = broker.role
        if isinstance(role, PartitionFollower) and role.state.leader != NO_NODE and broker.asked is None:
            asked = broker.asked = Asked(broker, broker.life, broker.epoch, role.state.leader, role.position)
            position = asked.position
            last = "" if position.last_fetched_epoch < 0 else f" last-epoch={position.last_fetched_epoch}"
            line = f"{broker.name} -> {name_of(asked.leader)} Fetch epoch={position.leader_epoch} offset={position.fetch_offset}{last}"
            self.post(Message(broker.number, asked.leader, "Fetch", line, lambda: self._on_fetch(asked), asked))

    def _on_fetch_answer(self, asked: Asked, answer: FetchAnswer) -> None:
        broker = asked.follower
        role = broker.role
        if not broker.is_running or broker.life != asked.life:
            return
        if not isinstance(role, PartitionFollower):
            self.say(f"  {broker.name} ignores it: it is no follower")
            return
        step = role.on_answer(asked.position, answer, 0)
        assert step is not Next.ASK_RANGE, "logs begin at 0 here"
        if step is Next.IGNORE:
            self.say(f"  {broker.name} ignores it: that is not what it waits for")
        if broker.asked is asked:
            broker.asked = None
            if step is Next.BACK_OFF:
                self.say(f"  {broker.name} backs off")
            else:
                self._fetch(broker)

    # The leader

    def _on_fetch(self, asked: Asked) -> None:
        broker = self._brokers[asked.leader]
        if not broker.is_running:
            self.say("  connection refused")
            self._forget(asked)
            return
        role, follower = broker.role, asked.follower.number
        try:
            if role is not None:
                check_leader_epoch(asked.position.leader_epoch, role.leader_epoch)
            if not isinstance(role, PartitionLeader):
                raise ApiError(ErrorCode.not_leader_or_follower)
            offsets = role.on_follower_fetch(self._now_us, follower, asked.broker_epoch, *asked.position)
        except ApiError as error:
            self._answer(asked, FetchAnswer(error.code), error.code.name.upper())
            return
        if offsets.diverges or self._has_news(broker, asked):
            self._answer_from_log(broker, asked)
        else:
            broker.parked[follower] = asked
        self._progress(broker)
        if role.can_join_isr(follower, self._now_us):
            self._alter_isr(broker)

    def _has_news(self, broker: Broker, asked: Asked) -> bool:
        log = broker.log
        told = broker.told.get((asked.follower.number, asked.life), -1)
        return log.log_end_offset > asked.position.fetch_offset or log.high_watermark > told

    def _answer_from_log(self, broker: Broker, asked: Asked) -> None:
        role, position, log = broker.role, asked.position, broker.log
        try:
            if not isinstance(role, PartitionLeader):
                raise ApiError(ErrorCode.not_leader_or_follower)
            offsets = role.check_follower_fetch(asked.follower.number, asked.broker_epoch, *position[:3])
        except ApiError as error:
            self._answer(asked, FetchAnswer(error.code), error.code.name.upper())
            return
        if offsets.diverges:
            answer = FetchAnswer(
                0,
                offsets.high_watermark,
                offsets.log_start_offset,
                b"",
                offsets.diverging_epoch,
                offsets.diverging_end_offset,
            )
            self._answer(
                asked, answer, f"diverges: epoch {offsets.diverging_epoch} ends at {offsets.diverging_end_offset}"
            )
            return
        records = log.read(position.fetch_offset, offsets.log_end_offset, _BATCHES_PER_FETCH)
        broker.told[asked.follower.number, asked.life] = offsets.high_watermark
        what = f"[{position.fetch_offset},{offsets.log_end_offset}) " if records else ""
        answer = FetchAnswer(0, offsets.high_watermark, offsets.log_start_offset, records)
        self._answer(asked, answer, f"{what}hw={offsets.high_watermark}")

    def _answer(self, asked: Asked, answer: FetchAnswer, what: str) -> None:
        follower = asked.follower
        line = f"{follower.name} <- {name_of(asked.leader)} Fetch {what}"
        self.post(
            Message(asked.leader, follower.number, "Fetch", line, lambda: self._on_fetch_answer(asked, answer), asked)
        )

    def _progress(self, broker: Broker) -> None:
        """Answer fetches and producers for which there is something new."""
        role = broker.role
        for follower, asked in list(broker.parked.items()):
            is_led = isinstance(role, PartitionLeader) and role.leader_epoch == asked.position.leader_epoch
            if not is_led or self._has_news(broker, asked):
                del broker.parked[follower]
                self._answer_from_log(broker, asked)
        producing, broker.producing = broker.producing, []
        for each in producing:
            if not isinstance(role, PartitionLeader) or role.leader_epoch != each.leader_epoch:
                self._answer_client(broker, ErrorCode.not_leader_or_follower, each.value)
            elif broker.log.high_watermark < each.next_offset:
                broker.producing.append(each)
            elif not role.has_enough_replicas():
                self._answer_client(broker, ErrorCode.not_enough_replicas_after_append, each.value)
            else:
                self._answer_client(broker, ErrorCode.none, f"{each.value} offset={each.base_offset}")

    def _answer_client(self, broker: Broker, error: ErrorCode, what: str) -> None:
        self.say(f"  client <- {broker.name} Produce {error.name.upper()} {what}")

    def _alter_isr(self, broker: Broker) -> None:
        role = broker.role
        if not isinstance(role, PartitionLeader):
            return
        change = role.next_isr_change(self._now_us, broker.epoch)
        if change is not None:
            epoch, life = broker.epoch, broker.life
            members = ",".join(f"{node}@{broker_epoch}" for node, broker_epoch in change.members)
            line = (
                f"{broker.name} -> controller AlterPartition {change.kind.value} isr={{{members}}}"
                f" leader-epoch={change.leader_epoch} partition-epoch={change.partition_epoch}"
            )
            self.post(
                Message(
                    broker.number,
                    CONTROLLER,
                    "AlterPartition",
                    line,
                    lambda: self._on_alter_partition(broker, epoch, change, life),
                    change,
                )
            )

    def _on_isr_answer(self, broker: Broker, life: int, change: IsrChange, answer: IsrAnswer) -> None:
        role = broker.role
        if broker.life == life and isinstance(role, PartitionLeader) and role.leader_epoch == change.leader_epoch:
            role.on_isr_answer(change, answer, self._now_us)
            self._progress(broker)
            self._alter_isr(broker)

    # What happens to messages and logs

    def on_lost(self, message: Message) -> None:
        """A fetch that is lost is sent again when time passes or the network is whole; so is an AlterPartition."""
        about = message.about
        if isinstance(about, Asked):
            self._forget(about)
        elif isinstance(about, IsrChange):
            role = self._brokers[message.sender or message.receiver].role
            if isinstance(role, PartitionLeader):
                role.on_isr_answer(about, IsrAnswer(ErrorCode.request_timed_out), self._now_us)

    @staticmethod
    def _forget(asked: Asked) -> None:
        """No answer will come to a fetch."""
        if asked.follower.asked is asked:
            asked.follower.asked = None

    def on_healed(self) -> None:
        """Brokers pull the metadata that they have missed."""
        for broker in self._running():
            if broker.image is not None and broker.image.offset < self._controller.image.offset:
                self._tell(broker)

    def appended(self, log: MemoryLog) -> None:
        """A batch is new in a log."""
        header = log.batches[-1].header
        value = log.batches[-1].data[61:].decode()
        self.say(
            f"  {self._owner(log)} appends [{header.base_offset},{header.next_offset}) epoch={header.leader_epoch}: {value}"
        )

    def truncated(self, log: MemoryLog, high_watermark: int) -> None:
        """A log was cut."""
        self.say(f"  {self._owner(log)} truncates to {log.log_end_offset}")

    def committed(self, log: MemoryLog, before: int) -> None:
        """A high watermark moved."""
        self.say(f"  {self._owner(log)} hw={log.high_watermark}")

    def _owner(self, log: MemoryLog) -> str:
        return next(broker.name for broker in self._brokers.values() if broker.log is log)

    def _describe_replica(self, broker: Broker) -> str:
        role, log = broker.role, broker.log
        if not broker.is_running:
            return "is not running"
        if role is None:
            return "has no replica"
        words = f"epoch={role.leader_epoch} log={_describe_log(log)} hw={log.high_watermark}"
        if not isinstance(role, PartitionLeader):
            return f"follower {words}"
        ends = {node: role.follower(node) for node in role.state.replicas if node != broker.number}
        known = ",".join(f"{node}@{_or_dash(progress.log_end_offset)}" for node, progress in ends.items() if progress)
        pending = "" if role.maximal_isr == set(role.state.isr) else f" maximal-isr={_set(sorted(role.maximal_isr))}"
        return f"leader   {words} isr={_set(role.state.isr)}{pending} followers={known}"


def _is_eligible(broker: Broker, node: NodeId, epoch: int) -> bool:
    assert broker.image is not None
    known = broker.image.brokers.get(node)
    return known is not None and known.is_active and known.epoch == epoch


def _describe_log(log: MemoryLog) -> str:
    starts: dict[int, int] = {}
    for batch in log.batches:
        starts.setdefault(batch.header.leader_epoch, batch.header.base_offset)
    epochs = ",".join(f"{epoch}@{start}" for epoch, start in starts.items())
    return f"[{log.log_start_offset},{log.log_end_offset})" + (f"({epochs})" if epochs else "")


def _describe_partition(state: PartitionState) -> str:
    leader = "-" if state.leader == NO_NODE else name_of(state.leader)
    epochs = f"leader-epoch={state.leader_epoch} partition-epoch={state.partition_epoch}"
    words = [f"replicas={_list(state.replicas)} leader={leader} {epochs} isr={_set(state.isr)}"]
    extra = {
        "adding": state.adding_replicas,
        "removing": state.removing_replicas,
        "elr": state.elr,
        "last-known-elr": state.last_known_elr,
    }
    words += [f"{name}={_set(nodes)}" for name, nodes in extra.items() if nodes]
    return " ".join(words + ["recovering"] * state.recovering)


def _describe_record(record: MetadataRecord) -> str:
    if isinstance(record, PartitionChangeRecord):
        sets = {
            "isr": record.isr,
            "adding": record.adding_replicas,
            "removing": record.removing_replicas,
            "elr": record.eligible_leader_replicas,
            "last-known-elr": record.last_known_elr,
        }
        words = [] if record.replicas is None else [f"replicas={_list(record.replicas)}"]
        words += [f"{name}={_set(nodes)}" for name, nodes in sets.items() if nodes is not None]
        if record.leader != NO_LEADER_CHANGE:
            words.append("leader=-" if record.leader == NO_NODE else f"leader={name_of(record.leader)}")
        if record.leader_recovery_state != NO_RECOVERY_CHANGE:
            words.append("recovering" if record.leader_recovery_state == RECOVERING else "recovered")
        return " ".join(["PartitionChange", *words])
    if isinstance(record, BrokerRegistrationChangeRecord):
        what = {FENCE: "fenced", UNFENCE: "unfenced"}.get(record.fenced, "changed")
        return f"BrokerRegistrationChange {name_of(record.broker_id)} {what}"
    if isinstance(record, RegisterBrokerRecord):
        return f"RegisterBroker {name_of(record.broker_id)} epoch={record.broker_epoch} fenced"
    return type(record).__name__.removesuffix("Record")


def _set(nodes: Sequence[int]) -> str:
    return f"{{{_list(nodes)}}}"


def _list(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))


def _or_dash(value: int) -> str:
    return "-" if value < 0 else str(value)
