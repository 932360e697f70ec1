"""A topic in the trash of a node whose log directories come and go between its starts: random histories beside a list of values."""

import asyncio
import logging
from random import Random

import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import create_topic, delete_topic, produce
from tests.unit.broker.simulated_node import records, simulated
from tests.unit.broker.test_trashed_topics import TRASH, all_values, id_of, restore, until_known, until_led

ROUNDS = 12
"""Deletions and restorations."""

BOTH, FIRST, SECOND = ("/a", "/b"), ("/a",), ("/b",)
APPLIED_S = 0.5
"""Within which the broker has applied what the controller has committed."""


class History:
    """One topic, and the values that it must have."""

    def __init__(self, node, rng, log):
        self.node = node
        self.rng = rng
        self.log = log
        self.steps = []
        self.written = 0
        self.expected = []
        """The values that were acknowledged since the last loss."""
        self.place = None
        """The directory in which the log was last."""
        self.may_lose = False
        """True if that directory has been away since, or if the process ended before it made the log durable."""

    async def begin(self):
        self.client = await self.node.client()
        await create_topic(self.client, **TRASH)
        self.topic_id = id_of(self.node)
        await self.check()

    async def play_round(self):
        await self.produce()
        if self.rng.random() < 0.4:
            await self.restart()
            await self.check()
            await self.produce()
        await self.change(delete_topic(self.client, "t"), is_deleted=True)
        for _ in range(2):
            if self.rng.random() < 0.5:
                await self.restart()
        await self.change(restore(self.client, self.topic_id), is_deleted=False)
        await self.check()

    async def produce(self):
        for _ in range(self.rng.randint(0, 3)):
            value = b"%d" % self.written
            self.written += 1
            self.steps.append(f"write {value.decode()}")
            assert (await produce(self.client, "t", records(value))).error_code is ErrorCode.none
            self.expected.append(value)

    async def restart(self):
        if is_clean := self.rng.random() < 0.5:
            await self.node.stop()
        else:
            self.node.kill()
        self.steps.append("stop" if is_clean else "kill")
        await self.start(self.rng.choice((BOTH, FIRST, FIRST, SECOND, SECOND)))

    async def start(self, directories):
        self.steps.append(f"start with {' and '.join(directories)}")
        self.may_lose |= self.place not in directories
        await self.node.start(log_dirs=directories)
        self.client = await self.node.client()
        await asyncio.sleep(APPLIED_S)

    async def change(self, request, *, is_deleted):
        """Delete or restore the topic; at times the broker hears of that only at its next start."""
        what = "delete" if is_deleted else "restore"
        if self.rng.random() < 0.7:
            self.steps.append(what)
            await request
            await asyncio.sleep(APPLIED_S)
            return
        self.steps.append(f"{what}, kill before it is applied")
        async with self.node.replicas.directories_lock:  # nothing is applied
            changing = asyncio.ensure_future(request)
            await until_known(self.node, lambda image: (self.topic_id in image.trashed_topics) is is_deleted)
            self.node.kill()
        changing.cancel()
        self.may_lose |= is_deleted
        # The metadata forget at a restoration in which directory the log was: an older one would be taken for it (decision 60).
        await self.start(self.rng.choice((BOTH, FIRST, SECOND)) if is_deleted else BOTH)

    async def check(self):
        """What was acknowledged is there, unless the node had a reason to report that its log is gone, and did (TRASH-3)."""
        async with asyncio.timeout(60):
            await until_led(self.node)
        found = await all_values(self.client)
        if "the log of t-0 is gone" in self.log.text:
            assert self.may_lose, (self.steps, self.log.text)
            self.expected = [value for value in self.expected if value in found]
        assert [value for value in found if value in self.expected] == self.expected, self.steps
        self.log.clear()
        self.place = "/" + self.node.log("t").path.split("/")[1]
        self.may_lose = False


@pytest.mark.parametrize("seed", range(12))
def test_a_restored_topic_has_what_it_had_unless_a_loss_is_reported(seed, caplog):
    caplog.set_level(logging.INFO)

    @simulated(seed, log_dirs=BOTH, metadata_log_dir="/meta")
    async def scenario(node):
        history = History(node, Random(seed), caplog)
        await history.begin()
        for _ in range(ROUNDS):
            await history.play_round()

    scenario()
