"""A node on the simulated network whose answers the test plays, for tests of those who call it."""

import asyncio
from random import Random

from esp.broker.connections.session import Session
from esp.broker.request import LATER, ClientContext
from esp.broker.turns.request_memory import NO_LIMIT, RequestMemory
from esp.broker.turns.turns import Turns
from esp.model.errors import ApiError
from esp.ports.network import Address
from esp.protocol import messages
from esp.protocol.error_responses import error_response
from esp.protocol.registry import SERVED
from esp.simulation.machine.env import simulated_disk, simulated_env
from esp.simulation.machine.network import SimulatedNetwork
from tests.unit.broker.scenarios import played

ADDRESS = Address("127.0.0.1", 9093)


class World:
    """A simulated network with one process of ours, whose outside is ``env``."""

    def __init__(self, loop, seed=0):
        rng = Random(seed)
        self.loop = loop
        self.network = SimulatedNetwork(loop, Random(rng.random()))
        self.process = loop.new_process("ours")
        self.env = simulated_env(
            loop, Random(rng.random()), self.process, simulated_disk(loop, Random(rng.random())), self.network
        )

    async def server(self, address=ADDRESS, **handlers):
        """A server in a process of its own; ``handlers`` by the lower-case name of their API."""
        server = PlayedServer(self, address, handlers)
        await server.start()
        return server


class PlayedServer:
    """Answers requests with what its handlers return for the decoded message; None is no answer at all."""

    def __init__(self, world, address, handlers):
        self.address = address
        self.served = SERVED
        self.turns = Turns(world.env.clock)
        self.handlers = handlers
        self.seen = []
        """Name of the API, message."""
        self.sessions = []
        self.accepted = 0
        self._memory = RequestMemory(NO_LIMIT)
        self._world = world

    async def start(self):
        self.process = self._world.loop.new_process(f"server at {self._world.loop.time():.3f}")
        await self.process.run(self._listen())

    async def _listen(self):
        self.listener = await self._world.network.listen(self.address, self._accept)

    def _accept(self, connection):
        self.accepted += 1
        client = ClientContext("CONTROLLER", connection.peer)
        session = Session(connection, client, self, self._world.env.clock, 1 << 20, self._memory, self.sessions.remove)
        self.sessions.append(session)
        return session

    def kill(self):
        self.process.end("killed")

    def dispatch(self, request, body):
        message = messages.decode_request(request.api_key, request.api_version, bytes(body))
        name = SERVED[request.api_key].key.name.lower()
        self.seen.append((name, message))
        asyncio.get_running_loop().create_task(self._answer(request, message, self.handlers[name]))
        return LATER

    async def _answer(self, request, message, handler):
        try:
            answer = handler(message)
            if asyncio.iscoroutine(answer):
                answer = await answer
        except ApiError as error:
            answer = error_response(request.api_key, request.api_version, message, error)
        if isinstance(answer, bytes):
            request.reply((answer,))
        elif answer is not None:
            request.reply(
                (messages.encode_response(request.api_key, request.api_version, request.correlation_id, answer),)
            )


def in_world(scenario):
    """Make a test of a coroutine function whose argument is a :class:`World`; it runs in the world's process."""

    async def play(loop, scenario):
        world = World(loop)
        await world.process.run(scenario(world))

    return played(play)(scenario)
