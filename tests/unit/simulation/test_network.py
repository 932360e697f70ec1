import asyncio
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.ports.network import Address
from esp.simulation.loop import SimulatedLoop
from esp.simulation.network import NetworkProfile, SimulatedNetwork

ADDRESS = Address("127.0.0.1", 9092)


class End:
    """An owner that remembers; it takes what it gets, ``take`` bytes at a time."""

    def __init__(self, connection, take=None):
        self.connection = connection
        self.take = take
        self.received = b""
        self.reads = 0
        self.closed = 0
        self.writable = []

    def on_bytes(self, received):
        assert not self.closed
        self.reads += 1
        count = len(received) if self.take is None else min(self.take, len(received))
        self.received += bytes(received[:count])
        return count

    def on_closed(self):
        self.closed += 1

    def on_writable(self, writable):
        self.writable.append(writable)


async def pair(network, **options):
    accepted = []

    def accept(connection):
        accepted.append(End(connection, **options))
        return accepted[-1]

    await network.listen(ADDRESS, accept)
    opened = []

    def open_(connection):
        opened.append(End(connection))
        return opened[-1]

    await network.connect(ADDRESS, open_, 1_000_000)
    await asyncio.sleep(0.01)
    return opened[0], accepted[0]


def simulate(scenario, seed=0, **profile):
    loop = SimulatedLoop()
    network = SimulatedNetwork(loop, Random(seed), NetworkProfile(**profile))
    return loop.run(scenario(network)), loop


@settings(max_examples=40)
@given(st.integers(0, 99), st.lists(st.binary(max_size=300), max_size=20), st.integers(1, 50))
def test_bytes_arrive_in_order_however_they_are_split(seed, writes, piece):
    async def scenario(network):
        near, far = await pair(network)
        for data in writes:
            near.connection.write([data[:5], data[5:]])
        await asyncio.sleep(60)
        assert far.received == b"".join(writes)

    simulate(scenario, seed, piece_bytes_max=piece)


def test_the_same_seed_gives_the_same_run_and_another_one_another():
    async def scenario(network):
        near, far = await pair(network)
        near.connection.write([bytes(10_000)])
        await asyncio.sleep(1)
        return far.reads

    runs = [simulate(scenario, seed, piece_bytes_max=500) for seed in (1, 1, 2)]
    assert runs[0][0] == runs[1][0]
    assert runs[0][1].steps == runs[1][1].steps
    assert runs[0][0] != runs[2][0]


def test_what_is_not_taken_is_offered_again_and_what_was_lent_is_overwritten():
    async def scenario(network):
        near, far = await pair(network, take=2)
        kept = []
        far.on_bytes, plain = lambda received: kept.append(received) or plain(received), far.on_bytes
        near.connection.write([b"abc"])
        await asyncio.sleep(1)
        assert far.received == b"ab"
        near.connection.write([b"de"])
        await asyncio.sleep(1)
        assert far.received == b"abcd"
        assert [bytes(view) for view in kept] == [bytes(3), bytes(3)]

    simulate(scenario)


def test_a_buffer_that_changes_after_it_was_written_is_noticed():
    async def scenario(network):
        near, far = await pair(network)
        buffer = bytearray(b"before")
        near.connection.write([buffer])
        buffer[:] = b"after!"
        await asyncio.sleep(1)
        assert far.received == b"after!"

    simulate(scenario)


def test_a_peer_that_does_not_read_stops_the_writer_until_it_reads_again():
    async def scenario(network):
        near, far = await pair(network)
        far.connection.pause_reading()
        near.connection.write([bytes(300_000)])
        assert near.writable == [False]
        await asyncio.sleep(10)
        assert far.received == b""
        far.connection.resume_reading()
        await asyncio.sleep(10)
        assert len(far.received) == 300_000
        assert near.writable == [False, True]

    simulate(scenario)


def test_close_sends_what_was_written_and_then_ends_both_sides_once():
    async def scenario(network):
        near, far = await pair(network)
        near.connection.write([bytes(1000)])
        near.connection.close()
        near.connection.write([b"too late"])
        await asyncio.sleep(1)
        assert len(far.received) == 1000
        assert (near.closed, far.closed) == (1, 1)
        assert not network.connections

    simulate(scenario, piece_bytes_max=10)


def test_both_sides_may_close_with_bytes_on_their_way():
    async def scenario(network):
        near, far = await pair(network)
        for end in (near, far):
            end.connection.write([bytes(1000)])
            end.connection.close()
        await asyncio.sleep(1)
        assert (near.closed, far.closed) == (1, 1)

    simulate(scenario, piece_bytes_max=10)


@pytest.mark.parametrize("end", ["abort", "reset", "reset_all"])
def test_an_abort_or_a_reset_ends_both_sides_once_and_nothing_arrives_afterwards(end):
    async def scenario(network):
        near, far = await pair(network)
        far.connection.write([bytes(100_000)])
        if end == "reset_all":
            network.reset_all()
        else:
            getattr(far.connection, end)()
        await asyncio.sleep(1)
        assert (near.closed, far.closed) == (1, 1)
        assert len(near.received) < 100_000

    simulate(scenario, piece_bytes_max=100)


def test_an_owner_refuses_by_an_error_whether_it_is_made_or_reads():
    async def scenario(network):
        def refuse(_connection):
            raise ConnectionAbortedError

        await network.listen(ADDRESS, refuse)
        ends = []
        await network.connect(ADDRESS, lambda connection: ends.append(End(connection)) or ends[0], 1_000_000)
        await asyncio.sleep(1)
        assert ends[0].closed == 1

        network.listeners.clear()
        near, far = await pair(network)
        far.on_bytes = refuse
        near.connection.write([b"x"])
        await asyncio.sleep(1)
        assert (near.closed, far.closed) == (1, 1)

    simulate(scenario)


def test_nobody_is_reached_where_nobody_listens_or_no_longer():
    async def scenario(network):
        with pytest.raises(ConnectionRefusedError):
            await network.connect(ADDRESS, End, 1_000_000)
        listener = await network.listen(ADDRESS, End)
        with pytest.raises(OSError, match="in use"):
            await network.listen(ADDRESS, End)
        await listener.close()
        with pytest.raises(ConnectionRefusedError):
            await network.connect(ADDRESS, End, 1_000_000)
        free = await network.listen(Address("127.0.0.1", 0), End)
        assert free.address.port > 0

    simulate(scenario)


def test_a_dead_process_listens_no_more_and_its_connections_are_reset():
    async def scenario(network):
        process = asyncio.get_running_loop().new_process("server")
        accepted = []
        await process.run(network.listen(ADDRESS, lambda connection: accepted.append(End(connection)) or accepted[-1]))
        ends = []
        await network.connect(ADDRESS, lambda connection: ends.append(End(connection)) or ends[-1], 1_000_000)
        await asyncio.sleep(1)
        process.end("killed")
        await asyncio.sleep(1)
        assert ends[0].closed == 1
        assert accepted[0].closed == 0, "a dead process is not told"
        with pytest.raises(ConnectionRefusedError):
            await network.connect(ADDRESS, End, 1_000_000)

    simulate(scenario)


def test_connecting_takes_no_longer_than_it_may():
    async def scenario(network):
        with pytest.raises(TimeoutError):
            await network.connect(ADDRESS, End, 1)

    simulate(scenario)
