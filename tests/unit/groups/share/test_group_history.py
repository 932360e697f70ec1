"""Share groups through random histories, beside a naive model of what a group knows of its topics.

A coordinator that reads the log comes to what this one shows, from the whole log, from a compacted one, and from the values of the keys in
any order; no epoch falls; members have initialised partitions only; no state is made again from which members may have read; each partition
begins where it should; and in the end all partitions have members.
"""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.groups.settings import ShareGroupSettings
from esp.groups.share.effects import InitialiseShareStates
from esp.groups.share.group import ShareGroup
from esp.groups.share.partitions import partitions_of
from esp.groups.share.requests import LEAVE_EPOCH
from esp.model.errors import ErrorCode
from esp.schemas.share_group_record_codec import decode_share_group_record
from tests.unit.groups.share.share_world import GROUP, ShareWorld
from tests.unit.groups.world import Topics

NAMES = "abcd"
TOPICS = ("t", "u")
SHARE = ShareGroupSettings(session_timeout_ms=20_000)
LOST = (ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch, ErrorCode.group_id_not_found)


class Client:
    """A member as its client sees itself."""

    def __init__(self, name):
        self.name = name
        self.epoch = 0
        self.topics = ("t",)


class History:
    """Clients of one group; a log that takes nothing now and then; share coordinators that answer late, or are asked in vain."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.world = ShareWorld(topics=Topics(t=3, u=2), share=SHARE)
        self.clients = {name: Client(name) for name in NAMES}
        self.questions = []
        """Questions that nothing waits for any more, and that may arrive at any time later."""
        self.counts = {}
        """The model: for each topic that the group knows, the number of its partitions when it came to know it."""
        self.is_altering = False
        self.is_late = False
        self.before = None
        self.initialised = frozenset()

    @property
    def states(self):
        return self.world.states

    def step(self):
        rng, world = self.rng, self.world
        draw = rng.random()
        client = self.clients[rng.choice(NAMES)]
        world.is_deaf = rng.random() < 0.7
        if draw < 0.04:
            name = rng.choice(TOPICS)
            known = world.topics.find(name)
            world.topics.create(name, rng.randrange(1, 4) if known is None else len(known.topic.racks) + 1)
        elif draw < 0.06:
            name = rng.choice(TOPICS)
            if world.topics.find(name) is not None:
                world.delete_topic(name)
        elif draw < 0.1:
            client.topics = rng.choice((("t",), ("t", "u"), ("u",)))
        elif draw < 0.2:
            world.share(client.name, LEAVE_EPOCH)
            client.epoch = 0
        elif draw < 0.4:
            world.sleep(rng.choice((100, 1_000, 4_000, 31_000)))
        elif draw < 0.44:
            self.forget_questions()
            self.world = world.restart(share=SHARE)
        elif draw < 0.5:
            self.administrate()
        elif draw < 0.6:
            self.arrive()
        else:
            self.beat(client, is_lost=rng.random() < 0.2, fails=rng.random() < 0.1)
        if rng.random() < 0.1:
            waiting = dict(self.world.questions)
            self.world.lose()
            self.forget_questions(waiting)
        self.check()

    def forget_questions(self, waiting=None):
        """The driver, or the coordinator, waits for no answer any more."""
        if waiting is None:
            waiting, self.world.questions = self.world.questions, {}
        self.questions += [one for one in waiting.values() if isinstance(one, InitialiseShareStates)]

    def administrate(self):
        """Alter or delete what the group knows, without and with members."""
        world, rng = self.world, self.rng
        world.is_deaf = False
        world.answer()
        self.check()
        draw = rng.random()
        if draw < 0.5:
            self.is_altering = True
            world.alter({(rng.choice(TOPICS), rng.randrange(4)): rng.randrange(20)})
            self.check()
            self.is_altering = False
        elif draw < 0.8:
            world.delete_share_offsets(rng.choice(TOPICS))
        else:
            answer = world.answers[world.delete_group()]
            if answer.error is ErrorCode.none:
                self.before = None
                # a group of the same name begins with epoch 1 again, which is why late questions of this one are not asked here
                self.questions.clear()
                for client in self.clients.values():
                    client.epoch = 0

    def arrive(self):
        """A question arrives, of those that are waited for or not."""
        waiting = self.world.questions
        if waiting and self.rng.random() < 0.7:
            self.world.answer_one(self.rng.choice(list(waiting)))
        elif self.questions:
            self.is_late = True  # for what the group knew once
            self.states.do(self.questions.pop(self.rng.randrange(len(self.questions))))

    def beat(self, client, *, is_lost=False, fails=False):
        world = self.world
        world.is_stuck = fails
        ticket = world.share(client.name, client.epoch, topics=client.topics)
        if fails:
            while world.waiting:
                world.fail()
            world.is_stuck = False
        answer = world.answers[ticket]
        if answer.error in LOST:
            client.epoch = 0
        elif answer.error is ErrorCode.none and not is_lost:
            client.epoch = answer.member_epoch

    def check(self):
        world = self.world
        records = [decode_share_group_record(record.key, record.value) for record in world.log]
        described = world.described()
        group = self.replayed(records)
        assert group.is_forgotten == (described.error is ErrorCode.group_id_not_found)
        if self.rng.random() < 0.1:
            self.check_takeovers(described)
        if group.is_forgotten:
            self.before = None
        else:
            self.check_group(group, described)
        self.check_states(group)

    def replayed(self, records):
        latest = list({record.key: record for record in records}.values())
        self.rng.shuffle(latest)
        group = ShareGroup(GROUP)
        for record in latest:
            group.apply(record)
        return group

    def check_takeovers(self, described):
        log = self.world.log
        last = {record.key: place for place, record in enumerate(log)}
        compacted = [record for place, record in enumerate(log) if last[record.key] == place]
        for kept in (log, compacted):
            assert ShareWorld(log=kept, topics=self.world.topics).described() == described

    def check_group(self, group, described):
        assert (group.epoch, group.assignment_epoch) == (described.epoch, described.assignment_epoch)
        assert group.state.value == described.state
        epochs = {"group": group.epoch, "assignment": group.assignment_epoch}
        for member in group:
            epochs[member.member_id] = member.current.epoch
            assert member.current.epoch <= group.assignment_epoch <= group.epoch
            for one in member.current.assigned:
                assert group.has_initialised(one) or not self.exists(one.topic_id)
        if self.before is not None:
            gone = self.before.keys() - epochs.keys()
            assert all(epochs[name] >= epoch for name, epoch in self.before.items() if name not in gone)
        self.before = epochs

    def exists(self, topic_id):
        return any(self.world.topics.find(name).topic.topic_id == topic_id for name in self.world.topics.names())

    def check_states(self, group):
        """Compare with the model: where partitions begin, and that no state is made anew behind members."""
        known = {**group.partitions.initialising, **group.partitions.initialised}
        for topic_id in self.counts.keys() - known.keys():
            del self.counts[topic_id]
        for topic_id, entry in known.items():
            found = self.world.topics.find(entry.topic_name)
            if topic_id not in self.counts and found is not None and found.topic.topic_id == topic_id:
                self.counts[topic_id] = len(found.topic.racks)
        made, self.states.log = self.states.log, []
        for partition, _epoch, start in made:
            if not self.is_altering:
                assert partition not in self.initialised, "members may have read from the state before"
                count = self.counts.get(partition.topic_id)
                if count is not None and not self.is_late:  # else it is of a topic that is gone, or was known before
                    assert start == (-1 if partition.partition < count else 0)
        self.is_late = False
        self.initialised = partitions_of(group.partitions.initialised)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32))
def test_a_group_is_what_its_log_says_and_comes_to_rest(seed):
    history = History(seed)
    for _ in range(80):
        history.step()
    history.world.is_deaf = False
    for name in TOPICS:
        if history.world.topics.find(name) is None:
            history.world.topics.create(name, 2)
    history.world.sleep(1_000)
    for _ in range(6):
        history.world.lose()
        history.world.sleep(7_000)
        for client in history.clients.values():
            history.beat(client)
            history.beat(client)
    history.check()
    described = history.world.described()
    assert described.epoch == described.assignment_epoch
    assert {member.epoch for member in described.members} == {described.epoch}
    assigned = frozenset().union(*(member.assigned for member in described.members))
    subscribed = {name for client in history.clients.values() for name in client.topics}
    assert assigned == frozenset().union(*(history.world.topics.partitions(name) for name in subscribed))
