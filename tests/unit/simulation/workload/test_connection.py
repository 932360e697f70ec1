"""Requests and answers of one client's connection, over the simulated network."""

import asyncio
import struct
from random import Random
from types import SimpleNamespace

import pytest

from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.headers import read_request_header
from esp.protocol.messages import encode_response
from esp.protocol.registry import ApiKey
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.machine.network import NetworkProfile, SimulatedNetwork
from esp.simulation.workload import requests
from esp.simulation.workload.connection import ClientConnection, NoAnswerError

ADDRESS = Address("127.0.0.1", 9092)
API, VERSION = ApiKey.INIT_PRODUCER_ID, requests.INIT_PRODUCER_ID_VERSION


def answer_to(correlation_id, producer_id):
    message = SimpleNamespace(
        throttle_time=requests.init_producer_id().transaction_timeout,
        error_code=ErrorCode.none,
        producer_id=producer_id,
        producer_epoch=0,
        ongoing_txn_producer_id=-1,
        ongoing_txn_producer_epoch=-1,
    )
    return encode_response(API, VERSION, correlation_id, message)


class Broker:
    """Answers each request with the number of requests so far; or does what it is told."""

    def __init__(self, connection, do):
        self.connection = connection
        self.do = do
        self.count = 0

    def on_bytes(self, received):
        position = 0
        while len(received) - position >= 4:
            (length,) = struct.unpack_from(">i", received, position)
            if position + 4 + length > len(received):
                break
            header = read_request_header(bytes(received[position + 4 : position + 4 + length]))
            self.count += 1
            self.do(self, header.correlation_id)
            position += 4 + length
        return position

    def on_closed(self):
        """Nothing is left to do."""

    def on_writable(self, writable):
        """Answers are small."""


def answer(broker, correlation_id):
    broker.connection.write([answer_to(correlation_id, broker.count)])


def run(talk, do=answer):
    """Let ``talk`` use a connection to a broker."""

    async def main():
        network = SimulatedNetwork(loop, Random(1), NetworkProfile(piece_bytes_max=7))
        await network.listen(ADDRESS, lambda connection: Broker(connection, do))
        return await talk(await ClientConnection.open(network, ADDRESS, "client"))

    loop = SimulatedLoop()
    return loop.run(main())


async def ask(connection, timeout_s=5.0):
    return await connection.call(API, VERSION, requests.init_producer_id(), timeout_s)


def test_answers_come_to_their_requests_in_whatever_pieces():
    async def talk(connection):
        futures = [connection.send(API, VERSION, requests.init_producer_id()) for _ in range(5)]
        return [(await connection.answer(future, API, VERSION, 5.0)).producer_id for future in futures]

    assert run(talk) == [1, 2, 3, 4, 5]


def test_client_that_waits_in_vain_ends_the_connection():
    async def talk(connection):
        with pytest.raises(NoAnswerError, match="no answer in"):
            await ask(connection)
        return connection.is_closed

    assert run(talk, lambda _broker, _id: None)


def test_end_of_the_connection_is_no_answer_to_whoever_waits():
    async def talk(connection):
        with pytest.raises(NoAnswerError, match="the connection ended"):
            await ask(connection)
        with pytest.raises(NoAnswerError, match="the connection has ended"):
            await ask(connection)

    run(talk, lambda broker, _id: broker.connection.abort())


def test_answer_out_of_order_is_found():
    async def talk(connection):
        await ask(connection)

    with pytest.raises(AssertionError, match="answer 9 came where 1 was due"):
        run(talk, lambda broker, _id: broker.connection.write([answer_to(9, 1)]))


def test_request_that_is_never_answered_keeps_the_others_in_order():
    def do(broker, correlation_id):
        if broker.count > 1:
            answer(broker, correlation_id)

    async def talk(connection):
        connection.send_only(API, VERSION, requests.init_producer_id())
        return (await ask(connection)).producer_id

    assert run(talk, do) == 2


def test_nobody_there_is_no_answer():
    async def main():
        with pytest.raises(NoAnswerError):
            await ClientConnection.open(SimulatedNetwork(asyncio.get_running_loop(), Random(1)), ADDRESS, "client")

    SimulatedLoop().run(main())
