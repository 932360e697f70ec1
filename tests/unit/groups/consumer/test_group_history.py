"""Consumer groups through random histories: what is committed is what the log replays to, in any order of keys, and all members arrive."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.groups.consumer.group import ConsumerGroup
from esp.groups.requests import LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from esp.model.errors import ErrorCode
from esp.schemas.consumer_group_record_codec import decode_consumer_group_record
from tests.unit.groups.world import GROUP, REBALANCE_MS, Topics, World

NAMES = "abcd"


class Client:
    """A member as its client sees itself."""

    def __init__(self, name):
        self.name = name
        self.epoch = 0
        self.owned = frozenset()
        self.topics = ("t",)
        self.instance_id = None
        self.is_unsure = False
        """True if an answer was lost, or was an error: then it tells everything, to be told everything."""


class History:
    """Clients of one group, and a log that takes nothing now and then."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.world = World(topics=Topics(t=5, u=2), consumer_session_timeout_ms=20_000)
        self.clients = {name: Client(name) for name in NAMES}
        if self.rng.random() < 0.5:
            self.clients["a"].instance_id = "static"

    def step(self):
        rng, world = self.rng, self.world
        draw = rng.random()
        client = self.clients[rng.choice(NAMES)]
        if draw < 0.03:
            world.topics.create("t", rng.randrange(1, 8))
        elif draw < 0.05:
            client.topics = rng.choice((("t",), ("t", "u"), ("u",)))
        elif draw < 0.1:
            self.leave(client)
        elif draw < 0.3:
            world.sleep(rng.choice((100, 1_000, 4_000)))
        elif draw < 0.33:
            self.world = world.restart(consumer_session_timeout_ms=20_000)
        else:
            self.beat(client, is_lost=rng.random() < 0.2, fails=rng.random() < 0.1)

    def leave(self, client):
        epoch = LEAVE_STATIC_EPOCH if client.instance_id is not None and self.rng.random() < 0.5 else LEAVE_EPOCH
        self.world.consume(client.name, epoch, instance_id=client.instance_id)
        self.give_up(client)
        if epoch == LEAVE_STATIC_EPOCH:
            del self.clients[client.name]
            back = self.clients[client.name] = Client(client.name)
            back.instance_id, back.topics = client.instance_id, client.topics

    def give_up(self, client):
        client.epoch, client.owned = 0, frozenset()

    def beat(self, client, *, is_lost=False, fails=False):
        world = self.world
        says = client.epoch == 0 or client.is_unsure or self.rng.random() < 0.7
        world.is_stuck = fails
        ticket = world.consume(
            client.name,
            client.epoch,
            topics=client.topics,
            owned=client.owned if says else None,
            instance_id=client.instance_id,
            **({"rebalance_timeout_ms": REBALANCE_MS} if client.is_unsure else {}),
        )
        if fails:
            while world.waiting:
                world.fail()
            world.is_stuck = False
        answer = world.answers[ticket]
        client.is_unsure = is_lost or answer.error is not ErrorCode.none
        if is_lost and answer.error is ErrorCode.none:
            return
        if answer.error in (ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch, ErrorCode.group_id_not_found):
            self.give_up(client)
        elif answer.error is ErrorCode.none:
            client.epoch = answer.member_epoch
            if answer.assignment is not None:
                client.owned = frozenset(answer.assignment)
        self.check()

    def check(self):
        """What a coordinator that reads the log comes to is what this one shows; no partition has two living members."""
        world = self.world
        described = world.coordinator.describe_consumer_group(GROUP)
        records = [decode_consumer_group_record(record.key, record.value) for record in world.log]
        latest = {record.key: record for record in records if record is not None}
        shuffled = list(latest.values())
        self.rng.shuffle(shuffled)
        group = ConsumerGroup(GROUP)
        for record in shuffled:
            group.apply(record)
        assert group.is_forgotten == (described.error is ErrorCode.group_id_not_found)
        if not group.is_forgotten:
            assert (group.epoch, group.assignment_epoch) == (described.epoch, described.assignment_epoch)
            assert group.state.value == described.state
            members = {member.member_id: member for member in described.members}
            assert {one.member_id for one in group} == members.keys()
            for one in group:
                held = frozenset((*one.current.assigned, *one.current.pending_revocation))
                assert held == members[one.member_id].assigned
                assert one.current.epoch <= group.assignment_epoch <= group.epoch
        living = [one for one in self.clients.values() if group.find(one.name) is not None and one.epoch > 0]
        owned = [partition for one in living for partition in one.owned]
        assert len(owned) == len(set(owned)), "a partition has two members"


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_a_group_is_what_its_log_says_and_comes_to_rest(seed):
    history = History(seed)
    for _ in range(80):
        history.step()
    for _ in range(8):
        history.world.sleep(1_000)
        for client in history.clients.values():
            history.beat(client)
            history.beat(client)
    described = history.world.coordinator.describe_consumer_group(GROUP)
    assert described.state == "Stable"
    assert all(member.assigned == member.target for member in described.members)
    subscribed = {name for client in history.clients.values() for name in client.topics}
    every = frozenset().union(*(history.world.topics.partitions(name) for name in subscribed))
    owned = [partition for client in history.clients.values() for partition in client.owned]
    assert len(owned) == len(set(owned))
    assert set(owned) == every
