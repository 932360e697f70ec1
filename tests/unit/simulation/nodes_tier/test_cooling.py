import asyncio
from random import Random
from types import SimpleNamespace

from esp.model.ids import NodeId
from esp.settings.topic import TopicSettings
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.nodes_tier.cooling import Cooler
from esp.storage.log_directory import LogDirectory
from tests.unit.storage.helpers import PARTITION, TOPIC_ID, append, new_disk


def cold_sectors(poisoned=(), *, is_flushed):
    """How many sectors of a log are not in the page cache after 20 s of cooling."""
    loop = SimulatedLoop()
    disk = new_disk()
    disk.make_directory("/data")
    log = LogDirectory.open_blocking(disk, "/data").create_log_blocking(PARTITION, TOPIC_ID, TopicSettings())
    log.begin_epoch(0)
    for _ in range(200):
        append(log)
    if is_flushed:
        log.flush_blocking()
    world = SimpleNamespace(living=[SimpleNamespace(node_id=NodeId(1), disk=disk)], random=lambda _purpose: Random(1))
    cooler = Cooler(world, poisoned)

    async def run():
        task = loop.create_task(cooler.run())
        await asyncio.sleep(20)
        cooler.is_stopping = True
        await task

    loop.run(run())
    return len(disk.content(f"/data/{PARTITION}/{0:020}.log").cold)


def test_pages_leave_the_cache_once_they_are_on_the_device():
    assert cold_sectors(is_flushed=True) > 0
    assert cold_sectors(is_flushed=False) == 0


def test_a_device_that_lied_keeps_its_pages():
    assert cold_sectors((NodeId(1),), is_flushed=True) == 0
