"""REC-4: a replica that has rotted steps out, and is made anew only when nobody counts on it."""

import asyncio
import dataclasses
import uuid
from types import SimpleNamespace

import pytest

from esp.broker.replication.rotten_replicas import RottenReplicas
from esp.model.ids import LOST_DIRECTORY, NO_NODE, DirectoryId, LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState

HERE = DirectoryId(uuid.UUID(int=77))
ME = NodeId(1)


def state(**changes):
    known = PartitionState(
        topic_id=TopicId(uuid.UUID(int=5)),
        partition=0,
        replicas=(NodeId(1), NodeId(2), NodeId(3)),
        isr=(NodeId(1), NodeId(2), NodeId(3)),
        leader=NodeId(1),
        leader_epoch=LeaderEpoch(3),
        partition_epoch=7,
        directories=(HERE, HERE, HERE),
    )
    return dataclasses.replace(known, **changes)


def lost(**changes):
    return state(isr=(NodeId(2), NodeId(3)), leader=NodeId(2), directories=(LOST_DIRECTORY, HERE, HERE), **changes)


class Hosted(SimpleNamespace):
    __hash__ = object.__hash__


class Host:
    """Keeps what was asked of it."""

    def __init__(self, known, min_isr=2, active=(2, 3)):
        self.hosted = Hosted(
            state=known,
            is_offline=False,
            follower=SimpleNamespace(leader_has_answered=True),
            name="t-0",
            log=SimpleNamespace(path="/data/t-0", rot="rot", settings=SimpleNamespace(min_insync_replicas=min_isr)),
        )
        self.told = []
        self.renewed = 0
        self.rotten = RottenReplicas(
            ME,
            self,
            asyncio.Lock(),
            lambda hosted: self.told.append(self.rotten.has_lost_directory(hosted)),
            self.renew,
            lambda _state: lambda node: node in self.active,
        )
        self.active = active
        self.rotten.add(self.hosted)

    def start(self, work, name):
        work.close()

    async def renew(self, hosted):
        self.renewed += 1
        self.rotten.forget(hosted)

    def care(self):
        asyncio.run(self.rotten.care())


def test_a_leader_with_others_in_sync_says_that_its_directory_is_lost_and_keeps_its_files():
    host = Host(state())
    host.care()
    assert host.told == [True]
    assert not host.renewed


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(lost(elr=(NodeId(1),)), id="eligible"),
        pytest.param(lost(last_known_elr=(NodeId(1),)), id="last known leader"),
        pytest.param(dataclasses.replace(lost(), leader=NO_NODE), id="nobody leads"),
        pytest.param(dataclasses.replace(lost(), directories=(HERE, HERE, HERE)), id="could be let in again"),
        pytest.param(dataclasses.replace(lost(), isr=(NodeId(1), NodeId(2))), id="in sync"),
        pytest.param(dataclasses.replace(lost(), isr=(NodeId(2),)), id="too few others"),
    ],
)
def test_a_replica_that_somebody_may_count_on_is_not_made_anew(known):
    host = Host(known)
    host.care()
    assert not host.renewed


@pytest.mark.parametrize("follower", [None, SimpleNamespace(leader_has_answered=False)])
def test_a_replica_on_which_its_leader_may_still_count_is_not_made_anew(follower):
    host = Host(lost())
    host.hosted.follower = follower
    host.care()
    assert not host.renewed


def test_a_replica_on_which_nobody_counts_is_made_anew_once():
    host = Host(lost())
    host.care()
    host.care()
    assert host.renewed == 1
    assert not host.told


def test_where_all_replicas_are_the_minimum_all_others_are_enough():
    host = Host(lost(), min_isr=3)
    host.care()
    assert host.renewed == 1


def test_the_only_replica_in_sync_stays_and_says_so_once(caplog):
    host = Host(state(isr=(NodeId(1),)))
    host.care()
    host.care()
    assert host.told == [False, False], "it takes back that its directory is lost, if it said so"
    assert not host.renewed
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]
    assert "/data/t-0" in caplog.text


def test_it_steps_out_as_soon_as_another_one_is_in_sync():
    host = Host(state(isr=(NodeId(1),)))
    host.care()
    host.hosted.state = state(isr=(NodeId(1), NodeId(3)))
    host.care()
    assert host.told == [False, True]


def test_the_only_replica_in_sync_steps_out_as_soon_as_an_eligible_one_may_lead(caplog):
    """Else no other one could ever come into sync: they would have to read what has rotted."""
    host = Host(state(isr=(NodeId(1),), elr=(NodeId(3),)), active=(2,))
    host.care()
    host.active = (2, 3)
    host.care()
    assert host.told == [False, True]
    assert len(caplog.records) == 1


def test_a_replica_that_is_offline_is_left_alone():
    host = Host(lost())
    host.hosted.is_offline = True
    host.care()
    assert not host.renewed


def test_a_sound_replica_has_not_lost_its_directory():
    host = Host(state())
    host.rotten.forget(host.hosted)
    assert not host.rotten.has_lost_directory(host.hosted)
