"""The coordinator of transactional ids and the leaders of the partitions that they write to, as pure cores on a heap of events, by seed.

Requests, questions of leaders, their answers, markers and commits of the coordinator's log come in any order, are lost, or fail. Clients of
both versions of the protocol send batches ahead, give them up, and ask for the next transaction at once. Leaders have one replica, so that
what they append is committed; the loops and connections around the cores are those of whole nodes (:mod:`esp.simulation.nodes_tier`).
"""

import heapq
import itertools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import LeaderEpoch, NodeId, TopicId, TopicPartition
from esp.model.now import Now
from esp.model.partition import PartitionState
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord
from esp.replication.end_marker import EndMarker
from esp.replication.partition_leader import PartitionLeader
from esp.replication.verification import OPEN, Guard
from esp.schemas.transaction_record_codec import decode_transaction_record
from esp.schemas.transaction_records import TransactionStatus, TransactionValue
from esp.settings.topic import TopicSettings
from esp.simulation.checkers.transaction_checker import CLOCK_SLACK
from esp.simulation.checkers.transaction_history import InitRequest
from esp.simulation.checkers.transaction_log import AT_REST, DECISIONS, IdState, find_wrong_move
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.late_epochs import late_epochs
from esp.simulation.partition_tier.memory_log import MemoryLog
from esp.simulation.partition_tier.producers import make_batch
from esp.simulation.streams import stream
from esp.transactions.coordinator import TransactionCoordinator
from esp.transactions.effects import Answer, Append, WriteMarkers
from esp.transactions.markers import MarkerOutcome, outcome_of
from esp.transactions.requests import AddPartitions, EndTransaction, InitProducerId, Producer, VerifyPartitions
from esp.transactions.settings import TransactionSettings
from esp.transactions.transaction import EPOCH_MAX

IDS: Final = ("one", "two")
PARTITIONS: Final = (TopicPartition("written", 0), TopicPartition("written", 1))
STEPS: Final = 1_000
"""Actions of clients."""

TIMEOUT_MS: Final = 1_000
CALM_S: Final = 60.0
"""The time after which everything has ended, once nothing fails any more."""

_ME: Final = NodeId(1)
_TOPIC_ID: Final = TopicId(uuid.UUID(int=3))
_NEVER_MS: Final = 1 << 40
_EXPIRATIONS_MS: Final = (_NEVER_MS, _NEVER_MS, 250)
_FIRST_EPOCHS: Final = (0, 0, EPOCH_MAX - 2)
"""The first epochs of new producers, one of which is drawn: from the last of them on epochs are exhausted soon (TXN-3)."""

_SETTINGS: Final = TransactionSettings(
    transaction_max_timeout_ms=900_000,
    transactional_id_expiration_ms=_NEVER_MS,
    abort_interval_ms=100,
    remove_interval_ms=100,
    append_timeout_ms=5_000,
)
_DELAY_S: Final = (0.0002, 0.06)
_FAILING_SHARE: Final = 0.1
"""The share of appends of the coordinator, of questions and of answers to markers that fail, or are lost."""

_WRONG_EPOCH_SHARE: Final = 0.04
_REPLACED_SHARE: Final = 0.005
"""The share of the actions of clients after which another node coordinates."""

_WALL_STEP_MS: Final = 20_000
"""Most milliseconds by which the wall clock is wrong; an operator sets it as often as another node coordinates."""

_REPEATED_SHARE: Final = 0.15
"""The share of the requests to end a transaction that are sent twice."""

_TAKEOVER_SHARE: Final = 0.015
_CLIENTS_MAX: Final = 6

_AGAIN: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.unknown_server_error,
    }
)
"""The answers of a coordinator after which it is asked again."""

_NOT_OPEN: Final = frozenset({ErrorCode.transaction_abortable, ErrorCode.invalid_txn_state})


class _Sent:
    """A transaction of a client."""

    def __init__(self) -> None:
        self.decisions: set[bool] = set()
        """The decisions by which its batches count, or do not."""
        self.undecided = 0
        """Batches in partitions that no marker has followed."""
        self.is_committed = False
        """True if a commit was acknowledged."""


class _Client:
    """One instance of an application with a transactional id."""

    def __init__(self, name: str, version: int) -> None:
        self.name = name
        self.version = version
        self.producer: Producer | None = None
        self.is_waiting = False
        """True while it waits for the answer to InitProducerId or EndTxn."""
        self.has_ended = False
        self.is_doubtful = False
        """True if it has given up a batch of this epoch, which may arrive still."""
        self.sequences: dict[TopicPartition, int] = {}
        self.added: set[TopicPartition] = set()
        self.arrivals: dict[TopicPartition, float] = {}
        """The time at which the last batch arrives: connections keep the order."""
        self.unacked = 0
        self.sent = _Sent()

    def begin(self, producer: Producer) -> None:
        """The next transaction, perhaps under another epoch."""
        if producer != self.producer:
            self.sequences.clear()
            self.is_doubtful = False
        self.producer = producer
        self.added.clear()
        self.unacked = 0
        self.sent = _Sent()


@dataclass(slots=True, eq=False)
class _Batch:
    """One batch on its way."""

    client: _Client
    sent: _Sent
    producer: Producer
    place: TopicPartition
    sequence: int


class _Decision(NamedTuple):
    """The markers of a decision, as a coordinator wants them written."""

    coordinator: TransactionCoordinator
    coordinator_epoch: int
    effect: WriteMarkers


class TransactingRun:
    """One run.

    Args:
        seed: of everything random.
    """

    def __init__(self, seed: int) -> None:
        random = self._random = stream("transacting cores", seed)
        self._now_s = 1.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._producer_ids = itertools.count(1000)
        self._fails = True
        self._wall_shift_ms = 0
        self._replaced_s = 0.0
        """The time since when the coordinator is the present one."""
        self._first_epoch = random.choice(_FIRST_EPOCHS)
        self._settings = replace(_SETTINGS, transactional_id_expiration_ms=random.choice(_EXPIRATIONS_MS))
        self._coordinator = self._new_coordinator()
        self._epoch = 1
        """The leader epoch of the coordinator's partition."""
        self._log: list[NewRecord] = []
        """The log of the coordinator, as far as it is committed."""
        self._appends: dict[int, Append] = {}
        """The records that are on their way into that log, in its order."""
        self._answers: dict[int, Callable[[Any], None]] = {}
        self._ids: dict[str, IdState] = {}
        self._by_producer: dict[int, str] = {}
        self._given: set[Producer] = set()
        """The producers that ids have had, or will have."""
        self._inits: dict[str, list[InitRequest]] = {}
        self._asked_ends: set[tuple[str, Producer, bool]] = set()
        self._first: set[tuple[TopicPartition, int, int]] = set()
        self._versions = {name: random.choice((1, 2)) for name in IDS}
        self._clients = [_Client(name, version) for name, version in self._versions.items()]
        self._open: dict[tuple[TopicPartition, int], list[_Sent]] = {}
        """By partition and producer the transactions of the batches that no marker has followed."""
        self._all_sent: list[_Sent] = []
        self._leaders = {partition: self._lead(partition) for partition in PARTITIONS}
        self._do(self._coordinator.begin(self._now()))

    def run(self) -> None:
        """Do all of it.

        Raises:
            ViolationError: an invariant does not hold.
        """
        with late_epochs(self._first_epoch):
            for _ in range(STEPS):
                self._later(self._random.expovariate(1 / 0.02), partial(self._act, self._random.choice(self._clients)))
                if self._random.random() < _REPLACED_SHARE:
                    self._set_clock()
                if self._random.random() < _REPLACED_SHARE:
                    self._later(self._random.random() / 100, self._replace_coordinator)
                self._pass(self._random.expovariate(1 / 0.02))
            self._fails = False
            self._pass(CALM_S)
            self._check_end()

    # --- time ------------------------------------------------------------------------------------------------------------------------

    def _now(self) -> Now:
        return Now(int(self._now_s * 1_000_000), int(self._now_s * 1_000) + self._wall_shift_ms)

    def _set_clock(self) -> None:
        self._wall_shift_ms = self._random.randint(-_WALL_STEP_MS, _WALL_STEP_MS)

    def _later(self, delay_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._now_s + delay_s, next(self._numbers), event))

    def _travel(self, event: Callable[[], None]) -> None:
        low, high = _DELAY_S
        self._later(low * (high / low) ** self._random.random(), event)

    def _pass(self, seconds: float) -> None:
        """Let all happen that is due."""
        end_s = self._now_s + seconds
        while True:
            due_us = self._coordinator.next_deadline_us
            due_s = end_s if due_us is None else max(self._now_s, due_us / 1_000_000 + 1e-6)
            if self._events and self._events[0][0] <= min(due_s, end_s):
                self._now_s, _, event = heapq.heappop(self._events)
                event()
            elif due_s < end_s:
                self._now_s = due_s
                self._do(self._coordinator.on_time(self._now()))
            else:
                break
        self._now_s = end_s

    def _is_lost(self) -> bool:
        return self._fails and self._random.random() < _FAILING_SHARE

    # --- the coordinator -------------------------------------------------------------------------------------------------------------

    def _ask(
        self, method: Callable[[Any, object, Now], list[Any]], request: Any, answer: Callable[[Any], None]
    ) -> None:
        """A request arrives at the coordinator; its answer travels back."""
        ticket = next(self._numbers)
        self._answers[ticket] = answer
        self._do(method(request, ticket, self._now()))

    def _do(self, effects: Sequence[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self._appends[effect.token] = effect
                self._travel(partial(self._settle, self._coordinator, effect.token))
            elif isinstance(effect, Answer):
                self._travel(partial(self._answers.pop(effect.ticket), effect.result))  # type: ignore[call-overload]
            elif isinstance(effect, WriteMarkers):
                for each in effect.partitions:
                    self._travel(partial(self._mark, _Decision(self._coordinator, self._epoch, effect), each))

    def _settle(self, coordinator: TransactionCoordinator, token: int) -> None:
        """The coordinator's log has taken a record, or has not."""
        if coordinator is not self._coordinator:
            return
        append = self._appends.pop(token)
        if self._is_lost():
            self._do(coordinator.on_append_failed(token, ErrorCode.not_enough_replicas, self._now()))
        else:
            self._commit(append)
            self._do(coordinator.on_committed(token, self._now()))

    def _replace_coordinator(self) -> None:
        """Another node coordinates: of what was on its way a part is in the log, and all state is read there."""
        appends, self._appends = list(self._appends.values()), {}
        for append in appends[: self._random.randint(0, len(appends))]:
            self._commit(append)
        before, self._coordinator = self._coordinator, self._new_coordinator()
        self._epoch += 1
        self._replaced_s = self._now_s
        for record in self._log:
            self._coordinator.replay(record.key, record.value)
        self._do(before.unload())
        self._do(self._coordinator.begin(self._now()))

    def _new_coordinator(self) -> TransactionCoordinator:
        return TransactionCoordinator(self._settings, lambda: 2, lambda: next(self._producer_ids))

    def _commit(self, append: Append) -> None:
        self._log += append.records
        for record in append.records:
            decoded = decode_transaction_record(record.key, record.value)
            if decoded is not None and decoded.value is not None:
                self._on_move(decoded.transactional_id, decoded.value)
            elif decoded is not None:
                self._on_forgotten(self._ids.pop(decoded.transactional_id))

    def _on_move(self, name: str, after: TransactionValue) -> None:
        """INV-TXN-DECIDE-ONCE, and INV-TXN-OWNER: a producer ends its transaction, or a newer one or the time does."""
        state = self._ids.get(name)
        if state is None:
            state = self._ids[name] = IdState(name, after, self._now_s)
        wrong = find_wrong_move(state.value, after) if state.value is not after else None
        if wrong is not None:
            raise ViolationError("INV-TXN-DECIDE-ONCE", name, wrong)
        if after.status is TransactionStatus.PREPARE_COMMIT and (name, state.producer, True) not in self._asked_ends:
            raise ViolationError(
                "INV-TXN-OWNER", name, f"a transaction of {tuple(state.producer)} is committed unasked"
            )
        if after.status is TransactionStatus.PREPARE_ABORT:
            self._check_abort(state, after)
        if after.status is TransactionStatus.ONGOING:
            if state.value.status is not TransactionStatus.ONGOING:
                state.open_s = self._now_s
            state.open_epoch = after.producer_epoch
        state.value = after
        self._given |= {state.producer, Producer(after.next_producer_id, 0)}
        self._by_producer[after.producer_id] = name

    def _check_abort(self, state: IdState, after: TransactionValue) -> None:
        """INV-TXN-OWNER: an abort has a cause, and takes the epoch from a producer that has not asked for it (KAFKA-5231, KAFKA-6119)."""
        name, producer = state.transactional_id, state.producer
        subject = f"a transaction of {tuple(producer)}"
        if not self._may_abort(state):
            raise ViolationError("INV-TXN-OWNER", name, f"{subject} is aborted unasked")
        if after.producer_epoch == producer.epoch and (name, producer, False) not in self._asked_ends:
            raise ViolationError("INV-TXN-OWNER", name, f"{subject} is aborted by others, and leaves it its epoch")

    def _may_abort(self, state: IdState) -> bool:
        name = state.transactional_id
        return (
            (name, state.producer, False) in self._asked_ends
            or self._now_s - state.open_s >= CLOCK_SLACK * TIMEOUT_MS / 1000
            or self._replaced_s
            >= state.open_s  # it has read the time of the beginning, by a wall clock that may be wrong
            or any(
                init.expected in (None, state.producer) and (init.answered_s is None or init.answered_s >= state.open_s)
                for init in self._inits.get(name, ())
            )
        )

    def _on_forgotten(self, state: IdState) -> None:
        if state.value.status not in AT_REST:
            raise ViolationError(
                "INV-TXN-NO-HANG", state.transactional_id, f"was forgotten in {state.value.status.name}"
            )

    def _on_told(self, producer: Producer) -> Producer:
        """INV-TXN-OWNER: a client is given only a producer that the coordinator's log has, or that follows with the end (TXN-3)."""
        if producer.epoch > EPOCH_MAX or producer not in self._given:
            raise ViolationError("INV-TXN-OWNER", "a client", f"was given {tuple(producer)}, which no id has")
        return producer

    # --- leaders ---------------------------------------------------------------------------------------------------------------------

    @staticmethod
    def _lead(partition: TopicPartition) -> PartitionLeader:
        log = MemoryLog(TopicSettings())
        log.begin_epoch(1)
        state = PartitionState(_TOPIC_ID, partition.partition, (_ME,), (_ME,), _ME, LeaderEpoch(1), 1)
        return PartitionLeader(log, state, _ME, now_us=0, lag_time_max_us=1, is_eligible=lambda _node, _epoch: True)

    def _mark(self, decision: _Decision, place: TopicPartition) -> None:
        """A marker arrives at its partition."""
        effect = decision.effect
        marker = EndMarker(*effect.producer, effect.is_commit, decision.coordinator_epoch, effect.transaction_version)
        error = ErrorCode.none
        if self._is_lost():  # the node that the metadata names does not have the partition yet
            error = ErrorCode.unknown_topic_or_partition
        else:
            try:
                self._leaders[place].append_marker(marker, 0)
            except ApiError as refused:
                error = refused.code
            else:
                self._check_decided(effect, place)
                for sent in self._open.pop((place, effect.producer.producer_id), ()):
                    sent.decisions.add(effect.is_commit)
                    sent.undecided -= 1
        outcome = outcome_of(error)
        if decision.coordinator is not self._coordinator:
            return
        if outcome is MarkerOutcome.AGAIN or self._is_lost():
            self._later(0.05, partial(self._mark, decision, place))
        else:
            self._travel(partial(self._tell, decision, place, error))

    def _tell(self, decision: _Decision, place: TopicPartition, error: ErrorCode) -> None:
        """The answer to a marker arrives at the coordinator that sent it, if that still is one."""
        coordinator, name, number = decision.coordinator, decision.effect.transactional_id, decision.effect.decision
        if coordinator is not self._coordinator:
            return
        if outcome_of(error) is MarkerOutcome.WRITTEN:
            self._do(coordinator.on_marker_written(name, number, place, self._now()))
        else:
            self._do(coordinator.on_marker_refused(name, number, place, error, self._now()))

    def _check_decided(self, effect: WriteMarkers, place: TopicPartition) -> None:
        """INV-TXN-DECIDE-ONCE: a marker ends a transaction only while its decision is being carried out."""
        state = self._ids.get(effect.transactional_id)
        is_decided = (
            state is not None
            and DECISIONS.get(state.value.status) == effect.is_commit
            and state.producer == effect.producer
        )
        if self._open.get((place, effect.producer.producer_id)) and not is_decided:
            known = None if state is None else state.value
            raise ViolationError(
                "INV-TXN-DECIDE-ONCE", f"{place}", f"a marker of {tuple(effect.producer)}; the coordinator has {known}"
            )

    def _receive(self, batch: _Batch) -> None:
        """A batch arrives at its leader, which asks the coordinator if it must (TXN-4)."""
        leader = self._leaders[batch.place]
        starts_at_zero = batch.client.version > 1
        try:
            guard = leader.begin_verification(*batch.producer, batch.sequence, starts_at_zero=starts_at_zero)
        except ApiError as error:
            self._travel(partial(self._on_produced, batch, error.code))
            return
        if guard is OPEN:
            self._append(batch, guard)
        else:
            self._travel(partial(self._verify, batch, guard))

    def _verify(self, batch: _Batch, guard: Guard) -> None:
        """A leader's question arrives at the coordinator."""
        if self._is_lost():
            self._travel(partial(self._on_produced, batch, ErrorCode.not_enough_replicas))
        elif batch.client.version == 1:
            request = VerifyPartitions(
                transactional_id=batch.client.name, producer=batch.producer, partitions=(batch.place,)
            )
            found = self._coordinator.verify_partitions(request)
            self._check_verdict(batch, found.errors[batch.place])
            self._travel(partial(self._on_verified, batch, guard, found))
        else:
            joins = AddPartitions(
                transactional_id=batch.client.name,
                producer=batch.producer,
                partitions={batch.place: _TOPIC_ID},
                client_version=2,
            )
            self._ask(self._coordinator.add_partitions, joins, partial(self._on_verified, batch, guard))

    def _check_verdict(self, batch: _Batch, code: ErrorCode) -> None:
        """LIVE-TXN: no transaction is lost to the move that is on its way (KAFKA-14904)."""
        state = self._ids.get(batch.client.name)
        if (
            code in _NOT_OPEN
            and state is not None
            and state.value.status is TransactionStatus.ONGOING
            and state.producer == batch.producer
            and batch.place in state.partitions
        ):
            raise ViolationError("LIVE-TXN", f"{batch.place}", f"a batch is refused with {code.name}, and may come")

    def _on_verified(self, batch: _Batch, guard: Guard, found: Any) -> None:
        code = found.errors[batch.place]
        if code is ErrorCode.none:
            self._append(batch, guard)
        elif code is ErrorCode.concurrent_transactions and batch.client.version > 1:
            self._later(0.02, partial(self._receive, batch))
        else:
            self._on_produced(batch, ErrorCode.not_enough_replicas if code in _AGAIN else code)

    def _append(self, batch: _Batch, guard: Guard) -> None:
        leader = self._leaders[batch.place]
        end = leader.log.log_end_offset
        data = bytearray(
            make_batch(
                b"", batch.producer.producer_id, batch.sequence, epoch=batch.producer.epoch, is_transactional=True
            )
        )
        try:
            base_offset, _, _ = leader.append(memoryview(data), -1, 0, guard=guard)
        except ApiError as error:
            self._travel(partial(self._on_produced, batch, error.code))
            return
        if base_offset == end:
            self._on_data(batch, bytes(data))
            batch.sent.undecided += 1
            self._open.setdefault((batch.place, batch.producer.producer_id), []).append(batch.sent)
        self._travel(partial(self._on_produced, batch, ErrorCode.none))

    def _on_data(self, batch: _Batch, data: bytes) -> None:
        """INV-TXN-VERIFIED, and INV-SEQ of the first batch of a producer and epoch."""
        producer = batch.producer
        state = self._ids.get(self._by_producer.get(producer.producer_id, ""))
        if (
            state is None
            or state.value.status in AT_REST
            or state.open_epoch != producer.epoch
            or batch.place not in state.partitions
        ):
            known = None if state is None else (state.value, state.open_epoch)
            raise ViolationError(
                "INV-TXN-VERIFIED", f"{batch.place}", f"{read_header(data)} stands there; the coordinator has {known}"
            )
        key = (batch.place, producer.producer_id, producer.epoch)
        if key not in self._first and batch.sequence:
            raise ViolationError(
                "INV-SEQ", f"{batch.place}", f"sequence {batch.sequence} is the first of {tuple(producer)}"
            )
        self._first.add(key)

    # --- clients ---------------------------------------------------------------------------------------------------------------------

    def _act(self, client: _Client) -> None:
        """A client does something, unless it waits."""
        random = self._random
        if client.has_ended or client.is_waiting:
            return
        if client.producer is None:
            self._init(client, None)
            return
        chance = random.random()
        if chance < _TAKEOVER_SHARE and len(self._clients) < _CLIENTS_MAX:
            self._clients.append(_Client(client.name, client.version))  # and this one lives on as a zombie
        elif chance < _TAKEOVER_SHARE + _WRONG_EPOCH_SHARE:
            self._ask_with_wrong_epoch(client, client.producer)
        elif chance < 0.3:
            self._end(client, is_commit=client.unacked == 0 and random.random() < 0.8)
        else:
            self._send(client, random.choice(PARTITIONS))

    def _init(self, client: _Client, expected: Producer | None) -> None:
        client.is_waiting = True
        request = InitProducerId(transactional_id=client.name, timeout_ms=TIMEOUT_MS, expected=expected)
        asked = InitRequest(expected, self._now_s)
        self._inits.setdefault(client.name, []).append(asked)

        def on_answer(result: Any) -> None:
            asked.answered_s = self._now_s
            if result.error is ErrorCode.none:
                client.is_waiting = False
                client.begin(self._on_told(result.producer))
            elif result.error in _AGAIN:
                self._later(0.02, lambda: self._init(client, expected))
            else:
                client.has_ended = True
                if all(each.has_ended for each in self._clients if each.name == client.name):
                    self._clients.append(_Client(client.name, client.version))

        self._travel(lambda: self._ask(self._coordinator.init_producer_id, request, on_answer))

    def _ask_with_wrong_epoch(self, client: _Client, producer: Producer) -> None:
        """EndTxn with the next epoch (KAFKA-9600), unless that is the owner's when the request arrives: then it ends its transaction."""
        wrong = producer._replace(epoch=producer.epoch + 1)
        request = EndTransaction(
            transactional_id=client.name, producer=wrong, is_commit=True, bumps_epoch=client.version > 1
        )

        def arrive() -> None:
            state = self._ids.get(client.name)
            if state is None or state.producer != wrong:
                self._ask(self._coordinator.end_transaction, request, lambda _result: None)

        self._travel(arrive)

    def _ask_end(self, client: _Client, producer: Producer, *, is_commit: bool, answer: Callable[[Any], None]) -> None:
        self._asked_ends.add((client.name, producer, is_commit))
        request = EndTransaction(
            transactional_id=client.name, producer=producer, is_commit=is_commit, bumps_epoch=client.version > 1
        )

        def arrive(on_answer: Callable[[Any], None]) -> None:
            state = self._ids.get(client.name)
            is_open = state is not None and state.value.status is TransactionStatus.ONGOING
            is_owner = is_open and state is not None and state.producer == producer

            def judge(result: Any) -> None:
                """LIVE-TXN: no request of its own fences the producer whose transaction is open (KAFKA-18464)."""
                if is_owner and result.error is ErrorCode.producer_fenced:
                    raise ViolationError(
                        "LIVE-TXN", client.name, f"{tuple(producer)} is fenced, whose transaction is open"
                    )
                on_answer(result)

            self._ask(self._coordinator.end_transaction, request, judge)

        self._travel(partial(arrive, answer))
        if self._random.random() < _REPEATED_SHARE:
            self._travel(partial(arrive, lambda _result: None))

    def _end(self, client: _Client, *, is_commit: bool) -> None:
        """Commit what is acknowledged, or abort all, and give up what is not acknowledged."""
        producer = client.producer
        assert producer is not None
        client.is_waiting = True
        client.is_doubtful |= client.unacked > 0

        def on_answer(result: Any) -> None:
            if result.error in _AGAIN:
                self._later(0.02, lambda: self._end(client, is_commit=is_commit))
                return
            client.is_waiting = False
            if result.error is not ErrorCode.none:
                self._init(client, producer)
                return
            client.sent.is_committed = is_commit
            is_doubtful = client.is_doubtful
            client.begin(self._on_told(result.producer) if client.version > 1 else producer)
            if client.version == 1 and is_doubtful:
                self._init(client, producer)

        self._ask_end(client, producer, is_commit=is_commit, answer=on_answer)

    def _send(self, client: _Client, place: TopicPartition) -> None:
        """A batch, or the request that adds its partition."""
        producer = client.producer
        assert producer is not None
        if client.version == 1 and place not in client.added:
            request = AddPartitions(transactional_id=client.name, producer=producer, partitions={place: _TOPIC_ID})
            sent = client.sent

            def on_answer(result: Any) -> None:
                if result.errors[place] is ErrorCode.none and sent is client.sent:
                    client.added.add(place)

            self._travel(lambda: self._ask(self._coordinator.add_partitions, request, on_answer))
            return
        sequence = client.sequences.get(place, 0)
        client.sequences[place] = sequence + 1
        client.unacked += 1
        if client.sent not in self._all_sent[-1:]:
            self._all_sent.append(client.sent)
        self._deliver(_Batch(client, client.sent, producer, place, sequence))

    def _deliver(self, batch: _Batch) -> None:
        """Batches to one partition arrive in the order in which they were sent."""
        arrivals = batch.client.arrivals
        low, high = _DELAY_S
        due_s = max(arrivals.get(batch.place, 0.0), self._now_s + low * (high / low) ** self._random.random())
        arrivals[batch.place] = due_s
        self._later(due_s - self._now_s, lambda: self._receive(batch))

    def _on_produced(self, batch: _Batch, code: ErrorCode) -> None:
        """The answer to a batch; one that was given up is not sent again."""
        client = batch.client
        if client.has_ended or client.sent is not batch.sent or client.is_waiting:
            return
        if code is ErrorCode.none:
            client.unacked -= 1
        elif code in (ErrorCode.not_enough_replicas, ErrorCode.out_of_order_sequence_number):
            self._later(0.02, lambda: self._deliver(batch) if client.sent is batch.sent else None)
        else:
            self._init(client, client.producer)

    # --- the end ---------------------------------------------------------------------------------------------------------------------

    def _check_end(self) -> None:
        """LIVE-TXN, INV-TXN-NO-HANG, INV-TXN-ATOMIC, when nothing has failed for long."""
        for name, state in self._ids.items():
            if state.value.status not in AT_REST:
                raise ViolationError("LIVE-TXN", name, f"stays in {state.value.status.name}")
        for place, leader in self._leaders.items():
            log = leader.log
            assert isinstance(log, MemoryLog)
            if any(producer.transaction_first_offset >= 0 for _, producer in log.producers.items()):
                raise ViolationError("INV-TXN-NO-HANG", f"{place}", "a transaction is open for ever")
        for sent in self._all_sent:
            if len(sent.decisions) > 1 or (sent.is_committed and False in sent.decisions):
                raise ViolationError("INV-TXN-ATOMIC", "a client", "of a transaction a part counts")
        for name in self._ids:
            last = _Client(name, self._versions[name])
            self._init(last, None)
            self._pass(CALM_S)
            if last.producer is None:
                raise ViolationError("LIVE-TXN", name, "no client gets a producer")
