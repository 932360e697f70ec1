"""The product's driver of the raft core and the quorum tier's do the same: given the same effects, the same is done before each answer.

What a core asks for is played to both, by seed. Both note, at each answer that they give, what their disk holds at that moment.
"""

import asyncio
import uuid
from random import Random
from types import SimpleNamespace

import pytest

from esp.broker.raft.config import RaftConfig, quorum_settings
from esp.broker.raft.driver import RaftDriver
from esp.broker.raft.metadata_log import open_metadata_log_blocking
from esp.broker.raft.snapshots import MetadataSnapshots
from esp.broker.raft.start import RecoveredMember
from esp.model.ids import NO_NODE, DirectoryId, LeaderEpoch, NodeId
from esp.raft import effects, quorum_state
from esp.raft.messages import FetchResponse, VoteResponse
from esp.raft.quorum_state import QuorumState
from esp.raft.roles import Role
from esp.raft.voter_history import VoterHistory
from esp.raft.voters import VoterKey, VoterSet
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.settings.broker import BrokerSettings
from esp.simulation.machine.env import simulated_disk, simulated_env
from esp.simulation.machine.network import SimulatedNetwork
from esp.simulation.quorum_tier.log import QuorumDisk
from esp.simulation.quorum_tier.member import QuorumMember
from esp.storage.log_directory import LogDirectory
from esp.storage.meta_properties import MetaProperties
from tests.unit.broker.scenarios import played

NODE = NodeId(1)
DIRECTORY = DirectoryId(uuid.UUID(int=7))
CLUSTER_ID = "abcdefghijklmnopqrstuv"
NO_VOTERS = VoterSet(())
SETTINGS = BrokerSettings()


class ScriptedCore:
    """Asks for what the test says, and notes how far the log was flushed."""

    role = Role.FOLLOWER
    epoch = LeaderEpoch(1)
    leader_id = NO_NODE
    leader_address = leader_contact = high_watermark = next_deadline_us = None
    kraft_version = 1
    voters = NO_VOTERS

    def __init__(self):
        self.script = []
        self.flushed = []

    def start(self, _now):
        return []

    def on_flushed(self, _now, offset):
        self.flushed.append(offset)
        return []

    def on_send_failed(self, _now, _peer, _request, *, refused):
        assert not refused
        return self.script.pop(0)


class Product:
    """The driver of a node, on a simulated disk."""

    def __init__(self, loop):
        self.core = ScriptedCore()
        self.answers = []
        env = simulated_env(
            loop,
            Random(1),
            loop.new_process("node"),
            simulated_disk(loop, Random(2)),
            SimulatedNetwork(loop, Random(3)),
        )
        directory = LogDirectory.open_blocking(env.disk, "/data")
        directory.format_blocking(MetaProperties(CLUSTER_ID, NODE, DIRECTORY))
        self.disk = env.disk
        self.log = open_metadata_log_blocking(
            env, directory, cluster_id=CLUSTER_ID, node_id=NODE, has_controller_role=True
        )
        config = RaftConfig(settings=SETTINGS, local=VoterKey(NODE, DIRECTORY), cluster_id=CLUSTER_ID, endpoints=())
        snapshots = MetadataSnapshots(env.disk, self.log.path)
        member = RecoveredMember(self.core, VoterHistory(NO_VOTERS, 1), snapshots, None)
        self.driver = RaftDriver(env, config, self.log, member, SimpleNamespace(), asyncio.Lock())

    def token(self):
        product = self

        class Token(asyncio.Future):
            def set_result(self, response):
                product.answers.append((response, *product.held()))
                super().set_result(response)

        return Token()

    def held(self):
        path = f"{self.log.path}/{quorum_state.FILE_NAME}"
        state = QuorumState.decode(self.disk.read_file(path)) if self.disk.exists(path) else None
        return self.log.log_end_offset, state, self.log.high_watermark

    async def play(self, asked):
        self.core.script.append(asked)
        self.driver.on_send_failed(NODE, None, refused=False)
        while self.core.script or self.driver.is_stepping or self.log.recovery_point < self.log.log_end_offset:  # noqa: ASYNC110 - a driver has no event to wait for
            await asyncio.sleep(0.001)
        await self.driver.files.finish_flush()


class Tier:
    """The driver of a simulated member; it is its own world."""

    now_us = 0

    def __init__(self):
        self.core = ScriptedCore()
        self.answers = []
        self.later = []
        self.disks = {}
        self.checks = SimpleNamespace(
            on_persist=lambda *_: None, on_cut=lambda *_: None, on_commit=lambda *_: 0, on_led_append=lambda *_: None
        )
        self.disk = QuorumDisk(DIRECTORY, NO_VOTERS, 1)
        self.member = QuorumMember(
            self, NODE, has_controller_role=True, disk=self.disk, random=Random(4), settings=quorum_settings(SETTINGS)
        )
        self.member.node = self.core

    def after(self, _member, _delay_us, action):
        self.later.append(action)

    def token(self):
        return lambda response: self.answers.append((response, *self.held()))

    def held(self):
        return self.disk.end_offset, self.disk.quorum_state, self.member.applied

    def play(self, asked):
        self.member.do(asked)
        while self.later:
            self.later.pop(0)()


class Script:
    """Effects as a core may ask for them, of a log of its own."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.ends = [0]
        self.committed = 0
        self.epoch = LeaderEpoch(1)

    def step(self):
        """Some effects, each as a function of the driver's way back."""
        return [self._effect() for _ in range(self.random.randrange(1, 9))]

    def _effect(self):
        kind = self.random.choice(("append", "append", "flush", "persist", "truncate", "commit", "vote", "fetch"))
        if kind == "append":
            batch = build_batch(
                [NewRecord(b"x")] * self.random.choice((1, 3)),
                base_offset=self.ends[-1],
                leader_epoch=self.epoch,
                timestamp_ms=0,
            )
            header = read_header(batch)
            self.ends.append(header.next_offset)
            return lambda _token: effects.Append(batch, header, is_fetched=True)
        if kind == "truncate":
            left = [end for end in self.ends if end >= self.committed]
            end = self.random.choice(left)
            self.ends = [kept for kept in self.ends if kept <= end]
            return lambda _token: effects.Truncate(end)
        if kind == "commit":
            self.committed = self.random.choice([end for end in self.ends if end >= self.committed])
            return lambda _token, committed=self.committed: effects.Commit(committed)
        if kind == "persist":
            self.epoch = LeaderEpoch(self.epoch + 1)
            return lambda _token, epoch=self.epoch: effects.Persist(QuorumState(leader_epoch=epoch, voted_id=NODE))
        if kind == "vote":
            return lambda token: effects.Reply(token(), VoteResponse(leader_epoch=self.epoch, is_granted=True))
        if kind == "fetch" and self.ends[-1]:
            read = effects.ReadRecords(0, self.ends[-1], 10_000)
            return lambda token: effects.Reply(token(), FetchResponse(leader_epoch=self.epoch), read)
        return lambda _token: effects.Flush()


async def _with_product(loop, scenario):
    product = Product(loop)
    await product.driver.start()
    await scenario(product)


@pytest.mark.parametrize("seed", range(40))
@played(_with_product)
async def test_the_same_is_done_before_each_answer(product, seed):
    script, tier = Script(seed), Tier()
    for _ in range(6):
        asked = [*script.step(), lambda _token: effects.Flush()]
        await product.play([effect(product.token) for effect in asked])
        tier.play([effect(tier.token) for effect in asked])
        assert product.held() == tier.held()
        assert product.answers == tier.answers
        assert product.core.flushed[-1:] == tier.core.flushed[-1:] == [script.ends[-1]]
        assert product.log.recovery_point == tier.disk.synced_offset
