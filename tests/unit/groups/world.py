"""A coordinator with a clock, a log and clients: what a driver would do, in the smallest way."""

import uuid
from dataclasses import replace
from itertools import count
from random import Random

from esp.broker.groups.config import coordinator_settings
from esp.groups.consumer.assignors import AssignedTopic
from esp.groups.consumer.topics import KnownTopic, compile_expression, match_names
from esp.groups.coordinator import GroupCoordinator
from esp.groups.effects import Answer, Append
from esp.groups.requests import (
    CommittedOffset,
    ConsumerGroupHeartbeat,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Protocol,
    SyncGroup,
)
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId, TopicPartition
from esp.model.now import Now
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.settings.broker import BrokerSettings
from esp.simulation.machine.env import SeededRandom

START_MS = 1_700_000_000_000
GROUP = "group"
DELAY_MS = 3_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics):
    """Version 1 of a consumer's subscription."""
    body = b"\x00\x01" + len(topics).to_bytes(4, "big")
    for topic in topics:
        body += len(topic).to_bytes(2, "big") + topic.encode()
    return body + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00"


RANGE = (Protocol("range", subscription("t")),)


def topic_id(number):
    """The id of the topic that is created as this one, from 0."""
    return TopicId(uuid.UUID(int=1000 + number))


class Topics:
    """The topics of a cluster, see :class:`esp.groups.consumer.topics.TopicCatalog`."""

    def __init__(self, **counts):
        self.version = 1
        self._topics = {}
        self._created = 0
        self.configs = {}
        self.holds = {}
        """By topic the groups that hold its records."""
        for name, size in counts.items():
            self.create(name, size)

    def create(self, name, count, racks=()):
        """Make a topic, or give it other partitions; ``racks`` are those of each partition."""
        before = self._topics.get(name)
        found = topic_id(self._created) if before is None else before.topic.topic_id
        self._created += before is None
        topic = AssignedTopic(found, tuple(racks) or (frozenset(),) * count)
        self._topics[name] = KnownTopic(topic, repr(topic).encode())
        self.version += 1

    def delete(self, name):
        del self._topics[name]
        self.version += 1

    @property
    def offset(self):
        return 100 + self.version

    def find(self, name):
        return self._topics.get(name)

    def names(self):
        return list(self._topics)

    def matching(self, regex):
        return match_names(compile_expression(regex), sorted(self._topics))

    def group_configs(self, group_id):
        return self.configs.get(group_id, {})

    def hold_groups(self, name):
        return self.holds.get(name, ())

    def partitions(self, name, *numbers):
        """The partitions of a topic, all without numbers."""
        topic = self._topics[name].topic
        return frozenset(TopicIdPartition(topic.topic_id, number) for number in numbers or range(len(topic.racks)))


class World:
    """One coordinator. ``log`` holds the committed records; with ``is_stuck`` appends wait for :meth:`commit` or :meth:`fail`,
    with ``is_busy`` long work for :meth:`work`."""

    def __init__(self, *, log=(), is_stuck=False, is_busy=False, topics=None, **settings):
        self.settings = replace(coordinator_settings(BrokerSettings()), **settings)
        self.now_us = 1_000_000
        self.wall_ms = START_MS
        self.log = list(log)
        self.is_stuck = is_stuck
        self.is_busy = is_busy
        self.waiting = {}
        self.answers = {}
        self.appends = 0
        self.at_rest = 0
        """The number of heartbeats of members that were known to be at rest."""
        self.asked = set()
        self.tickets = count(1)
        self.topics = topics or Topics()
        self.coordinator = GroupCoordinator(self.settings, SeededRandom(Random(len(self.log))), self.topics)
        for record in self.log:
            self.coordinator.replay(record.key, record.value)
        self.do(self.coordinator.begin(self.now))

    @property
    def now(self):
        return Now(self.now_us, self.wall_ms)

    def do(self, effects):
        for effect in effects:
            if isinstance(effect, Append):
                assert effect.records
                self.appends += 1
                self.waiting[effect.token] = effect.records
            elif not isinstance(effect, Answer):
                self.ask_share_coordinators(effect)
            else:
                assert effect.ticket in self.asked, "answered without a question"
                assert effect.ticket not in self.answers, "answered twice"
                self.answers[effect.ticket] = effect.result
        if not self.is_stuck:
            self.commit()
        if not self.is_busy:
            self.work()

    def work(self, most=1_000_000):
        """Do what takes long, so many slices at most."""
        for _ in range(most):
            if not self.coordinator.has_work:
                break
            self.do(self.coordinator.work(self.now))

    def ask_share_coordinators(self, effect):
        """There are none here."""
        raise AssertionError(f"{effect} concerns share groups")

    def commit(self, most=1_000_000):
        """Commit what waits, oldest first."""
        for token in sorted(self.waiting)[:most]:
            if token in self.waiting:  # else what followed from one before has committed it
                self.log += self.waiting.pop(token)
                self.do(self.coordinator.on_committed(token, self.now))

    def fail(self, error=ErrorCode.not_enough_replicas, token=None):
        """Let the oldest append, or that of a token, fail."""
        token = min(self.waiting) if token is None else token
        del self.waiting[token]
        effects = self.coordinator.on_append_failed(token, error, self.now)
        for later in [later for later in self.waiting if self.coordinator.is_withdrawn(later)]:
            del self.waiting[later]
        self.do(effects)

    def sleep(self, ms):
        """Let time pass, calling the coordinator when it asks for it."""
        end_us = self.now_us + ms * 1000
        turns = 0
        while (due := self.coordinator.next_deadline_us) is not None and due <= end_us:
            self._to(max(due, self.now_us))
            self.do(self.coordinator.on_time(self.now))
            turns += 1
            assert turns < 10_000, "the coordinator is busy with nothing"
        self._to(end_us)

    def _to(self, us):
        self.wall_ms += (us - self.now_us) // 1000
        self.now_us = us

    def restart(self, **settings):
        """Another coordinator, that has what is committed."""
        self.do(self.coordinator.unload())
        return self.successor(**settings)

    def successor(self, **settings):
        """Another coordinator over the same log."""
        return World(log=self.log, topics=self.topics, **settings)

    def ask(self, method, request, *, now=None):
        """Ask, and return the ticket."""
        ticket = next(self.tickets)
        self.asked.add(ticket)
        self.do(method(request, ticket, now or self.now))
        return ticket

    def ask_at_rest(self, at_rest, method, request):
        """As :meth:`ask`, after a look at whether nothing follows from the request: then nothing does, and the answer is the same."""
        found = at_rest(request, self.now)
        appends = self.appends
        ticket = self.ask(method, request)
        if found is not None:
            self.at_rest += 1
            assert self.appends == appends
            assert self.answers.get(ticket, found) == found
        return ticket

    def open_tickets(self):
        return self.asked - self.answers.keys()

    def join(self, member_id="", *, group=GROUP, protocols=RANGE, known=False, **more):
        request = JoinGroup(
            group_id=group,
            member_id=member_id,
            session_timeout_ms=more.pop("session_ms", SESSION_MS),
            rebalance_timeout_ms=more.pop("rebalance_ms", REBALANCE_MS),
            protocol_type=more.pop("protocol_type", "consumer"),
            protocols=protocols,
            client_id=more.pop("client_id", "client"),
            client_host="/127.0.0.1",
            requires_known_member_id=known,
            **more,
        )
        return self.ask(self.coordinator.join, request)

    def sync(self, member_id, generation_id, assignments=None, *, group=GROUP, **more):
        request = SyncGroup(
            group_id=group,
            member_id=member_id,
            generation_id=generation_id,
            assignments=assignments or {},
            **more,
        )
        return self.ask(self.coordinator.sync, request)

    def consume(self, member_id, epoch=0, *, group=GROUP, topics=None, owned=None, joins=None, **more):
        """A heartbeat of a member of a consumer group; one that joins tells all that it must."""
        if epoch == 0 if joins is None else joins:
            more.setdefault("rebalance_timeout_ms", REBALANCE_MS)
            topics = ("t",) if topics is None and "topic_regex" not in more else topics
            owned = () if owned is None else owned
        request = ConsumerGroupHeartbeat(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            topic_names=topics,
            owned=None if owned is None else frozenset(owned),
            client_id=f"client of {member_id}",
            client_host="/127.0.0.1",
            **more,
        )
        return self.ask_at_rest(self.coordinator.beat_at_rest, self.coordinator.consumer_group_heartbeat, request)

    def beat(self, member_id, generation_id, *, group=GROUP, instance=None):
        request = Heartbeat(
            group_id=group, member_id=member_id, generation_id=generation_id, group_instance_id=instance
        )
        return self.coordinator.heartbeat(request, self.now)

    def leave(self, *members, group=GROUP):
        leaving = tuple(
            LeavingMember(member) if isinstance(member, str) else LeavingMember(*member) for member in members
        )
        return self.ask(self.coordinator.leave, LeaveGroup(group_id=group, members=leaving))

    def commit_offsets(self, offsets, *, group=GROUP, metadata="", **more):
        committed = tuple(
            CommittedOffset(TopicPartition(topic, partition), offset, 3, metadata)
            for (topic, partition), offset in offsets.items()
        )
        return self.ask(self.coordinator.commit_offsets, OffsetCommit(group_id=group, offsets=committed, **more))

    def delete_offsets(self, *partitions, group=GROUP):
        wanted = tuple(TopicPartition(*partition) for partition in partitions)
        return self.ask(self.coordinator.delete_offsets, OffsetDelete(group_id=group, partitions=wanted))

    def delete_group(self, group=GROUP):
        return self.ask(self.coordinator.delete_group, group)

    def offsets(self, group=GROUP):
        """All committed offsets."""
        result = self.coordinator.fetch_offsets(OffsetFetch(group_id=group, partitions=None))
        return {tuple(fetched.partition): fetched.offset for fetched in result.offsets}

    def describe(self, group=GROUP):
        return self.coordinator.describe_group(group)

    def state(self, group=GROUP):
        return self.describe(group).state

    def groups(self, **filters):
        return {listed.group_id: listed for listed in self.coordinator.list_groups(ListGroups(**filters))}

    def error(self, ticket):
        """The error of an answer; of one about partitions or members the first of theirs."""
        result = self.answers[ticket]
        parts = getattr(result, "partitions", ()) or ()
        if parts:
            return parts[0].error
        return result.error

    def stable(self, size=1, **more):
        """A group in which all have their assignments; returns the member ids, the leader's first."""
        tickets = [self.join(**more) for _ in range(size)]
        self.sleep(2 * DELAY_MS if size > 1 else DELAY_MS)
        joined = [self.answers[ticket] for ticket in tickets]
        assert {result.error for result in joined} == {ErrorCode.none}
        leader = joined[0].leader
        members = sorted((result.member_id for result in joined), key=lambda member_id: member_id != leader)
        generation = joined[0].generation_id
        group = more.get("group", GROUP)
        shares = {member: member.encode() for member in members}
        instance = more.get("group_instance_id")
        synced = [
            self.sync(member, generation, shares if member == leader else None, group=group, group_instance_id=instance)
            for member in reversed(members)
        ]
        assert [self.answers[ticket].assignment for ticket in synced] == [
            member.encode() for member in reversed(members)
        ]
        return members
