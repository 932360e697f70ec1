"""Random histories of controllers on their quorum, through kills and losses of power: what was acknowledged is there, and nothing else.

Loader, controller driver and raft driver are those of a node, on simulated disks and networks. One broker, which never dies, gives the
topics a place.
"""

import asyncio
import uuid
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.broker.controller.config import controller_config
from esp.broker.controller.driver import ControllerDriver
from esp.controller.brokers import BrokerRegistration
from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.heartbeats import Heartbeat
from esp.controller.image import EMPTY_IMAGE
from esp.controller.replay import MetadataReplay
from esp.controller.topics import NewTopic
from esp.model.errors import ApiError
from esp.model.ids import LeaderEpoch, NodeId
from esp.ports.network import Address
from esp.records.batch import iterate_records
from esp.records.batch_header import read_header
from esp.schemas.metadata_frames import decode_record
from esp.settings.broker import BrokerSettings
from esp.simulation.machine.loop import ProcessEndedError, SimulatedLoop
from tests.unit.broker.active_controller import Listening
from tests.unit.broker.decisions import allocate_producer_ids, create_topics, delete_topics
from tests.unit.broker.quorum_conversation import CLUSTER_ID, LOG_PATH, Quorum, with_quorum
from tests.unit.controller.samples import accept_configs, directory

BROKER = NodeId(7)


class Controllers:
    """A quorum whose members have controllers, and the broker."""

    def __init__(self, quorum):
        self.quorum = quorum
        self.listening = Listening(quorum.loop, quorum.network, BROKER)
        self.registration = BrokerRegistration(
            node_id=BROKER,
            cluster_id=CLUSTER_ID,
            incarnation_id=uuid.UUID(int=1000),
            endpoints={"PLAINTEXT": Address("127.0.0.1", 10_000 + BROKER)},
            security_protocols={"PLAINTEXT": 0},
            features=SUPPORTED_FEATURES,
            rack=None,
            log_dirs=(directory(BROKER),),
        )

    async def start(self):
        await self.listening.start()
        for member in self.quorum.members.values():
            await self.start_member(member)

    async def start_member(self, member):
        await member.start()
        await member.run(self._attach(member))

    async def _attach(self, member):
        settings = BrokerSettings(node_id=member.node_id, broker_session_timeout_ms=3_600_000)
        config = replace(
            controller_config(settings, CLUSTER_ID, SUPPORTED_FEATURES), validate_topic_configs=accept_configs
        )
        member.driver = ControllerDriver(member.env, config, member.raft, member.loader, member.tasks)
        member.driver.start()

    async def start_broker(self, member):
        """Have the broker registered and unfenced; return its epoch."""
        epoch = await member.driver.register_broker(self.registration)
        offset = member.raft.next_offset
        await member.driver.heartbeat(
            Heartbeat(
                node_id=BROKER, broker_epoch=epoch, metadata_offset=offset, want_fence=False, want_shut_down=False
            )
        )
        return epoch


def fold(member):
    """The image that the member's log on the disk gives, as far as the member says that it is committed."""
    replay = MetadataReplay(EMPTY_IMAGE)
    data = member.log_bytes()
    while data and (header := read_header(data)).last_offset <= member.image.offset:
        if not header.is_control:
            for record in iterate_records(data[: header.size]):
                replay.replay(record.offset, decode_record(record.value))
        last, data = header, data[header.size :]
    replay.publish(last.last_offset, LeaderEpoch(last.leader_epoch))
    return replay.image


class History:
    """What was asked of the controllers, and what is known of that."""

    def __init__(self):
        self.acknowledged = {}
        """Topics by name, with their number of partitions."""
        self.uncertain = None
        """The topic whose creation or deletion was not answered."""
        self.ids = []
        """All producer ids that were given."""

    async def work(self, controllers, member, steps):
        """Ask for one thing after the other, until the controller is not the active one any more."""
        driver = member.driver
        with suppress(ApiError):
            epoch = await controllers.start_broker(member)
            for kind, name, partitions in steps:
                if kind == "ids":
                    self.ids += await allocate_producer_ids(driver, BROKER, epoch)
                    continue
                self.uncertain = name
                if kind == "create":
                    topic = NewTopic(name=name, num_partitions=partitions)
                    (result,) = await create_topics(driver, [topic], member.env.random)
                    if not isinstance(result, ApiError):
                        self.acknowledged[name] = partitions
                else:
                    (result,) = await delete_topics(driver, [name])
                    if not isinstance(result, ApiError):
                        del self.acknowledged[name]
                self.uncertain = None

    def check(self, image):
        there = {name: len(topic.partitions) for name, topic in image.topics_by_name.items()}
        if self.uncertain is not None:
            self.acknowledged.pop(self.uncertain, None)
            if self.uncertain in there:
                self.acknowledged[self.uncertain] = there[self.uncertain]
            self.uncertain = None
        assert there == self.acknowledged
        assert len(set(self.ids)) == len(self.ids)


_STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "delete", "ids"]), st.sampled_from("abcde"), st.integers(1, 3)),
    min_size=1,
    max_size=12,
)
_FATES = st.sampled_from(["kill", "lose power", "kill another", "all lose power", "fall asleep"])
_LIVES = st.lists(st.tuples(_STEPS, st.integers(0, 100), _FATES), min_size=1, max_size=4)


@pytest.mark.parametrize("voters", [1, 3])
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), lives=_LIVES)
def test_no_acknowledged_change_is_lost_at_any_crash(voters, seed, lives):
    loop = SimulatedLoop()
    loop.run(_live(Quorum(loop, voters, seed), lives), limit_s=3600)


async def _live(quorum, lives):
    controllers = Controllers(quorum)
    await controllers.start()
    history = History()
    epoch, has_led_on = 0, False
    for steps, moments, fate in lives:
        active = await _settled(quorum)
        history.check(active.image)
        assert active.image.epoch > epoch or has_led_on  # RAFT-5
        epoch = active.image.epoch
        working = asyncio.ensure_future(active.run(history.work(controllers, active, steps)))
        await asyncio.sleep(moments / 5000)
        others = [member for member in quorum.alive if member is not active]
        victims = [active]
        if fate == "kill another" and others:
            victims = [Random(moments).choice(others)]
        elif fate == "all lose power":
            victims = quorum.alive
        elif fate == "fall asleep":
            victims = []
            active.process.pause()
            await asyncio.sleep(6)
            active.process.resume()
        for member in victims:
            member.kill(power=fate in ("lose power", "all lose power"))
        with suppress(ProcessEndedError, asyncio.CancelledError):
            if active in victims:
                working.cancel()
            await working
        has_led_on = active not in victims
        for member in victims:
            await controllers.start_member(member)
    active = await _settled(quorum)
    history.check(active.image)
    assert await quorum.agree() == fold(active)


async def _settled(quorum):
    """The active controller, once what it wrote first is committed; what it knows is what its log says."""
    active = await quorum.elect()
    await quorum.wait(lambda: active.loader.newest is active.image)
    assert active.image == fold(active)
    return active


@pytest.mark.parametrize("operation", ["write", "sync"])
@with_quorum(1, start=False)
async def test_an_error_of_the_disk_ends_the_node_and_nothing_is_acknowledged(quorum, operation):
    controllers = Controllers(quorum)
    await controllers.start()
    member = await quorum.elect()
    await member.run(controllers.start_broker(member))
    member.disk.fail(operation, "*.log")
    with pytest.raises(ProcessEndedError):
        await member.run(create_topics(member.driver, [NewTopic(name="t")], member.env.random))
    assert f"the metadata log {LOG_PATH} failed" in member.process.end_reason
    assert "check its disk" in member.process.end_reason
    assert "t" not in member.image.topics_by_name


@pytest.mark.parametrize("pattern", ["*.log", f"{LOG_PATH}/quorum-state*"])
@pytest.mark.parametrize("operation", ["write", "sync"])
@with_quorum(1)
async def test_an_error_of_the_disk_at_the_start_ends_the_node(quorum, operation, pattern):
    member = quorum[1]
    await member.stop()
    member.disk.fail(operation, pattern)
    with suppress(ProcessEndedError):
        await member.start()
    await quorum.wait(lambda: not member.is_alive)
    assert LOG_PATH in member.process.end_reason


@with_quorum(1)
async def test_a_disk_that_is_full_at_the_start_ends_the_node_with_words_that_help(quorum):
    member = quorum[1]
    await member.stop()
    member.disk.fill_up(0)
    with suppress(ProcessEndedError):
        await member.start()
    await quorum.wait(lambda: not member.is_alive)
    assert "make room on its disk and start the node again" in member.process.end_reason
