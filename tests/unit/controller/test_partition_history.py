"""Histories of a cluster's partitions against a naive model of what every replica holds.

The model knows each replica's records one by one. It lets leaders commit as soon as the rules allow (HW-2, HW-3), lets requests arrive late
and twice, lets brokers be fenced, killed, stopped and bereft of their disks, lets partitions be reassigned, and then asks of the
controller's decisions: does whoever leads, and whoever may lead next, hold every committed record (PROMISE-1, ELR-2)?
"""

from random import Random
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from esp.controller.alter_partition import IsrProposal, decide_alter_partition
from esp.controller.elections import decide_elect_leaders, decide_preferred_leaders
from esp.controller.partition_change import Election, apply_partition_change, is_unclean_election
from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.model.errors import ApiError
from esp.model.ids import BrokerEpoch, NodeId
from esp.schemas.metadata_records import (
    TOPIC_RESOURCE,
    ClearElrRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from tests.unit.controller.samples import Cluster

_BROKERS = (1, 2, 3, 4)
_TOPICS = {"two": ((1, 2, 3), 2), "wide": ((4, 3, 2, 1), 3), "careless": ((2, 1), 1)}
"""Replicas and minimum of each topic's one partition; ``careless`` allows unclean elections."""

_BROKER_FAULTS = (
    "fence",
    "kill_and_restart",
    "lose_disk_and_restart",
    "stop_in_order",
    "start_after_an_orderly_stop",
)

_BROKER = st.sampled_from(_BROKERS)
_TOPIC = st.sampled_from(sorted(_TOPICS))


class _Sent(NamedTuple):
    """A request of a leader's on its way."""

    sender: NodeId
    broker_epoch: BrokerEpoch
    topic: str
    change: IsrProposal


class _Partition:
    """What is true of a partition, whatever the controller believes."""

    def __init__(self, replicas):
        self.logs = {replica: [] for replica in replicas}
        self.committed = []
        self.in_flight = None
        self.bereft = set()
        """Replicas that lost their disk and have not been in sync since."""
        self.promised = True
        """Whether the faults so far are within what is promised."""


class PartitionHistory:
    """A cluster, what is done to it, and what must hold after each step."""

    def __init__(self):
        self.cluster = Cluster()
        self.partitions = {}
        self.sent = []
        self.next_record = 0
        self.seen = 0
        self.states = {}
        for number in _BROKERS:
            self.cluster.start_broker(number)
        for topic, (replicas, minimum) in _TOPICS.items():
            configs = {"min.insync.replicas": str(minimum)}
            if topic == "careless":
                configs["unclean.leader.election.enable"] = "true"
            self.cluster.create_partition(*replicas, topic=topic, **configs)
            self.partitions[topic] = _Partition(replicas)
        self._watch()

    # --- the data ------------------------------------------------------------------------------------------------------------------

    def produce(self, topic):
        leader = self._state(topic).leader
        if leader != -1:
            self.next_record += 1
            self.partitions[topic].logs[leader].append(self.next_record)
            self._commit(topic)

    def catch_up(self, topic, replica):
        partition, leader = self.partitions[topic], self._state(topic).leader
        if leader != -1 and replica in partition.logs:
            partition.logs[replica] = list(partition.logs[leader])
            self._commit(topic)

    def _commit(self, topic):
        """Let the leader commit what it may."""
        state, partition = self._state(topic), self.partitions[topic]
        image = self.cluster.image
        minimum = image.min_insync_replicas(image.topics_by_name[topic], len(state.replicas))
        if state.leader == -1 or len(state.isr) < minimum:
            return
        counted = set(state.isr)
        if partition.in_flight is not None:
            counted |= {node for node, _ in partition.in_flight.change.new_isr}
        log = partition.logs[state.leader]
        length = 0
        while length < len(log) and all(partition.logs[node][: length + 1] == log[: length + 1] for node in counted):
            length += 1
        if length > len(partition.committed):
            partition.committed = log[:length]

    # --- leaders' requests ---------------------------------------------------------------------------------------------------------

    def propose(self, topic, wanted, recovering):
        """The leader proposes an in-sync set: of those that were in it, and those that hold all it has."""
        state, partition = self._state(topic), self.partitions[topic]
        if state.leader == -1 or partition.in_flight is not None:
            return
        log = partition.logs[state.leader]
        members = [
            node
            for node in state.replicas
            if node == state.leader or (node in wanted and (node in state.isr or partition.logs[node] == log))
        ]
        change = IsrProposal(
            topic_id=state.topic_id,
            partition=0,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr=tuple((NodeId(node), self.cluster.epoch(node)) for node in members if self._is_registered(node)),
            recovering=recovering and state.recovering,
        )
        sent = _Sent(state.leader, self.cluster.epoch(state.leader), topic, change)
        partition.in_flight = sent
        self.sent.append(sent)

    def deliver(self, which, is_copy):
        """A request arrives, maybe late. With ``is_copy`` its answer is lost, and the leader goes on waiting and sends it again."""
        if not self.sent:
            return
        sent = self.sent[which % len(self.sent)]
        if not is_copy:
            self.sent.remove(sent)
        partition = self.partitions[sent.topic]
        try:
            decision = decide_alter_partition(self.cluster.image, sent.sender, sent.broker_epoch, [sent.change])
        except ApiError:
            answer = None
        else:
            self._apply(decision.records)
            answer = decision.reply[0]
        if partition.in_flight is sent and not is_copy:
            partition.in_flight = None
        if not isinstance(answer, ApiError | None):
            self._commit(sent.topic)

    def read_metadata(self, topic):
        """The leader learns from the log, before any answer, that its partition has changed (ISR-10); what it sent may still be about."""
        partition = self.partitions[topic]
        sent = partition.in_flight
        if sent is not None and sent.change.partition_epoch < self._state(topic).partition_epoch:
            partition.in_flight = None
            self._commit(topic)

    # --- the controller's own ------------------------------------------------------------------------------------------------------

    def balance(self):
        self._apply(decide_preferred_leaders(self.cluster.image).records)

    def elect(self, topic, election):
        self._apply(decide_elect_leaders(self.cluster.image, election, [(topic, [0])]).records)

    def change_minimum(self, topic, minimum):
        self._apply(
            [
                ConfigRecord(
                    resource_type=TOPIC_RESOURCE, resource_name=topic, name="min.insync.replicas", value=str(minimum)
                ),
                ClearElrRecord(topic_name=topic),
            ]
        )

    # --- reassignments -------------------------------------------------------------------------------------------------------------

    def reassign(self, topic, target):
        """Begin a reassignment, or change the one that is running (REASSIGN-1, REASSIGN-5)."""
        if not all(self._is_registered(node) for node in target):
            return
        before = self._state(topic)
        original = before.original_replicas
        (outcome,) = self._decide_reassignment(topic, tuple(map(NodeId, target)))
        assert outcome is None
        after = self._state(topic)
        if after.is_reassigning:
            assert after.target_replicas == target
            assert set(after.original_replicas) == set(original)
            assert {*before.isr, *before.elr} <= {*after.isr, *after.elr}, "INV-REASSIGN"
        else:
            assert after.replicas == target

    def cancel(self, topic):
        """REASSIGN-3."""
        before = self._state(topic)
        (outcome,) = self._decide_reassignment(topic, None)
        after = self._state(topic)
        if outcome is not None:
            assert after == before
        else:
            image = self.cluster.image
            assert set(after.replicas) == set(before.original_replicas)
            assert not after.is_reassigning
            fewer = not {*before.isr, *before.elr} <= {*after.isr, *after.elr}
            minimum = image.min_insync_replicas(image.topics_by_name[topic], len(after.replicas))
            assert topic == "careless" or not fewer or len(after.isr) >= minimum, "INV-REASSIGN"

    def _decide_reassignment(self, topic, target):
        decision = decide_reassignments(self.cluster.image, [Reassignment(topic, 0, target)])
        self._apply(decision.records)
        return decision.reply

    # --- brokers -------------------------------------------------------------------------------------------------------------------

    def heartbeat(self, number):
        if self._is_registered(number):
            self.cluster.beat(number)
            self._watch()

    def all_heartbeats(self):
        for number in _BROKERS:
            self.heartbeat(number)

    def fence(self, number):
        """The session is over, whether the broker lives or not."""
        if self._is_registered(number):
            self.cluster.fence(number)
            self._watch()

    def kill_and_restart(self, number):
        """The process is killed: nothing that was written is lost, but who can know."""
        self.cluster.register(number)
        self._watch()

    def lose_disk_and_restart(self, number):
        for topic, partition in self.partitions.items():
            if number in partition.logs:
                partition.bereft.add(number)
                state = self._state(topic)
                topic_image = self.cluster.image.topics_by_name[topic]
                minimum = self.cluster.image.min_insync_replicas(topic_image, len(state.replicas))
                if len(partition.bereft) >= minimum or len(state.isr) + len(state.elr) < minimum:
                    partition.promised = False
                partition.logs[number] = []
        self.cluster.register(number)
        self._watch()

    def stop_in_order(self, number):
        if self._is_registered(number):
            self.cluster.beat(number, want_shut_down=True)
            self._watch()

    def start_after_an_orderly_stop(self, number):
        if self._is_registered(number) and self.cluster.image.brokers[number].fenced:
            self.cluster.register(number, previous_broker_epoch=self.cluster.epoch(number))
            self._watch()

    # --- what holds ----------------------------------------------------------------------------------------------------------------

    def check(self):
        """What holds after every step."""
        self._check_sets()
        self._check_logs()

    def _check_sets(self):
        for topic in self.partitions:
            state = self._state(topic)
            isr, elr, replicas = set(state.isr), set(state.elr), set(state.replicas)
            assert isr <= replicas, "INV-ISR-SUBSET"
            assert elr <= replicas
            assert not isr & elr
            assert len(isr) == len(state.isr)
            for node in isr:
                assert self.cluster.image.brokers[node].is_active, "INV-ISR-UNFENCED"
            assert state.leader == -1 or state.leader in isr
            assert not state.recovering or len(isr) <= 1
            image = self.cluster.image
            minimum = image.min_insync_replicas(image.topics_by_name[topic], len(replicas))
            assert not elr or len(isr) < minimum
            assert not (state.last_known_elr and state.leader != -1)

    def _check_logs(self):
        for topic, partition in self.partitions.items():
            if partition.promised:
                state = self._state(topic)
                for node in (*state.isr, *state.elr):
                    assert partition.logs[node][: len(partition.committed)] == partition.committed, "PROMISE-1"

    def _state(self, topic):
        return self.cluster.partition(topic)

    def _is_registered(self, number):
        return NodeId(number) in self.cluster.image.brokers

    def _apply(self, records):
        self.cluster.apply(records)
        self._watch()

    def _watch(self):
        """Look at what was written since: epochs rise as they must, and elections are what they seem."""
        names = {self._state(topic).topic_id: topic for topic in self.partitions}
        for record in self.cluster.log[self.seen :]:
            match record:
                case PartitionRecord():
                    continue
                case PartitionChangeRecord():
                    self._watch_change(names[record.topic_id], record)
                case ClearElrRecord() if record.topic_name in self.states:
                    state = self.states[record.topic_name]
                    if state.elr or state.last_known_elr:
                        self._watch_change(
                            record.topic_name,
                            PartitionChangeRecord(
                                partition_id=0, topic_id=state.topic_id, eligible_leader_replicas=(), last_known_elr=()
                            ),
                        )
                case RegisterBrokerRecord():
                    assert record.fenced
        self.seen = len(self.cluster.log)
        self.states = {topic: self._state(topic) for topic in self.partitions}

    def _watch_change(self, topic, record):
        before, partition = self.states[topic], self.partitions[topic]
        after = apply_partition_change(before, record)
        assert after.partition_epoch == before.partition_epoch + 1, "INV-EPOCHS-MONO"
        gone = set(before.replicas) - set(after.replicas)
        rises = after.leader != before.leader or bool(gone)
        assert after.leader_epoch == before.leader_epoch + rises, "INV-EPOCHS-MONO"
        self.states[topic] = after
        for node in set(after.replicas) - set(before.replicas):
            partition.logs[node] = []
        if rises:
            partition.in_flight = None
        self._watch_end_of_reassignment(topic, before, after)
        if after.leader != before.leader:
            if is_unclean_election(before, record):  # records may be lost, and what is left is what is committed
                partition.committed = partition.committed[: self._common(topic, after.leader)]
            elif before.last_known_elr == (after.leader,) and after.leader in partition.bereft:
                partition.promised = False  # ELECT-5: nobody can know that it is the one that lost its disk
        partition.bereft -= set(after.isr)
        for node in gone:  # REASSIGN-4
            del partition.logs[node]
            partition.bereft.discard(node)

    @staticmethod
    def _watch_end_of_reassignment(topic, before, after):
        assert {*after.adding_replicas, *after.removing_replicas} <= set(after.replicas)
        assert set(after.target_replicas), "somebody stays"
        has_ended = before.is_reassigning and not after.is_reassigning
        if has_ended and after.replicas == before.target_replicas and after.replicas != before.original_replicas:
            assert set(after.isr) == set(after.replicas), "INV-REASSIGN"

    def _common(self, topic, leader):
        partition = self.partitions[topic]
        log = partition.logs[leader]
        length = 0
        while length < min(len(log), len(partition.committed)) and log[length] == partition.committed[length]:
            length += 1
        return length


class PartitionMachine(RuleBasedStateMachine):
    """The same by Hypothesis, which makes a failing history short."""

    def __init__(self):
        super().__init__()
        self.history = PartitionHistory()

    @rule(topic=_TOPIC)
    def produce(self, topic):
        self.history.produce(topic)

    @rule(topic=_TOPIC, replica=_BROKER)
    def catch_up(self, topic, replica):
        self.history.catch_up(topic, replica)

    @rule(topic=_TOPIC, wanted=st.sets(_BROKER), recovering=st.booleans())
    def propose(self, topic, wanted, recovering):
        self.history.propose(topic, wanted, recovering)

    @rule(which=st.integers(0, 9), is_copy=st.booleans())
    def deliver(self, which, is_copy):
        self.history.deliver(which, is_copy)

    @rule(topic=_TOPIC)
    def read_metadata(self, topic):
        self.history.read_metadata(topic)

    @rule()
    def balance(self):
        self.history.balance()

    @rule(topic=_TOPIC, election=st.sampled_from([Election.PREFERRED, Election.UNCLEAN]))
    def elect(self, topic, election):
        self.history.elect(topic, election)

    @rule(topic=_TOPIC, minimum=st.integers(1, 3))
    def change_minimum(self, topic, minimum):
        self.history.change_minimum(topic, minimum)

    @rule(topic=_TOPIC, nodes=st.lists(_BROKER, min_size=1, max_size=4, unique=True))
    def reassign(self, topic, nodes):
        self.history.reassign(topic, tuple(nodes))

    @rule(topic=_TOPIC)
    def cancel(self, topic):
        self.history.cancel(topic)

    @rule(number=_BROKER)
    def heartbeat(self, number):
        self.history.heartbeat(number)

    @rule(number=_BROKER, what=st.sampled_from(_BROKER_FAULTS))
    def fail(self, number, what):
        getattr(self.history, what)(number)

    @invariant()
    def sound(self):
        self.history.check()


PartitionMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
TestPartitionMachine = PartitionMachine.TestCase


_STEPS = {
    "produce": 8,
    "catch_up": 12,
    "propose": 8,
    "deliver": 6,
    "read_metadata": 3,
    "heartbeat": 10,
    "all_heartbeats": 3,
    "balance": 1,
    "elect": 1,
    "change_minimum": 0.1,
    "reassign": 1,
    "cancel": 0.5,
    **dict.fromkeys(_BROKER_FAULTS, 0.8),
}
"""How often each step is taken, relative to the others, in a random walk; each walk favours some and does without others."""


def _walk(seed, steps):
    random = Random(seed)
    history = PartitionHistory()
    topic = random.choice(sorted(_TOPICS))
    weights = [weight * random.choice((0, 0.3, 1, 1, 3)) for weight in _STEPS.values()]
    arguments = {
        **dict.fromkeys(("produce", "read_metadata", "cancel"), lambda: [topic]),
        "reassign": lambda: [topic, tuple(random.sample(_BROKERS, random.randint(1, 3)))],
        "catch_up": lambda: [topic, random.choice(_BROKERS)],
        "propose": lambda: [topic, {node for node in _BROKERS if random.random() < 0.7}, random.random() < 0.3],
        "deliver": lambda: [random.randrange(10), random.random() < 0.3],
        **dict.fromkeys(("balance", "all_heartbeats"), list),
        "elect": lambda: [topic, Election.UNCLEAN if random.random() < 0.1 else Election.PREFERRED],
        "change_minimum": lambda: [topic, random.randint(1, 3)],
    }
    for step in random.choices(list(_STEPS), weights, k=steps) if any(weights) else ():
        getattr(history, step)(*arguments.get(step, lambda: [random.choice(_BROKERS)])())
        history.check()


@pytest.mark.parametrize("seed", range(120))
def test_no_history_elects_somebody_who_lacks_committed_records(seed):
    _walk(seed, 150)
