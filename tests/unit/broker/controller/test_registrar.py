"""Each controller is named in the metadata as it is: it registers when it starts, when it is forgotten, and until it has read that."""

import asyncio
import datetime as dt
import uuid
from dataclasses import replace
from types import SimpleNamespace

from kio.schema.controller_registration.v0.response import ControllerRegistrationResponse

from esp.broker.controller.registrar import ControllerRegistrar
from esp.broker.tasks import Tasks
from esp.controller.brokers import ControllerRegistration
from esp.controller.image import EMPTY_IMAGE, ControllerImage, FeatureRange
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from tests.unit.broker.played_server import in_world
from tests.unit.broker.simulated_node import simulated

NODE = NodeId(3)
REGISTRATION = ControllerRegistration(
    node_id=NODE,
    incarnation_id=uuid.UUID(int=5),
    endpoints={"CONTROLLER": Address("h", 9093)},
    security_protocols={"CONTROLLER": 0},
    features={"metadata.version": FeatureRange(7, 30)},
)


class Cluster:
    """The active controller, and what this node knows of the metadata; the test says when that is published here."""

    def __init__(self, world):
        self.image = EMPTY_IMAGE
        self.subscribers = []
        self.requests = []
        self.has_leader = True
        self.code = ErrorCode.none
        self.registrar = ControllerRegistrar(world.env, Tasks(world.env.host), self, self, REGISTRATION)
        self.registrar.start()

    async def call(self, api_key, message, *, timeout_ms):
        assert api_key is ApiKey.CONTROLLER_REGISTRATION
        if not self.has_leader:
            await asyncio.sleep(timeout_ms / 1000)
            raise ApiError(ErrorCode.request_timed_out)
        self.requests.append(message)
        return ControllerRegistrationResponse(throttle_time=dt.timedelta(0), error_code=self.code, error_message=None)

    def subscribe(self, callback):
        self.subscribers.append(callback)

    async def publish(self, incarnation=None):
        """The metadata names this node as the process ``incarnation``, or not at all."""
        known = {}
        if incarnation is not None:
            known = {NODE: ControllerImage(NODE, uuid.UUID(int=incarnation), {}, {}, {})}
        self.image = replace(self.image, controllers=known)
        for callback in self.subscribers:
            callback(self.image, SimpleNamespace())
        await asyncio.sleep(0.01)


@in_world
async def test_a_controller_registers_once_the_metadata_is_known(world):
    cluster = Cluster(world)
    await asyncio.sleep(60)
    assert cluster.requests == []
    await cluster.publish(incarnation=4)  # its process before this one
    (request,) = cluster.requests
    assert (request.controller_id, request.incarnation_id) == (NODE, uuid.UUID(int=5))
    assert [(it.name, it.host, it.port, it.security_protocol) for it in request.listeners] == [
        ("CONTROLLER", "h", 9093, 0)
    ]
    assert [(it.name, it.min_supported_version, it.max_supported_version) for it in request.features] == [
        ("metadata.version", 7, 30)
    ]
    await cluster.publish(incarnation=5)
    await asyncio.sleep(60)
    assert len(cluster.requests) == 1


@in_world
async def test_a_controller_that_is_named_says_nothing(world):
    cluster = Cluster(world)
    await cluster.publish(incarnation=5)
    await asyncio.sleep(60)
    assert cluster.requests == []


@in_world
async def test_a_controller_tries_on_until_it_finds_itself_in_the_metadata(world):
    cluster = Cluster(world)
    cluster.has_leader = False
    await cluster.publish()
    await asyncio.sleep(20)
    cluster.has_leader, cluster.code = True, ErrorCode.unknown_server_error
    await asyncio.sleep(10)
    cluster.code = ErrorCode.none
    await asyncio.sleep(10)
    tried = len(cluster.requests)
    assert 12 <= tried <= 21  # one each second
    await cluster.publish(incarnation=5)
    await asyncio.sleep(60)
    assert len(cluster.requests) == tried


@in_world
async def test_a_controller_that_was_forgotten_registers_again(world):
    cluster = Cluster(world)
    await cluster.publish()
    await cluster.publish(incarnation=5)
    await asyncio.sleep(2)
    for known in (None, 9):
        cluster.requests.clear()
        await cluster.publish(incarnation=known)
        assert len(cluster.requests) == 1
        await cluster.publish(incarnation=5)
        await asyncio.sleep(2)


@simulated()
async def test_the_only_controller_registers_with_itself_at_each_start(node):
    incarnations = set()
    for _ in range(2):
        await asyncio.sleep(0.1)
        (known,) = node.node.running.metadata.image.controllers.values()
        assert known.node_id == 1
        assert known.endpoints["CONTROLLER"].host == "127.0.0.1"
        incarnations.add(known.incarnation_id)
        await node.restart()
    assert len(incarnations) == 2
