"""The sentences by which the operator learns of a log that is gone: what the partition waits for, and what becomes of it (BRK-11)."""

import uuid

import pytest

from esp.broker.replication.gone_logs import _what_follows, where_it_was
from esp.model.ids import LOST_DIRECTORY, LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState

HERE, SECOND, THIRD = NodeId(1), NodeId(2), NodeId(3)
PLACE = uuid.UUID(int=1 << 80)
NOBODY = NodeId(-1)


def state(*, leader=NOBODY, directories=(PLACE, PLACE, PLACE), **sets):
    """Of a partition with three replicas; ``sets``: its ISR, ELR and last known leaders."""
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
