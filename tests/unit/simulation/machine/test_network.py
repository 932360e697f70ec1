import asyncio
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.ports.network import Address
from esp.simulation.machine.env import HostNetwork
from esp.simulation.machine.links import LinkCondition, LinkRule
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.machine.network import NetworkProfile, SimulatedNetwork

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


async def pair(network, *, pause_at_once=False, **options):
    accepted = []

    def accept(connection):
        accepted.append(End(connection, **options))
        if pause_at_once:
            connection.pause_reading()
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


def test_an_owner_that_pauses_as_it_is_made_is_too_late_for_one_piece_and_is_offered_it_with_the_rest():
    async def scenario(network):
        near, far = await pair(network, pause_at_once=True)
        near.connection.write([bytes(range(256)) * 1000])
        await asyncio.sleep(10)
        assert far.reads == 0
        left = sum(len(piece) for _, piece in near.connection.sent)
        assert 256_000 - 1000 <= left < 256_000
        far.connection.resume_reading()
        await asyncio.sleep(10)
        assert far.received == bytes(range(256)) * 1000

    simulate(scenario, piece_bytes_max=1000)


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


SERVER = Address("10.0.0.1", 9092)
BLOCKED = LinkCondition(is_blocked=True)


async def hosts(network):
    """A connection from 10.0.0.2 to a process on 10.0.0.1."""
    accepted, opened = [], []
    process = asyncio.get_running_loop().new_process("server")
    listening = HostNetwork(network, "10.0.0.1").listen(
        Address("", 9092), lambda connection: accepted.append(End(connection)) or accepted[-1]
    )
    await process.run(listening)
    client = HostNetwork(network, "10.0.0.2")
    await client.connect(SERVER, lambda connection: opened.append(End(connection)) or opened[-1], 1_000_000)
    await asyncio.sleep(0.01)
    return process, client, opened[0], accepted[0]


def block(network, source, target):
    return network.links.add(LinkRule(BLOCKED, frozenset({source}), frozenset({target})))


def test_each_host_has_its_own_address():
    async def scenario(network):
        _, _, near, far = await hosts(network)
        assert far.connection.peer.host == "10.0.0.2"
        assert near.connection.peer == SERVER

    simulate(scenario)


def test_what_cannot_pass_waits_and_arrives_in_order_after_the_cut():
    async def scenario(network):
        _, _, near, far = await hosts(network)
        rule = block(network, "10.0.0.2", "10.0.0.1")
        near.connection.write([b"one "])
        far.connection.write([b"back"])
        await asyncio.sleep(30)
        assert far.received == b""
        assert near.received == b"back", "only one way is cut"
        near.connection.write([b"two"])
        network.links.remove(rule)
        await asyncio.sleep(1)
        assert far.received == b"one two"

    simulate(scenario)


def test_an_end_is_not_heard_of_across_a_cut():
    async def scenario(network):
        process, _, near, _ = await hosts(network)
        rule = block(network, "10.0.0.1", "10.0.0.2")
        process.end("killed")
        await asyncio.sleep(30)
        assert near.closed == 0
        network.links.remove(rule)
        await asyncio.sleep(1)
        assert near.closed == 1

    simulate(scenario)


@pytest.mark.parametrize("ways", [("10.0.0.1", "10.0.0.2"), ("10.0.0.2", "10.0.0.1")])
def test_a_cut_of_either_way_lets_nobody_connect_until_it_is_over(ways):
    async def scenario(network):
        _, client, _, _ = await hosts(network)
        rule = block(network, *ways)
        with pytest.raises(TimeoutError):
            await client.connect(SERVER, End, 5_000_000)
        asyncio.get_running_loop().call_later(2, network.links.remove, rule)
        assert await client.connect(SERVER, End, 10_000_000)

    simulate(scenario)


def test_a_machine_without_power_is_silent_and_one_that_is_back_knows_of_no_connection():
    async def scenario(network):
        process, client, near, far = await hosts(network)
        network.lose_power("10.0.0.1")
        process.end("power")
        near.connection.write([b"x"])
        await asyncio.sleep(60)
        assert (near.closed, far.closed) == (0, 0)
        with pytest.raises(TimeoutError):
            await client.connect(SERVER, End, 2_000_000)
        network.restore_power("10.0.0.1")
        await asyncio.sleep(1)
        assert near.closed == 1, "it sent something that nobody knows of"
        with pytest.raises(ConnectionRefusedError):
            await client.connect(SERVER, End, 2_000_000)

    simulate(scenario)


def test_a_silent_peer_is_noticed_by_who_sends_after_it_is_back():
    async def scenario(network):
        process, _, near, _ = await hosts(network)
        network.lose_power("10.0.0.1")
        process.end("power")
        network.restore_power("10.0.0.1")
        await asyncio.sleep(60)
        assert near.closed == 0
        near.connection.write([b"x"])
        await asyncio.sleep(1)
        assert near.closed == 1

    simulate(scenario)


def test_delays_and_losses_make_bytes_late_and_never_others():
    async def scenario(network):
        _, _, near, far = await hosts(network)
        network.links.add(LinkRule(LinkCondition(delay_us=(1_000_000, 1_000_000), loss=0.5)))
        for number in range(50):
            near.connection.write([b"%d," % number])
        await asyncio.sleep(0.9)
        assert far.received == b""
        await asyncio.sleep(600)
        assert far.received == b"".join(b"%d," % number for number in range(50))

    simulate(scenario)


def test_a_narrow_link_takes_its_time():
    async def scenario(network):
        _, _, near, far = await hosts(network)
        network.links.add(LinkRule(LinkCondition(bytes_per_s=1000), frozenset({"10.0.0.2"})))
        near.connection.write([bytes(10_000)])
        await asyncio.sleep(5)
        assert 3000 <= len(far.received) <= 5100
        await asyncio.sleep(6)
        assert len(far.received) == 10_000

    simulate(scenario, piece_bytes_max=100)
