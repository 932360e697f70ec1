import asyncio
import datetime as dt
import uuid
from dataclasses import replace

import pytest
from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse
from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse

from esp.broker.controller_client.lifecycle import TRANSITIONS, BrokerLifecycle, BrokerState, registration_request
from esp.broker.tasks import Tasks
from esp.controller.brokers import BrokerRegistration
from esp.controller.image import FeatureRange
from esp.model.errors import ApiError, ErrorCode, OperatorError
from esp.model.ids import BrokerEpoch, DirectoryId, NodeId
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.settings.broker import BrokerSettings
from esp.simulation.machine.loop import ProcessEndedError
from tests.unit.broker.config_requests import BROKER, SET, alter
from tests.unit.broker.conversation import create_topic, fetch, produce
from tests.unit.broker.played_server import in_world
from tests.unit.broker.simulated_node import model, records, simulated, values

DIRECTORY = DirectoryId(uuid.UUID(int=77))
REGISTRATION = BrokerRegistration(
    node_id=NodeId(1),
    cluster_id="c",
    incarnation_id=uuid.UUID(int=5),
    endpoints={"PLAINTEXT": Address("h", 9092)},
    security_protocols={"PLAINTEXT": 0},
    features={"metadata.version": FeatureRange(30, 30)},
    rack="r",
    log_dirs=(DIRECTORY,),
    previous_broker_epoch=BrokerEpoch(3),
)


class Controller:
    """Registers and unfences whoever asks; what it should do otherwise, the test says."""

    def __init__(self):
        self.epoch = 10
        self.needed_offset = 0
        self.registrations = []
        self.heartbeats = []
        """Time, request."""
        self.refusals = []
        """Error codes of the next registrations."""
        self.heartbeat_errors = []
        self.leads = True
        """The broker leads something: it is let go at the second request."""
        self.silent = False

    async def call(self, api_key, message, *, timeout_ms):
        if self.silent:
            await asyncio.sleep(timeout_ms / 1000)
            raise ApiError(ErrorCode.request_timed_out)
        await asyncio.sleep(0.002)
        return self._register(message) if api_key is ApiKey.BROKER_REGISTRATION else self._beat(message)

    def _register(self, message):
        self.registrations.append(message)
        code = self.refusals.pop(0) if self.refusals else ErrorCode.none
        if code is ErrorCode.none:
            self.epoch += 1
        return BrokerRegistrationResponse(throttle_time=dt.timedelta(0), error_code=code, broker_epoch=self.epoch)

    def _beat(self, message):
        self.heartbeats.append((now(), message))
        code = self.heartbeat_errors.pop(0) if self.heartbeat_errors else ErrorCode.none
        if message.broker_epoch != self.epoch:
            code = ErrorCode.stale_broker_epoch
        fenced = message.want_fence or message.current_metadata_offset < self.needed_offset
        may_stop = message.want_shut_down and not self.leads
        if message.want_shut_down:
            self.leads = False
        return BrokerHeartbeatResponse(
            throttle_time=dt.timedelta(0), error_code=code, is_fenced=fenced, should_shut_down=may_stop
        )


def now():
    return asyncio.get_running_loop().time()


class Broker:
    def __init__(self, world, *, registration=REGISTRATION, **settings):
        self.controller = Controller()
        self.applied = 0
        self.stale = []
        self.registered = []
        self.lifecycle = BrokerLifecycle(
            world.env,
            replace(BrokerSettings(), **settings),
            Tasks(world.env.host),
            self.controller,
            registration=registration,
            applied_offset=lambda: self.applied,
            on_stale=lambda: self.stale.append(self.lifecycle.epoch),
            on_registered=self.registered.append,
        )

    def times(self):
        return [time for time, _ in self.controller.heartbeats]

    @property
    def last(self):
        return self.controller.heartbeats[-1][1]


async def running(world, **settings):
    broker = Broker(world, **settings)
    await broker.lifecycle.register()
    await broker.lifecycle.unfence()
    return broker


@in_world
async def test_registration_says_everything_of_the_broker(world):
    broker = Broker(world)
    assert await broker.lifecycle.register() == 11
    (request,) = broker.controller.registrations
    assert (request.broker_id, request.cluster_id, request.incarnation_id) == (1, "c", uuid.UUID(int=5))
    assert [(it.name, it.host, it.port, it.security_protocol) for it in request.listeners] == [
        ("PLAINTEXT", "h", 9092, 0)
    ]
    assert [(it.name, it.min_supported_version, it.max_supported_version) for it in request.features] == [
        ("metadata.version", 30, 30)
    ]
    assert (request.rack, request.log_dirs, request.previous_broker_epoch) == ("r", (DIRECTORY,), 3)
    assert broker.lifecycle.state is BrokerState.RECOVERY


@in_world
async def test_a_new_controller_hears_of_a_broker_at_once(world):
    broker = await running(world)
    await asyncio.sleep(0.5)
    sent, begun_s = len(broker.times()), now()
    broker.lifecycle.on_leadership()
    await asyncio.sleep(0.5)
    assert broker.times()[sent:] == pytest.approx([begun_s], abs=0.01)


@in_world
async def test_a_broker_that_recovers_sends_heartbeats_and_stays_fenced(world):
    broker = Broker(world)
    await broker.lifecycle.register()
    broker.applied = 42
    await asyncio.sleep(7)
    assert broker.times() == pytest.approx([2, 4, 6], abs=0.1)
    assert broker.last.want_fence
    assert (broker.last.broker_epoch, broker.last.current_metadata_offset) == (11, 42)
    assert broker.lifecycle.is_fenced


@in_world
async def test_unfencing_does_not_wait_for_the_next_heartbeat(world):
    broker = Broker(world)
    await broker.lifecycle.register()
    begun = now()
    await broker.lifecycle.unfence()
    assert now() - begun < 0.01
    assert not broker.last.want_fence
    assert not broker.lifecycle.is_fenced


@in_world
async def test_metadata_that_the_controller_waits_for_is_told_as_soon_as_it_is_applied(world):
    broker = Broker(world)
    await broker.lifecycle.register()
    broker.controller.needed_offset = 50
    unfenced = asyncio.get_running_loop().create_task(broker.lifecycle.unfence())
    await asyncio.sleep(1.01)
    assert not unfenced.done()
    assert len(broker.times()) < 30, "it asks now and then meanwhile, not all the time"
    broker.applied = 50
    broker.lifecycle.on_metadata_applied()
    begun = now()
    await unfenced
    assert now() - begun < 0.01


@in_world
async def test_a_broker_that_serves_sends_one_heartbeat_in_an_interval_whatever_it_applies(world):
    broker = await running(world, broker_heartbeat_interval_ms=500)
    begun = len(broker.times())
    for _ in range(100):
        await asyncio.sleep(0.1)
        broker.lifecycle.on_metadata_applied()
    assert 18 <= len(broker.times()) - begun <= 20


@in_world
async def test_a_broker_is_confirmed_as_long_as_its_heartbeats_are_taken(world):
    broker = Broker(world)
    await broker.lifecycle.register()
    await broker.lifecycle.unfence()
    await asyncio.sleep(10)
    assert broker.lifecycle.is_confirmed
    broker.controller.silent = True
    await asyncio.sleep(6)
    assert not broker.lifecycle.is_confirmed
    broker.controller.silent = False
    await asyncio.sleep(3)
    assert broker.lifecycle.is_confirmed


@pytest.mark.parametrize("code", [ErrorCode.stale_broker_epoch, ErrorCode.broker_id_not_registered])
def test_who_is_told_that_its_epoch_is_stale_stops_leading_and_registers_anew(code):
    @in_world
    async def scenario(world):
        broker = await running(world)
        broker.controller.heartbeat_errors = [code]
        await asyncio.sleep(2.1)
        assert broker.stale == [11], "told while the old epoch still stands"
        assert broker.lifecycle.epoch == 12
        assert broker.controller.registrations[1].previous_broker_epoch == 11, "nothing was lost since"
        assert broker.controller.registrations[1].incarnation_id == REGISTRATION.incarnation_id
        assert broker.last.broker_epoch == 12
        assert not broker.last.want_fence
        assert not broker.lifecycle.is_fenced
        assert broker.registered == [11, 12]

    scenario()


@in_world
async def test_who_finds_less_in_its_logs_than_it_said_registers_as_unclean_before_it_serves(world):
    """BRK-3: what a killed process left was taken for whole until somebody looked."""
    broker = Broker(world)
    await broker.lifecycle.register()
    broker.lifecycle.register_as_unclean()
    await broker.lifecycle.unfence()
    first, second = broker.controller.registrations
    assert (first.previous_broker_epoch, second.previous_broker_epoch) == (3, -1)
    assert first.incarnation_id != second.incarnation_id, "the same incarnation would get the same epoch again"
    assert broker.registered == [11, 12]
    assert all(beat.want_fence for _, beat in broker.controller.heartbeats if beat.broker_epoch == 11)
    assert (broker.lifecycle.epoch, broker.lifecycle.state) == (12, BrokerState.RUNNING)


@in_world
async def test_who_said_that_it_may_lack_records_need_not_say_it_again(world):
    broker = Broker(world, registration=replace(REGISTRATION, previous_broker_epoch=BrokerEpoch(-1)))
    await broker.lifecycle.register()
    broker.lifecycle.register_as_unclean()
    await broker.lifecycle.unfence()
    assert len(broker.controller.registrations) == 1


@in_world
async def test_while_there_is_no_controller_registration_goes_on(world):
    broker = Broker(world)
    broker.controller.silent = True
    registered = asyncio.get_running_loop().create_task(broker.lifecycle.register())
    await asyncio.sleep(20)
    broker.controller.silent = False
    await registered
    assert broker.lifecycle.epoch == 11


@in_world
async def test_registration_gives_up_after_its_time_out(world):
    broker = Broker(world, initial_broker_registration_timeout_ms=12_000)
    broker.controller.silent = True
    with pytest.raises(OperatorError, match="could not register within 12000 ms: no active controller answers"):
        await broker.lifecycle.register()
    assert 12 <= now() < 18


@in_world
async def test_an_earlier_incarnation_that_is_not_known_to_be_dead_is_waited_for(world):
    broker = Broker(world)
    broker.controller.refusals = [ErrorCode.duplicate_broker_registration] * 30
    await broker.lifecycle.register()
    assert len(broker.controller.registrations) == 31
    assert 3 <= now() < 4


def test_the_operator_is_told_why_registration_takes_long(caplog):
    @in_world
    async def scenario(world):
        broker = Broker(world)
        broker.controller.refusals = [ErrorCode.duplicate_broker_registration] * 80
        await broker.lifecycle.register()

    scenario()
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "another broker with node.id 1" in told


@pytest.mark.parametrize(
    ("code", "text"),
    [(ErrorCode.inconsistent_cluster_id, "belongs to the cluster c"), (ErrorCode.unsupported_version, "feature")],
)
def test_a_broker_of_another_cluster_or_release_does_not_start(code, text):
    @in_world
    async def scenario(world):
        broker = Broker(world)
        broker.controller.refusals = [code]
        with pytest.raises(OperatorError, match=text):
            await broker.lifecycle.register()
        await asyncio.sleep(10)
        assert not broker.controller.heartbeats

    scenario()


def test_a_running_broker_that_may_not_register_anew_ends():
    @in_world
    async def scenario(world):
        broker = await running(world)
        broker.controller.heartbeat_errors = [ErrorCode.stale_broker_epoch]
        broker.controller.refusals = [ErrorCode.inconsistent_cluster_id]
        await asyncio.sleep(10)

    with pytest.raises(ProcessEndedError, match="belongs to the cluster c"):
        scenario()


@in_world
async def test_a_heartbeat_without_an_answer_is_followed_by_the_next(world):
    broker = await running(world)
    broker.controller.silent = True
    await asyncio.sleep(6)
    broker.controller.silent = False
    await asyncio.sleep(4)
    assert now() - broker.times()[-1] <= 2
    assert not broker.stale


@in_world
async def test_failed_directories_are_told_at_once_and_from_then_on(world):
    broker = await running(world)
    await asyncio.sleep(0.5)
    broker.lifecycle.set_offline_log_dirs((DIRECTORY,))
    await asyncio.sleep(0.01)
    assert broker.last.offline_log_dirs == (DIRECTORY,)
    await asyncio.sleep(2.1)
    assert broker.last.offline_log_dirs == (DIRECTORY,)


@in_world
async def test_controlled_shutdown_waits_until_the_controller_lets_go_and_ends_the_heartbeats(world):
    broker = await running(world)
    await asyncio.sleep(0.5)
    begun = now()
    await broker.lifecycle.controlled_shutdown()
    assert now() - begun < 0.1
    assert [message.want_shut_down for _, message in broker.controller.heartbeats[-2:]] == [True, True]
    count = len(broker.times())
    await asyncio.sleep(10)
    assert len(broker.times()) == count
    assert broker.lifecycle.state is BrokerState.SHUTTING_DOWN


@in_world
async def test_a_broker_that_has_registered_anew_gives_up_leadership_before_it_stops(world):
    broker = await running(world)
    broker.controller.heartbeat_errors = [ErrorCode.stale_broker_epoch]
    await asyncio.sleep(2.1)
    await broker.lifecycle.controlled_shutdown()
    assert broker.last.want_shut_down


@in_world
async def test_a_broker_that_serves_nobody_stops_at_once(world):
    broker = Broker(world)
    await broker.lifecycle.register()
    begun = now()
    await broker.lifecycle.controlled_shutdown()
    assert now() == begun


@in_world
async def test_a_broker_that_registers_can_be_stopped(world):
    broker = Broker(world)
    broker.controller.silent = True
    registered = asyncio.get_running_loop().create_task(broker.lifecycle.register())
    await asyncio.sleep(1)
    await broker.lifecycle.controlled_shutdown()
    await registered
    assert now() < 6


@in_world
async def test_without_a_controller_a_broker_stops_after_a_short_wait(world):
    broker = await running(world)
    broker.controller.silent = True
    begun = now()
    await broker.lifecycle.controlled_shutdown()
    assert 3 <= now() - begun < 3.2


@in_world
async def test_a_broker_that_was_replaced_stops_at_once(world):
    broker = await running(world)
    broker.controller.epoch += 1
    begun = now()
    await broker.lifecycle.controlled_shutdown()
    assert now() - begun < 0.01
    assert broker.stale == [11]
    assert len(broker.controller.registrations) == 1


def test_a_controller_that_never_lets_go_is_left_after_five_minutes():
    @in_world
    async def scenario(world):
        broker = await running(world)
        keep = broker.controller._beat

        def refuse(message):
            broker.controller.leads = True
            return keep(message)

        broker.controller._beat = refuse
        begun = now()
        await broker.lifecycle.controlled_shutdown()
        assert 300 <= now() - begun < 301

    scenario()


def test_transitions_that_are_none_are_a_bug():
    lifecycle = BrokerLifecycle.__new__(BrokerLifecycle)
    for state in BrokerState:
        for following in BrokerState:
            if following is not state and following not in TRANSITIONS[state]:
                lifecycle.state = state
                with pytest.raises(AssertionError):
                    lifecycle._become(following)


def test_a_first_registration_tells_the_epoch_of_the_clean_shutdown():
    assert registration_request(REGISTRATION, BrokerEpoch(-1)).previous_broker_epoch == 3
    assert registration_request(REGISTRATION, BrokerEpoch(11)).previous_broker_epoch == 11


@simulated()
async def test_a_broker_that_the_operator_has_unregistered_by_mistake_comes_back_and_leads_again(node):
    client = await node.client()
    await create_topic(client)
    assert (await produce(client, "t", records(b"before"))).error_code is ErrorCode.none
    before = node.metadata.image.brokers[NodeId(1)].epoch
    types = model(ApiKey.UNREGISTER_BROKER, 0)
    request = types.Request(broker_id=1)
    assert (await client.call(ApiKey.UNREGISTER_BROKER, 0, request)).error_code is ErrorCode.policy_violation
    assert await alter(client, (BROKER, "", ("broker.removal.forced", SET, "1"))) == [(ErrorCode.none, None)]
    assert (await client.call(ApiKey.UNREGISTER_BROKER, 0, request)).error_code is ErrorCode.none
    await asyncio.sleep(3)
    broker = node.metadata.image.brokers[NodeId(1)]
    assert broker.epoch > before
    assert not broker.fenced
    assert (await produce(client, "t", records(b"after"))).error_code is ErrorCode.none
    assert values((await fetch(client, "t")).records) == [b"before", b"after"]
