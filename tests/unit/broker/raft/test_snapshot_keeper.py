"""Snapshots of the metadata: made, served, fetched and begun from; whatever happens, the state is that of the whole log."""

import asyncio

import pytest

from esp.controller.image import EMPTY_IMAGE
from esp.controller.replay import MetadataReplay
from esp.raft.snapshot import FIRST, SnapshotId, read_snapshot
from esp.records.batch import iterate_records
from esp.schemas.metadata_frames import decode_record
from esp.schemas.metadata_records import TopicRecord
from tests.unit.broker.quorum_conversation import LOG_PATH, with_quorum

SMALL = {
    "metadata_log_max_record_bytes_between_snapshots": 1000,
    "metadata_max_retention_bytes": 2000,
    "metadata_max_retention_ms": -1,
}


def _fold(data, snapshot_id):
    """The image that a snapshot's bytes give."""
    replay = MetadataReplay(EMPTY_IMAGE)
    for batch in read_snapshot(data).batches:
        for record in iterate_records(batch):
            replay.replay(snapshot_id.end_offset - 1, decode_record(record.value))
    replay.publish(snapshot_id.end_offset - 1, snapshot_id.epoch)
    return replay.image


async def _create(quorum, count, prefix="t"):
    for number in range(count):
        assert await quorum.create(f"{prefix}{number}")


@with_quorum(1, metadata_log_max_record_bytes_between_snapshots=1000)
async def test_a_snapshot_is_the_fold_of_the_log_up_to_it(quorum):
    """RAFT-30, RAFT-33"""
    member = await quorum.elect()
    images = {}
    member.loader.subscribe(lambda image, _delta: images.__setitem__(image.offset + 1, image))
    await _create(quorum, 40)
    await asyncio.sleep(0.1)
    ids = [snapshot_id for snapshot_id in member.raft._keeper.snapshots.ids if snapshot_id != FIRST]
    assert len(ids) > 1
    for snapshot_id in ids:
        data = member.disk.read_file(f"{LOG_PATH}/{snapshot_id.file_name}")
        assert _fold(data, snapshot_id) == images[snapshot_id.end_offset]
        contents = read_snapshot(data)
        assert (contents.voters, contents.kraft_version) == (quorum.voters, 1)


@with_quorum(1, **SMALL)
async def test_the_log_begins_at_a_snapshot_once_retention_asks_for_it(quorum):
    """RAFT-31"""
    member = await quorum.elect()
    await _create(quorum, 40)
    await asyncio.sleep(0.1)
    snapshots = member.raft._keeper.snapshots
    assert member.log.log_start_offset == snapshots.ids[0].end_offset > 0
    assert member.names(".checkpoint") == [snapshot_id.file_name for snapshot_id in snapshots.ids]
    before = member.image
    for power in (False, True):
        member.kill(power=power)
        await member.start()
        await member.run(member.raft.caught_up())
        assert member.image.topics_by_id == before.topics_by_id
        assert list(member.image.topics_by_id) == list(before.topics_by_id)
    await _create(quorum, 3, "later")
    await member.stop()
    await member.start()
    await member.run(member.raft.caught_up())
    assert len(member.image.topics_by_id) == 43


@with_quorum(1, **SMALL)
async def test_a_leader_that_has_nothing_but_its_snapshot_proposes_much_at_once(quorum):
    member = await quorum.elect()
    for _ in range(3):
        topics = [TopicRecord(name=f"t{quorum.uuid()}", topic_id=quorum.uuid()) for _ in range(40)]

        async def propose(topics=topics):
            for topic in topics:
                member.loader.propose(member.raft, [topic])
            await member.raft.committed(member.raft.next_offset)

        await member.run(propose())
        await asyncio.sleep(0.1)
        member.kill()
        await member.start()
        await quorum.elect()
    assert len(member.image.topics_by_id) == 120


@with_quorum(
    1,
    metadata_log_max_record_bytes_between_snapshots=1000,
    metadata_max_retention_bytes=0,
    metadata_max_retention_ms=-1,
)
async def test_a_snapshot_that_is_due_twice_before_it_is_begun_is_written_once(quorum):
    """What the controller proposes counts at once, though the image that is committed is still the one of the snapshot under way."""
    member = await quorum.elect()
    snapshots = member.raft._keeper.snapshots

    async def propose():
        for _ in range(10):
            for _ in range(2):
                topics = [TopicRecord(name=f"t{quorum.uuid()}", topic_id=quorum.uuid()) for _ in range(20)]
                member.loader.propose(member.raft, topics)
            await member.raft.committed(member.raft.next_offset)

    await member.run(propose())
    await asyncio.sleep(0.1)
    assert member.log.log_start_offset == snapshots.ids[0].end_offset > 300
    assert len(member.image.topics_by_id) == 400


@with_quorum(1, metadata_log_max_snapshot_interval_ms=10_000)
async def test_time_asks_for_a_snapshot_too_but_not_without_news(quorum):
    member = await quorum.elect()
    await asyncio.sleep(11)
    await _create(quorum, 1)
    await asyncio.sleep(1)
    assert len(member.names(".checkpoint")) == 2
    await asyncio.sleep(60)
    assert len(member.names(".checkpoint")) == 2


@with_quorum(3, **SMALL)
async def test_a_voter_that_is_too_far_behind_begins_from_a_snapshot(quorum):
    """RAFT-32"""
    leader = await quorum.elect()
    away = next(member for member in quorum.alive if member is not leader)
    await _create(quorum, 2, "early")
    await quorum.agree()
    seen = dict(away.image.topics_by_name)
    away.kill(power=True)
    await _create(quorum, 40)
    await asyncio.sleep(0.1)
    assert leader.log.log_start_offset > 10
    await away.start()
    await away.run(away.raft.caught_up())
    assert seen.keys() < away.image.topics_by_name.keys()
    assert away.log.log_start_offset > 10
    assert len(away.changes) == 1
    assert (await quorum.agree()).topics_by_name.keys() > {"t39", "early0"}
    leader.kill()
    await quorum.elect(other_than=leader)
    await _create(quorum, 1, "last")


@with_quorum(3, **SMALL)
async def test_a_follower_that_lives_and_falls_behind_tells_the_difference_to_the_snapshot(quorum):
    leader = await quorum.elect()
    away = next(member for member in quorum.alive if member is not leader)
    await _create(quorum, 2, "early")
    await quorum.agree()
    away.process.pause()
    await _create(quorum, 60)
    await asyncio.sleep(0.1)
    away.process.resume()
    await quorum.agree()
    topics = {}
    for image, delta in away.changes:
        for topic_id in delta.deleted_topics:
            del topics[topic_id]
        topics.update(image.topics_by_id)
    assert topics == dict(away.image.topics_by_id)


@pytest.mark.parametrize("seed", range(10))
def test_a_transfer_survives_crashes_and_bad_disks_at_both_ends(seed):
    @with_quorum(3, seed, **SMALL)
    async def scenario(quorum):
        leader = await quorum.elect()
        away = next(member for member in quorum.alive if member is not leader)
        await quorum.agree()
        away.kill(power=True)
        await _create(quorum, 60)
        for _ in range(4):
            await away.start()
            await asyncio.sleep(quorum.rng.random() * 0.05)
            if quorum.rng.random() < 0.3:
                (quorum.active or away).kill(power=True)
            if away.is_alive:
                away.kill(power=quorum.rng.random() < 0.5)
            for member in quorum.members.values():
                if not member.is_alive:
                    await member.start()
            await quorum.elect()
            away.kill(power=True)
        await away.start()
        await _create(quorum, 1, "last")
        image = await quorum.agree()
        assert len(image.topics_by_id) == 61
        assert not any(name.endswith(".part") for member in quorum.alive for name in member.names())

    scenario()


@with_quorum(3, **SMALL)
async def test_a_damaged_snapshot_is_not_begun_from(quorum):
    """RAFT-17"""
    leader = await quorum.elect()
    away = next(member for member in quorum.alive if member is not leader)
    await quorum.agree()
    away.kill()
    await _create(quorum, 40)
    await asyncio.sleep(0.1)
    snapshot_id = leader.raft._keeper.snapshots.latest
    path = f"{LOG_PATH}/{snapshot_id.file_name}"
    leader.disk.corrupt(path, 200)
    await away.start()
    await asyncio.sleep(0.2)
    assert away.changes == []
    assert away.names(".checkpoint") == [FIRST.file_name]
    leader.disk.corrupt(path, 200)
    await away.run(away.raft.caught_up())
    assert len(away.image.topics_by_id) == 40


@with_quorum(1, **SMALL)
async def test_a_disk_that_fails_under_a_snapshot_ends_the_node(quorum):
    member = await quorum.elect()
    member.disk.fail("sync", "*.checkpoint.part")
    with pytest.raises(AssertionError):
        await _create(quorum, 40)
    assert "check its disk" in member.process.end_reason
    member.settle()
    await member.start()
    await member.run(member.raft.caught_up())
    assert member.image.topics_by_id
    assert not any(name.endswith(".part") for name in member.names())


def test_a_snapshot_is_named_as_kafkas_are():
    assert SnapshotId(120, 3).file_name == "00000000000000000120-0000000003.checkpoint"
