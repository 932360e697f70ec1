"""Random histories of one node with several producers and readers, through kills and restarts: nothing acknowledged is lost.

Producers are idempotent and send a batch again until they know what became of it, as clients do. A kill keeps the page cache, so whatever
was acknowledged before it must be there after it, once, where it was said to be.
"""

import asyncio
import uuid
from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.model.errors import ErrorCode
from esp.records.batch import iterate_records
from esp.records.batch_header import read_header
from esp.simulation.machine.loop import SimulatedLoop
from esp.storage.producer_state import BATCHES_KEPT
from tests.unit.broker.conversation import (
    create_topics,
    delete_topic,
    fetch,
    init_producer_id,
    metadata,
    of_one_partition,
    produce_later,
)
from tests.unit.broker.simulated_node import RefusedError, SimulatedNode, records

TOPICS = {"plain": {"segment_bytes": 1024 * 1024}, "flushed": {"flush_messages": 1}}
PRODUCERS = 3
GONE = (RefusedError, ConnectionRefusedError)


@dataclass
class Topic:
    """What the outside knows of one topic of that id."""

    topic_id: uuid.UUID
    sent: set[bytes] = field(default_factory=set)
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    seen: dict[int, bytes] = field(default_factory=dict)
    """What any reader ever got, by offset."""


@dataclass
class Producer:
    """``pending``: by topic, batches of which it does not know whether they were appended, oldest first."""

    producer_id: int = -1
    next_sequence: dict[str, int] = field(default_factory=dict)
    pending: dict[str, list[tuple[bytes, list[bytes]]]] = field(default_factory=dict)

    def forget(self, topic):
        self.next_sequence.pop(topic, None)
        self.pending.pop(topic, None)


class History:
    def __init__(self, loop, seed):
        self.node = SimulatedNode(loop, seed)
        self.rng = Random(seed)
        self.producers = [Producer() for _ in range(PRODUCERS)]
        self.topics: dict[str, Topic] = {}
        self.count = 0

    async def begin(self):
        await self.node.start()
        client = await self.node.client()
        for producer in self.producers:
            producer.producer_id = (await init_producer_id(client)).producer_id

    # what may happen

    async def create(self, name):
        await self._admin(lambda client: create_topics(client, [(name, 1, TOPICS[name])]))

    async def delete(self, name):
        await self._admin(lambda client: delete_topic(client, name))

    async def _admin(self, call):
        try:
            await call(await self.node.client())
        except GONE:
            await self._revive()
        client = await self.node.client()
        there = {topic.name: topic.topic_id for topic in (await metadata(client)).topics}
        for name in TOPICS:
            known = self.topics.get(name)
            if known is not None and there.get(name) != known.topic_id:
                del self.topics[name]
                for producer in self.producers:
                    producer.forget(name)
            if name in there and name not in self.topics:
                self.topics[name] = Topic(there[name])
        client.close()

    async def produce(self, name, batches, size):
        """All producers send at once, several batches each without waiting between them."""
        if name in self.topics:
            await asyncio.gather(*(self._send(producer, name, batches, size) for producer in self.producers))

    async def _send(self, producer, name, batches, size):
        topic = self.topics[name]
        pending = producer.pending.setdefault(name, [])
        for _ in range(min(batches, BATCHES_KEPT - len(pending))):  # clients have no more in flight
            pending.append(self._new_batch(producer, topic, name, size))
        try:
            client = await self.node.client()
            answers = [produce_later(client, name, batch) for batch, _ in pending]
            for answer in answers:
                part = of_one_partition(await answer)
                assert part.error_code is ErrorCode.none, part
                _, values = pending.pop(0)
                for offset, value in enumerate(values, start=part.base_offset):
                    assert topic.acknowledged.setdefault(offset, value) == value, "one offset for two records"
            client.close()
        except GONE:
            for answer in answers if "answers" in locals() else ():
                answer.cancel()

    def _new_batch(self, producer, topic, name, size):
        values = []
        for _ in range(self.rng.randint(1, 3)):
            self.count += 1
            values.append(b"%d " % self.count + bytes(size))
        topic.sent.update(values)
        sequence = producer.next_sequence.get(name, 0)
        producer.next_sequence[name] = sequence + len(values)
        batch = records(
            *values,
            producer_id=producer.producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            codec=self.rng.choice((0, 3)),
        )
        return batch, values

    async def resend(self, name):
        """A batch that was acknowledged comes again, as from a network that repeats it: nothing changes."""
        if name in self.topics:
            before = self.node.log(name).log_end_offset
            await self.produce(name, 0, 0)
            after = self.node.log(name).log_end_offset
            assert after >= before

    async def kill(self, name, delay_us):
        """The process dies while producers send."""
        sending = asyncio.ensure_future(self.produce(name, 2, 10))
        await asyncio.sleep(delay_us / 1e6)
        self.node.kill()
        await sending
        await self.node.start()
        await self.check()

    async def kill_in_the_disk(self, name, changes):
        """The process dies at some operation of its disk, in the midst of an append, a flush, a creation."""
        self.node.disk.kill_after(changes)
        await self.produce(name, 3, 2000)
        await self.create("plain")
        await self._revive()
        await self.check()

    async def stop(self):
        await self.node.stop()
        await self.node.start()
        await self.check()

    async def pause(self, seconds):
        await asyncio.sleep(seconds)

    async def _revive(self):
        if not self.node.process.alive:
            self.node.settle()
            await self.node.start()
        self.node.disk.faults.kill_at = None

    # what must hold

    async def check(self):
        for name, topic in self.topics.items():
            found = await self._read(name)
            assert sorted(found) == list(range(len(found))), "offsets are dense"
            assert len(set(found.values())) == len(found), "nothing is doubled"
            assert set(found.values()) <= topic.sent, "nothing comes from nowhere"
            for offset, value in (topic.acknowledged | topic.seen).items():
                assert found.get(offset) == value, (name, offset)
            topic.seen |= found

    async def _read(self, name):
        client = await self.node.client()
        found = {}
        while True:
            answer = await fetch(client, name, len(found), partition_max_bytes=self.rng.choice((0, 500, 1 << 21)))
            assert answer.error_code is ErrorCode.none
            left = memoryview(bytes(answer.records))
            if not left:
                assert len(found) == answer.high_watermark
                client.close()
                return found
            while left:
                header = read_header(left)
                for record in iterate_records(left[: header.size]):
                    if record.offset >= len(found):
                        found[record.offset] = record.value
                left = left[header.size :]


NAMES = st.sampled_from(sorted(TOPICS))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES),
        st.tuples(st.just("produce"), NAMES, st.integers(1, 3), st.sampled_from((0, 10, 100_000))),
        st.tuples(st.just("produce"), NAMES, st.integers(1, 3), st.just(10)),
        st.tuples(st.just("resend"), NAMES),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("kill"), NAMES, st.integers(0, 5000)),
        st.tuples(st.just("kill_in_the_disk"), NAMES, st.integers(0, 40)),
        st.tuples(st.just("stop")),
        st.tuples(st.just("pause"), st.sampled_from((0.001, 1.5, 70))),
        st.tuples(st.just("check")),
    ),
    max_size=25,
)


@settings(max_examples=60)
@given(st.integers(0, 10**6), STEPS)
def test_whatever_happens_to_its_process_a_node_loses_and_doubles_nothing(seed, steps):
    loop = SimulatedLoop()

    async def main():
        history = History(loop, seed)
        await history.begin()
        for name in TOPICS:
            await history.create(name)
        for step, *arguments in steps:
            await getattr(history, step)(*arguments)
        for name in tuple(history.topics):
            await history.produce(name, 0, 0)
            assert not any(producer.pending.get(name) for producer in history.producers), "all is known in the end"
        await history.check()
        for name, topic in history.topics.items():
            assert set(topic.acknowledged.values()) == topic.sent, name
        await history.node.stop()

    loop.run(main())
