"""Members, producers, connections and a coordinator that fails, in any order over one real log: nothing accepted comes again, all ends."""

import asyncio
from copy import copy
from random import Random

import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import create_topic, produce
from tests.unit.broker.share.share_members import (
    ACCEPT,
    REJECT,
    RELEASE,
    Member,
    MemoryPersister,
    leaders_of,
    set_group,
)
from tests.unit.broker.simulated_node import records, simulated

FAILURES = (ErrorCode.coordinator_not_available, ErrorCode.not_coordinator, ErrorCode.fenced_leader_epoch)


class UnreliablePersister(MemoryPersister):
    """Fails now and then; of a write that fails it is not known what has become of it."""

    def __init__(self, rng):
        super().__init__()
        self.rng = rng
        self.rate = 0.1

    async def write(self, key, state_epoch, leader_epoch, write):
        await asyncio.sleep(self.rng.random() / 10)
        is_failing = self.rng.random() < self.rate
        if not is_failing or self.rng.random() < 0.5:
            await super().write(key, state_epoch, leader_epoch, write)
        self.failure = self.rng.choice(FAILURES) if is_failing else None
        try:
            self._check(key, leader_epoch)
        finally:
            self.failure = None


class History:
    """The deliveries and the words that were answered."""

    def __init__(self):
        self.holders = {}
        self.done = set()

    def deliver(self, member, offset):
        assert offset not in self.done, f"{offset} was done with, and is delivered again (SHARE-4)"
        self.holders[offset] = member

    def answer(self, words, error):
        if not error:
            for first, _last, type_ in words:
                if type_ in (ACCEPT, REJECT):
                    self.done.add(first)


async def live(node, leaders, topic, history, rng, name, until_s):
    """One member: it fetches, says what it likes, loses connections, and comes back."""
    member, words = Member(leaders, name), []
    while node.loop.time() < until_s:
        chance = rng.random()
        if chance < 0.08:
            member.cut()
            member, words = Member(leaders, name), []
            continue
        said = words if member.epoch else []
        answer = await member.fetch_later(
            topic,
            words={topic: said} if said else {},
            wait_ms=rng.randrange(600),
            most=rng.randrange(1, 9),
            mode=rng.randrange(2),
            batch_size=rng.randrange(1, 5),
            min_bytes=rng.choice((0, 1, 300)),
        )
        if answer.error_code is not ErrorCode.none:
            member, words = Member(leaders, name), []
            continue
        parts = [each for found in answer.responses for each in found.partitions]
        words = []
        for part in parts:
            if said:
                history.answer(said, part.acknowledge_error_code)
            for piece in part.acquired_records:
                for offset in range(piece.first_offset, piece.last_offset + 1):
                    history.deliver(name, offset)
                    type_ = rng.choice((ACCEPT, ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT))
                    words.append((offset, offset, type_))
        await asyncio.sleep(rng.random())
        if words and rng.random() < 0.3:
            answered = await member.say_later({topic: words})
            history.answer(words, answered.responses[0].partitions[0].error_code)
            words = []
    member.cut()


def begin_epoch(hosted):
    """Another leader epoch begins, as if another node had led: what this one has in memory is lost."""
    leader = copy(hosted.leader)
    leader.leader_epoch += 1
    hosted.leader = leader
    hosted.role_changed()


@pytest.mark.parametrize("seed", range(8))
@simulated()
async def test_what_is_done_with_never_comes_again_and_all_is_done_with_in_the_end(node, seed):
    rng = Random(seed)
    client = await node.client()
    topic = (await create_topic(client), 0)
    await set_group(
        client,
        auto_offset_reset="earliest",
        partition_max_record_locks=100,
        delivery_count_limit=10,
        record_lock_duration_ms=15_000,
    )
    persister, history = UnreliablePersister(rng), History()
    leaders = leaders_of(node, persister)
    end_s = node.loop.time() + 120
    members = [
        asyncio.ensure_future(live(node, leaders, topic, history, rng, f"m{number}", end_s)) for number in range(4)
    ]
    produced = 0
    while node.loop.time() < end_s - 60:
        count = rng.randrange(1, 6)
        await produce(client, "t", records(*[b"x" * rng.randrange(100)] * count))
        produced += count
        await asyncio.sleep(rng.random() * 2)
        if rng.random() < 0.1:
            begin_epoch(node.hosted("t"))
    for member in members:
        await member
    persister.rate = 0
    last = Member(leaders, "last")
    for _ in range(100):
        got = await last.take(topic, wait_ms=100)
        for first, end, _count in got:
            for offset in range(first, end + 1):
                history.deliver("last", offset)
        if got:
            assert await last.say({topic: [(first, end, ACCEPT) for first, end, _count in got]}) == {
                topic: ErrorCode.none
            }
        (share,) = leaders._groups["g"].values()
        if share.core is not None and share.core.start_offset == produced:
            break
        await asyncio.sleep(1)
    assert share.core.start_offset == produced
    assert share.core.acquired_count == 0
    assert len(history.done) > produced // 3
