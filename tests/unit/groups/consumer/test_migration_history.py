"""Groups of both protocols through random histories: no partition has two owners, and in the end all members share all of them."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.groups.embedded_protocol import read_subscription
from esp.groups.requests import LEAVE_EPOCH
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.schemas.consumer_group_record_codec import decode_consumer_group_record
from esp.schemas.group_record_codec import decode_group_record
from esp.simulation.workload.leading import share_out
from tests.unit.groups.consumer.classic_client import ClassicClient, assignment
from tests.unit.groups.world import GROUP, REBALANCE_MS, Topics, World

PLACES = 3
PARTITIONS = 5
SETTINGS = {"consumer_session_timeout_ms": 20_000, "group_initial_rebalance_delay_ms": 0}


class ConsumerClient:
    """A member of the consumer protocol as its client sees itself."""

    def __init__(self, name):
        self.name = name
        self.epoch = 0
        self.owned = frozenset()
        """By the names of topics."""
        self.is_unsure = False

    def step(self, history, *, is_lost=False, fails=False):
        world = history.world
        says = self.epoch == 0 or self.is_unsure or history.rng.random() < 0.7
        owned = world.topics.partitions("t", *(number for _, number in self.owned)) if self.owned else ()
        world.is_stuck = fails
        more = {"topics": ("t",), "rebalance_timeout_ms": REBALANCE_MS} if self.is_unsure else {}
        ticket = world.consume(self.name, self.epoch, owned=owned if says or self.epoch == 0 else None, **more)
        history.end_failure(fails=fails)
        answer = world.answers[ticket]
        self.is_unsure = is_lost or answer.error is not ErrorCode.none
        if answer.error in (ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch, ErrorCode.group_id_not_found):
            self.epoch, self.owned = 0, frozenset()
        elif answer.error is ErrorCode.none and not is_lost:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = frozenset(("t", number) for _, number in answer.assignment)

    def leave(self, history):
        history.world.consume(self.name, LEAVE_EPOCH)


class Classic(ClassicClient):
    """A member of the classic protocol, which takes one step at a time."""

    def __init__(self, world, *, is_cooperative):
        super().__init__(world, is_cooperative=is_cooperative)
        self.is_in = False
        self.sync_ticket = None

    def step(self, history, *, is_lost=False, fails=False):
        self.world = world = history.world
        world.is_stuck = fails
        if self.ticket is not None:
            if self.ticket in world.answers:
                self._joined(is_lost=is_lost)
        elif self.sync_ticket is not None:
            if self.sync_ticket in world.answers:
                self._synced(is_lost=is_lost)
        elif not self.is_in:
            self.ask_to_join()
        else:
            self._take(self.beat())
        history.end_failure(fails=fails)

    def _joined(self, *, is_lost):
        if is_lost:
            self.ticket = None
            return
        if self.take_join() is ErrorCode.none:
            given = None
            if self.leads:
                subscriptions = {one.member_id: read_subscription(one.metadata) for one in self.others}
                shares = share_out(subscriptions, [TopicPartition("t", number) for number in range(PARTITIONS)])
                given = {name: assignment(*partitions) for name, partitions in shares.items()}
            self.sync_ticket = self.sync(given)

    def _synced(self, *, is_lost):
        ticket, self.sync_ticket = self.sync_ticket, None
        before = self.owned
        error = ErrorCode.not_coordinator if is_lost else self.take_sync(ticket)
        self.is_in = error is ErrorCode.none and before <= self.owned

    def _take(self, error):
        if error in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
            self.give_up()
        self.is_in = error is ErrorCode.none

    def leave(self, history):
        if self.member_id:
            self.world = history.world
            super().leave()

    def move(self, world):
        """Another node coordinates: what waits is answered."""
        self.ticket = self.sync_ticket = None
        self.world = world


class History:
    """Clients of one group, and a log that takes nothing now and then."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        topics = Topics(t=PARTITIONS)
        topics.configs[GROUP] = {"consumer.assignment.interval.ms": self.rng.choice(("0", "1000"))}
        self.world = World(topics=topics, **SETTINGS)
        self.is_cooperative = self.rng.random() < 0.5
        self.lives = 0
        self.places = [self.new_client() for _ in range(PLACES)]

    def new_client(self):
        self.lives += 1
        if self.rng.random() < 0.5:
            return ConsumerClient(f"consumer {self.lives}")
        return Classic(self.world, is_cooperative=self.is_cooperative)

    def end_failure(self, *, fails):
        world = self.world
        if fails:
            while world.waiting:
                world.fail()
        world.is_stuck = False

    def step(self):
        rng, draw = self.rng, self.rng.random()
        place = rng.randrange(PLACES)
        if draw < 0.06:
            self.places[place].leave(self)
            self.places[place] = self.new_client()
        elif draw < 0.08:
            self.places[place] = self.new_client()  # the one before is gone without a word
        elif draw < 0.2:
            self.world.sleep(rng.choice((100, 1_000, 4_000)))
        elif draw < 0.23:
            self.world = self.world.restart(**SETTINGS)
            for client in self.places:
                if isinstance(client, Classic):
                    client.move(self.world)
        else:
            self.places[place].step(self, is_lost=rng.random() < 0.1, fails=rng.random() < 0.05)
        self.check()

    def members(self):
        """The ids of the group's members."""
        consumers = self.world.coordinator.describe_consumer_group(GROUP)
        return {one.member_id for one in (*consumers.members, *self.world.describe().members)}

    def check(self):
        members = self.members()
        owned = []
        for client in self.places:
            name = client.name if isinstance(client, ConsumerClient) else client.member_id
            if name in members:
                owned += client.owned
        assert len(owned) == len(set(owned)), "a partition has two members"
        if self.rng.random() < 0.05:
            self.check_log()

    def check_log(self):
        """The log holds a group of one protocol, and it is the one that the coordinator shows."""
        latest = {record.key: record.value for record in self.world.log}
        consumer, classic = [], []
        for key, value in latest.items():
            if value is None:
                continue
            decoded = decode_consumer_group_record(key, value)
            if decoded is not None:
                consumer.append(decoded)
            else:
                classic.append(decode_group_record(key, value))
        assert not (consumer and classic), "two groups of one name"
        shown = self.world.groups().get(GROUP)
        if shown is not None and shown.group_type == "consumer":
            assert consumer
            loaded = World(log=self.world.log, topics=self.world.topics, **SETTINGS)
            mine, theirs = (each.coordinator.describe_consumer_group(GROUP) for each in (self.world, loaded))
            assert set(mine.members) == set(theirs.members)
            assert (mine.epoch, mine.assignment_epoch, mine.state) == (
                theirs.epoch,
                theirs.assignment_epoch,
                theirs.state,
            )
        elif shown is not None:
            assert classic


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32))
def test_no_partition_has_two_owners_and_all_come_to_rest(seed):
    history = History(seed)
    for _ in range(120):
        history.step()
    for _ in range(70):
        history.world.sleep(1_000)
        for client in history.places:
            client.step(history)
            client.step(history)
            client.step(history)
            history.check()
    owned = sorted(partition for client in history.places for partition in client.owned)
    assert owned == [("t", number) for number in range(PARTITIONS)]
    sizes = [len(client.owned) for client in history.places]
    assert max(sizes) - min(sizes) <= 1
    kinds = {isinstance(client, ConsumerClient) for client in history.places}
    assert history.world.groups()[GROUP].group_type == ("consumer" if True in kinds else "classic")
