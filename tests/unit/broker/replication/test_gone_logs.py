"""Logs that are gone: the reports that their replicas wait for, and the sentences by which the operator learns of them (BRK-11)."""

import asyncio
import uuid
from datetime import timedelta

import pytest
from kio.schema.assign_replicas_to_dirs.v0 import response as told
from kio.static.primitive import i32Timedelta

from esp.broker.replication.gone_logs import GoneLogs, _what_follows, where_it_was
from esp.broker.tasks import Tasks
from esp.controller.image import TopicImage
from esp.model.errors import ErrorCode
from esp.model.ids import LOST_DIRECTORY, BrokerEpoch, LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.storage.recovery import KnownOffsets
from esp.storage.trashed_replicas import TrashedReplica
from tests.unit.broker.played_server import in_world

HERE, SECOND, THIRD = NodeId(1), NodeId(2), NodeId(3)
PLACE = uuid.UUID(int=1 << 80)
NOBODY = NodeId(-1)


def state(*, leader=NOBODY, directories=(PLACE, PLACE, PLACE), **sets):
    """The state of a partition with three replicas; ``sets``: its ISR, ELR and last known leaders."""
    sets = {"isr": (), **sets}
    return PartitionState(
        TopicId(uuid.UUID(int=7)), 0, (HERE, SECOND, THIRD), leader=leader, leader_epoch=LeaderEpoch(4),
        partition_epoch=9, directories=directories, **sets,
    )  # fmt: skip


OFFLINE = (
    "No other replica is known to be complete: the partition stays offline until this log is restored and the node restarted, or until an "
    "unclean election, which may lose records"
)


@pytest.mark.parametrize(
    ("partition", "sentence"),
    [
        (state(isr=(SECOND, THIRD), leader=SECOND), "It is fetched again from broker 2"),
        (state(isr=(HERE, SECOND, THIRD)), "The partition waits for broker 2 or 3, and is then fetched again"),
        (state(elr=(HERE, THIRD)), "The partition waits for broker 3, and is then fetched again"),
        (state(last_known_elr=(SECOND,)), "The partition waits for broker 2, and is then fetched again"),
        (state(isr=(HERE,), elr=(SECOND,)), OFFLINE),
        (state(elr=(HERE,)), OFFLINE),
        (state(last_known_elr=(HERE,)), OFFLINE),
        (state(), OFFLINE),
        (
            state(last_known_elr=(HERE,), directories=(PLACE, LOST_DIRECTORY, LOST_DIRECTORY)),
            "No other replica has records either: the log starts again, empty",
        ),
        (state(directories=(PLACE, LOST_DIRECTORY, PLACE)), OFFLINE),
    ],
)
def test_the_sentence_says_for_which_broker_the_partition_waits_or_that_none_is_known(partition, sentence):
    assert _what_follows(partition, HERE) == sentence


def test_an_eligible_broker_is_not_named_while_the_in_sync_set_counts():
    """ELECT-1: beside an in-sync replica, an eligible one is not waited for."""
    assert "broker 2," in _what_follows(state(isr=(HERE, SECOND), elr=(THIRD,)), HERE)


@pytest.mark.parametrize(
    ("directories", "words"),
    [
        ((PLACE, PLACE, PLACE), " (it was in the directory AAAAAAABAAAAAAAAAAAAAA)"),
        ((LOST_DIRECTORY, PLACE, PLACE), ""),
        ((), ""),
    ],
)
def test_the_directory_is_named_if_the_metadata_has_one(directories, words):
    assert where_it_was(state(directories=directories), HERE) == words


NOTHING_KNOWN = KnownOffsets(0, 0, 0, 0, has_log_start=True)


class Controller:
    """Records what is reported to it, once :attr:`records` is set."""

    def __init__(self):
        self.records = asyncio.Event()
        self.reported = []

    async def call(self, api_key, message, *, timeout_ms):
        await self.records.wait()
        self.reported += [part.partition_index for place in message.directories for part in place.topics[0].partitions]
        return told.AssignReplicasToDirsResponse(
            throttle_time=i32Timedelta.parse(timedelta()),
            error_code=ErrorCode.none,
            directories=tuple(
                told.DirectoryData(
                    id_=place.id_,
                    topics=tuple(
                        told.TopicData(
                            topic_id=topic.topic_id,
                            partitions=tuple(
                                told.PartitionData(partition_index=each.partition_index, error_code=ErrorCode.none)
                                for each in topic.partitions
                            ),
                        )
                        for topic in place.topics
                    ),
                )
                for place in message.directories
            ),
        )


def restored(**sets):
    """The one partition of a topic that was restored, or as ``sets`` say."""
    found = state(**{"isr": (HERE,), "restored_epoch": 4, **sets})
    return TopicImage("t", found.topic_id, (found,)), found


def trashed(partition, *, is_complete):
    return TrashedReplica("/data/t-0.x-stray", partition.topic_id, 0, NOTHING_KNOWN, is_complete, 3, 4)


def gone_logs(world, in_trash=None):
    """The logs of a node with this in its trash, and the list that grows with each report that is recorded."""
    recorded = []

    async def on_reported():
        recorded.append(True)

    found = None if in_trash is None else (None, in_trash)
    return GoneLogs(world.env, HERE, Tasks(world.env.host), lambda *_key: found, on_reported), recorded


@in_world
async def test_restored_replica_that_is_not_in_the_trash_waits_until_its_loss_is_recorded_once(world):
    gone, recorded = gone_logs(world)
    controller = Controller()
    missing, channel = [restored()], (controller, lambda: BrokerEpoch(5))
    key = missing[0][1].topic_id, 0
    for _ in range(2):
        assert gone.report_unrestored(missing, channel) == ([], [key])
        await asyncio.sleep(1)
    assert not recorded
    assert not gone.is_reported(key)
    controller.records.set()
    await asyncio.sleep(1)
    assert (controller.reported, recorded) == ([0], [True])
    assert gone.is_reported(key)
    assert gone.report_unrestored(missing, channel) == (missing, [])
    gone.forget(key)
    assert gone.report_unrestored(missing, channel) == ([], [key])


@in_world
@pytest.mark.parametrize("is_complete", [True, False])
async def test_replica_in_the_trash_is_made_at_once_if_it_is_complete(world, is_complete):
    missing = [restored()]
    partition = missing[0][1]
    gone, _ = gone_logs(world, trashed(partition, is_complete=is_complete))
    ready, withheld = gone.report_unrestored(missing, None)
    assert (ready, withheld) == ((missing, []) if is_complete else ([], [(partition.topic_id, 0)]))


@in_world
@pytest.mark.parametrize("sets", [{"restored_epoch": -1}, {"isr": (SECOND,)}])
async def test_replica_of_a_topic_that_was_not_restored_or_that_cannot_be_elected_is_made_at_once(world, sets):
    missing = [restored(**sets)]
    gone, _ = gone_logs(world)
    assert gone.report_unrestored(missing, None) == (missing, [])
