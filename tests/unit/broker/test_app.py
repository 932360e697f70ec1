"""A whole node: start, orderly stop, kill at any point, power loss, and what must be there afterwards."""

import asyncio
from contextlib import suppress

import pytest

from esp.broker.app import BrokerNode
from esp.model.errors import ErrorCode, OperatorError
from esp.settings.addresses import Listener
from esp.simulation.machine.loop import ProcessEndedError, SimulatedLoop
from esp.storage.layout import CLEAN_SHUTDOWN_FILE
from tests.unit.broker.conversation import (
    create_topic,
    create_topics,
    delete_topic,
    fetch,
    init_producer_id,
    metadata,
    produce,
)
from tests.unit.broker.simulated_node import ADDRESS, RefusedError, SimulatedNode, records, simulated, values


async def read(node, topic="t"):
    """All values of a topic's first partition, as a consumer gets them."""
    client = await node.client()
    found = []
    offset = 0
    while True:
        answer = await fetch(client, topic, offset)
        assert answer.error_code is ErrorCode.none, answer
        if offset >= answer.high_watermark:
            client.close()
            return found
        found += values(answer.records)
        offset = len(found)


@simulated()
async def test_a_node_serves_once_it_has_started_and_says_where(node):
    assert node.node.listening == [ADDRESS]
    client = await node.client()
    (broker,) = (await metadata(client)).brokers
    assert (broker.host, broker.port) == ADDRESS


INSIDE = Listener("IN", "127.0.0.1", 9094)
OUTSIDE = Listener("OUT", "127.0.0.1", 9095)


@simulated(
    listeners=(INSIDE, OUTSIDE, Listener("CONTROLLER", "127.0.0.1", 0)),
    advertised_listeners=(OUTSIDE._replace(host="example.org", port=80),),
)
async def test_a_listener_that_is_not_advertised_is_bound_and_not_told(node):
    assert [address.port for address in node.node.listening] == [9094, 9095]
    inside, outside = [await node.client(address) for address in node.node.listening]
    (broker,) = (await metadata(outside)).brokers
    assert (broker.host, broker.port) == ("example.org", 80)
    assert (await metadata(inside)).brokers == ()
    await create_topic(inside)
    assert (await produce(inside, "t", records(b"a"))).error_code is ErrorCode.none


@simulated()
async def test_settings_of_a_topic_that_would_be_refused_today_do_not_end_the_node(node, monkeypatch, caplog):
    await node.stop()
    with monkeypatch.context() as patched:  # as Kafka may write them into the metadata log
        patched.setattr("esp.broker.controller.config.validate_topic_overrides", lambda overrides: None)
        await node.start()
        client = await node.client()
        configs = {"cleanup_policy": "of.a.later.release", "retention_ms": "soon", "min_insync_replicas": "all"}
        await create_topic(client, partitions=3, **configs)
        await produce(client, "t", records(b"a", b"b"))
        await node.stop()
    caplog.clear()
    await node.start()
    assert await read(node) == [b"a", b"b"]
    settings = node.log("t").settings
    assert (settings.cleanup_policy, settings.retention_ms) == ("of.a.later.release", node.settings.log_retention_ms)
    [warning] = [record.message for record in caplog.records if record.name == "esp.broker.live_settings"]
    assert all(
        word in warning for word in ("topic t ", "cleanup.policy=of.a.later.release", "retention.ms=soon", "=all")
    )


@simulated()
async def test_everything_is_there_after_an_orderly_stop_and_start(node):
    client = await node.client()
    topic_id = await create_topic(client)
    await produce(client, "t", records(b"a", b"b"))
    await node.stop()
    assert client.closed
    assert ".kafka_cleanshutdown" in node.names()
    await node.start()
    assert ".kafka_cleanshutdown" not in node.names()
    assert await read(node) == [b"a", b"b"]
    client = await node.client()
    assert (await metadata(client, ["t"])).topics[0].topic_id == topic_id


def test_the_same_seed_gives_the_same_run():
    def run(seed):
        loop = SimulatedLoop()

        async def main():
            node = SimulatedNode(loop, seed)
            acknowledged = {"topics": set(), "records": {}, "sent": {}, "lives": 0}
            await life(node, acknowledged)
            await life(node, acknowledged)
            files = {name: node.disk.read_file(f"/data/kept-0/{name}") for name in node.names("/data/kept-0")}
            return loop.steps, loop.time(), acknowledged, files

        return loop.run(main())

    assert run(1) == run(1)
    assert run(1) != run(2)


@simulated()
async def test_an_orderly_stop_survives_a_power_loss(node):
    client = await node.client()
    await create_topic(client)
    await produce(client, "t", records(b"a"))
    await node.stop()
    node.disk.power_loss()
    await node.start()
    assert await read(node) == [b"a"]


@simulated()
async def test_who_was_killed_says_that_nothing_was_lost_unless_the_machine_ended_too(node):
    """BRK-3."""

    def said():
        return node.node.broker.running.lifecycle._registration.previous_broker_epoch

    client = await node.client()
    await create_topic(client)
    await produce(client, "t", records(b"a"))
    for power in (False, False, True, False):
        epoch = node.node.broker.running.lifecycle.epoch
        await node.restart(power=power)
        assert said() == (-1 if power else epoch)


@simulated()
async def test_who_was_killed_and_finds_its_log_broken_does_not_insist_that_nothing_was_lost(node):
    """BRK-3: it says so before it serves."""
    client = await node.client()
    await create_topic(client)
    await produce(client, "t", records(b"a"))
    epoch = node.node.broker.running.lifecycle.epoch
    node.kill()
    path = "/data/t-0/00000000000000000000.log"
    node.disk.write_file(path, node.disk.read_file(path) + bytes(100))
    await node.start()
    lifecycle = node.node.broker.running.lifecycle
    assert lifecycle._registration.previous_broker_epoch == -1
    image = node.metadata.image
    assert epoch < image.brokers[1].epoch == lifecycle.epoch
    assert image.brokers[1].incarnation_id == lifecycle._registration.incarnation_id
    assert await read(node) == [b"a"]


@pytest.mark.parametrize("operation", ["write", "sync"])
@simulated(log_dirs=("/data", "/other"))
async def test_a_device_that_fails_at_the_stop_costs_one_directory_its_marker_and_no_record(node, operation, caplog):
    client = await node.client()
    await create_topics(client, [("t", 2, {})])
    for partition in (0, 1):
        await produce(client, "t", records(b"a", b"b"), partition=partition)
    failed, sound = "/data", "/other"
    node.disk.fail(operation, f"{failed}/t-*")
    await node.stop()
    assert any(record.getMessage().startswith(f"{failed}: the shutdown is unclean") for record in caplog.records)
    assert ".kafka_cleanshutdown" in node.names(sound)
    assert ".kafka_cleanshutdown" not in node.names(failed)
    node.disk.heal()
    await node.start()
    assert await read(node) == [b"a", b"b"]


@simulated()
async def test_connections_before_the_node_is_ready_are_answered_when_it_is(node):
    await node.stop()
    seen = []

    async def early():
        client = None
        for _ in range(100_000):
            with suppress(ConnectionRefusedError):
                client = await node.client()
                break
        answer = await metadata(client)
        seen.append(node.server._waiting is None)
        return answer

    waiting = asyncio.ensure_future(early())
    await node.start()
    assert (await waiting).brokers
    assert seen == [True]


@simulated()
async def test_producer_ids_are_never_given_twice(node):
    seen = set()
    for power in (False, True):
        client = await node.client()
        for _ in range(3):
            answer = await init_producer_id(client)
            assert answer.producer_id not in seen
            seen.add(answer.producer_id)
        await node.restart(power=power)


@simulated()
async def test_a_stopped_node_can_be_started_many_times(node):
    client = await node.client()
    await create_topic(client)
    for number in range(5):
        client = await node.client()
        assert (await produce(client, "t", records(b"%d" % number))).base_offset == number
        await (node.stop() if number % 2 else node.restart())
        if not node.process.alive:
            await node.start()
    assert await read(node) == [b"%d" % number for number in range(5)]


@simulated()
async def test_requests_while_the_node_stops_end_in_an_answer_or_with_the_connection(node):
    client = await node.client()
    await create_topic(client)
    outcomes = []

    async def hammer(number):
        with suppress(RefusedError, ConnectionError):
            for turn in range(1000):
                client = await node.client()
                (answer,) = await create_topics(client, [(f"n{number}-{turn}", 1, {})])
                outcomes.append(answer.error_code)

    hammering = [asyncio.ensure_future(hammer(number)) for number in range(3)]
    await asyncio.sleep(0.05)
    await node.stop()
    for task in hammering:
        await task
    assert set(outcomes) >= {ErrorCode.none}
    await node.start()
    client = await node.client()
    names = {topic.name for topic in (await metadata(client)).topics}
    assert len(names) >= outcomes.count(ErrorCode.none)


@simulated(start=False)
async def test_a_port_that_is_taken_is_the_operators_to_mend(node):
    async def squat():
        await node.network.listen(ADDRESS, lambda _connection: None)

    await squat()
    with pytest.raises(OperatorError, match="Cannot listen on PLAINTEXT"):
        await node.start()


@simulated()
async def test_a_directory_in_use_is_the_operators_to_mend(node):
    with pytest.raises(OperatorError, match="in use by another process"):
        await node.loop.new_process("second").run(BrokerNode(node.env, node.settings).start())


@simulated()
async def test_a_broken_log_is_the_operators_to_mend(node):
    client = await node.client()
    await create_topic(client)
    await produce(client, "t", records(b"a" * 100))
    await node.stop()
    node.disk.corrupt("/data/t-0/00000000000000000000.log", 16, 0xFF)
    node.disk.write_file("/data/t-0/00000000000000000000.index", b"")
    node.disk.remove("/data/.kafka_cleanshutdown")
    with pytest.raises(OperatorError, match=r"t-0 in /data cannot be opened"):
        await node.start()


async def life(node, acknowledged):
    """One life of a node that a client keeps busy; ``acknowledged`` is what it was told."""
    acknowledged["lives"] += 1
    await node.start()
    client = await node.client()
    with suppress(RefusedError):
        for topic in ("kept", "flushed", "deleted"):
            options = {"flush_messages": 1} if topic == "flushed" else {}
            (answer,) = await create_topics(client, [(topic, 1, options)])
            assert answer.error_code in (ErrorCode.none, ErrorCode.topic_already_exists)
            acknowledged["topics"].add(topic)
    with suppress(RefusedError):
        for turn in range(3):
            for topic in ("kept", "flushed", "deleted"):
                if topic in acknowledged["topics"]:
                    value = b"%s %d %d" % (topic.encode(), acknowledged["lives"], turn)
                    acknowledged["sent"].setdefault(topic, []).append(value)
                    answer = await produce(client, topic, records(value))
                    if answer.error_code is ErrorCode.none:
                        acknowledged["records"].setdefault(topic, []).append((answer.base_offset, value))
        if "deleted" in acknowledged["topics"]:
            acknowledged["topics"].discard("deleted")
            await delete_topic(client, "deleted")
            acknowledged["records"].pop("deleted", None)
    await node.stop()


async def check(node, acknowledged, *, power):
    """What was acknowledged, and with ``power`` also flushed, is there; nothing else than what was sent; nothing twice."""
    client = await node.client()
    names = {topic.name for topic in (await metadata(client)).topics}
    assert acknowledged["topics"] - {"deleted"} <= names
    for topic in ("flushed",) if power else ("kept", "flushed"):
        if topic in names:
            found = await read(node, topic)
            assert len(set(found)) == len(found)
            assert set(found) <= set(acknowledged["sent"].get(topic, ()))
            for offset, value in acknowledged["records"].get(topic, ()):
                assert found[offset] == value, (topic, offset)
    client.close()


def changes_of_a_life():
    loop = SimulatedLoop()
    node = SimulatedNode(loop, 1)

    async def main():
        await life(node, {"topics": set(), "records": {}, "sent": {}, "lives": 0})
        return node.disk.faults.changes

    return loop.run(main())


CHANGES = changes_of_a_life()


@pytest.mark.parametrize(("power", "first"), [(False, 0), (True, 1)], ids=["kill", "power loss"])
def test_a_node_killed_at_any_operation_of_its_disk_starts_again_and_has_lost_nothing(power, first):
    for changes in range(first, CHANGES, 3):
        loop = SimulatedLoop()

        async def main(changes=changes, loop=loop):
            node = SimulatedNode(loop, 1)
            acknowledged = {"topics": set(), "records": {}, "sent": {}, "lives": 0}
            node.disk.kill_after(changes)
            try:
                await life(node, acknowledged)
            except (ProcessEndedError, ConnectionRefusedError):
                assert not node.process.alive
            else:
                pytest.fail("it was not killed")
            node.settle(power=power)
            await node.start()
            await check(node, acknowledged, power=power)
            nameless = f".{0:032x}-stray"  # a power loss before its first flush took whose it is
            strays = [name for name in node.names() if name.endswith("-stray") and "deleted" not in name]
            strays = [name for name in strays if not (power and name.endswith(nameless))]
            await node.stop()
            return strays

        strays = loop.run(main(), limit_s=600)
        assert not strays, changes


@pytest.mark.parametrize("seed", range(4))
def test_a_node_killed_again_and_again_also_while_it_recovers_keeps_everything(seed):
    loop = SimulatedLoop()

    async def main():
        node = SimulatedNode(loop, seed)
        acknowledged = {"topics": set(), "records": {}, "sent": {}, "lives": 0}
        for _ in range(8):
            node.disk.kill_after(node.rng.randrange(CHANGES))
            with suppress(ProcessEndedError, ConnectionRefusedError):
                await life(node, acknowledged)
            node.settle()
            await node.start()
            await check(node, acknowledged, power=False)
            node.kill()

    loop.run(main(), limit_s=6000)


@simulated(log_dirs=("/a", "/b"), metadata_log_dir="/meta")
async def test_a_log_directory_that_has_failed_is_not_left_as_a_clean_one(node, caplog):
    """REC-1: also if no log is open in it, as its last one was to be put aside, and stands there not flushed."""
    client = await node.client()
    await create_topic(client)
    await produce(client, "t", records(b"0"))
    failed = "/" + node.log("t").path.split("/")[1]
    node.disk.fail("rename", f"{failed}/t-0")
    await delete_topic(client, "t")
    await asyncio.sleep(1)
    assert f"the log directory {failed} is offline" in caplog.text
    await node.stop()
    [other] = {"/a", "/b"} - {failed}
    left = [node.disk.exists(f"{path}/{CLEAN_SHUTDOWN_FILE}") for path in (failed, other)]
    assert left == [False, True]
    assert "t-0" in node.names(failed)
