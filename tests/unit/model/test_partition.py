import uuid
from dataclasses import replace

import pytest

from esp.model.ids import DirectoryId, LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState, find_contradictions

SOUND = PartitionState(
    topic_id=TopicId(uuid.UUID(int=5)),
    partition=0,
    replicas=(NodeId(1), NodeId(2), NodeId(3)),
    isr=(NodeId(1),),
    leader=NodeId(1),
    leader_epoch=LeaderEpoch(4),
    partition_epoch=9,
    directories=(DirectoryId(uuid.UUID(int=7)),) * 3,
    adding_replicas=(NodeId(3),),
    removing_replicas=(NodeId(2),),
    elr=(NodeId(2),),
)


@pytest.mark.parametrize(
    "state",
    [
        SOUND,
        replace(SOUND, directories=()),
        replace(SOUND, adding_replicas=(2,), removing_replicas=(2,)),
        replace(SOUND, recovering=True),
        replace(SOUND, leader=-1, isr=(), elr=(), last_known_elr=(1,)),
        replace(SOUND, leader=-1),
    ],
)
def test_a_sound_state_does_not_contradict_itself(state):
    assert list(find_contradictions(state)) == []


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"replicas": (1, 2, 2)}, {"a replica is listed twice", "a node is added or removed that is no replica"}),
        ({"isr": (1, 1)}, {"a replica is twice in sync or twice eligible"}),
        ({"elr": (2, 2)}, {"a replica is twice in sync or twice eligible"}),
        ({"isr": (1, 4)}, {"the ISR lists a node that is no replica"}),
        ({"elr": (4,)}, {"the ELR lists a node that is no replica"}),
        ({"elr": (1,)}, {"a replica is both in sync and eligible"}),
        ({"last_known_elr": (4,), "leader": -1}, {"the last-known leader is no replica"}),
        ({"leader": 2}, {"the leader is not in sync"}),
        ({"last_known_elr": (2,)}, {"there is a leader, and a last-known one as well"}),
        ({"isr": (1, 3), "recovering": True}, {"others are in sync with a leader that is recovering"}),
        ({"adding_replicas": (4,)}, {"a node is added or removed that is no replica"}),
        ({"removing_replicas": (4,)}, {"a node is added or removed that is no replica"}),
        ({"removing_replicas": (1, 2, 3)}, {"all replicas are removed"}),
        ({"directories": (DirectoryId(uuid.UUID(int=7)),)}, {"not every replica has its directory"}),
        ({"leader_epoch": -1}, {"an epoch is below 0"}),
        ({"partition_epoch": -1}, {"an epoch is below 0"}),
    ],
)
def test_each_contradiction_is_found(changes, found):
    assert set(find_contradictions(replace(SOUND, **changes))) == found


def test_a_partition_without_replicas_is_none():
    assert "it has no replica" in find_contradictions(replace(SOUND, replicas=()))
