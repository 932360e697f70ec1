"""A group whose coordinator is gone for good ends all the same."""

import asyncio
from random import Random
from types import SimpleNamespace

import pytest

from esp.model.ids import TopicPartition
from esp.simulation.nodes_tier.expiry_profile import ExpiryProfile
from esp.simulation.nodes_tier.group_profile import GroupProfile
from esp.simulation.workload import group_crew
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.group_crew import CrewExpiry, GroupCrew
from tests.unit.simulation.workload.scripted import new_history

PROFILE = GroupProfile("group-0", 1, 0, 6.0, 6.0, 1.0, has_outsider=False)


class Unreachable:
    """Offsets of a group without a coordinator."""

    def __init__(self, *_):
        pass

    async def commit_retained(self, *_):
        raise NoAnswerError("no coordinator")


@pytest.fixture(autouse=True)
def _no_coordinator(monkeypatch):
    monkeypatch.setattr(group_crew, "OffsetsClient", Unreachable)
    monkeypatch.setattr(group_crew, "POLL_S", 0)


def test_a_crew_whose_group_could_never_begin_ends_when_it_is_stopped():
    crew = GroupCrew(
        PROFILE,
        [TopicPartition("t", 0)],
        Random(1),
        new_history(),
        SimpleNamespace(),
        lambda _group, name, _dialect: SimpleNamespace(client=SimpleNamespace(name=name)),
        expiry=CrewExpiry(ExpiryProfile(1000, 1.0, reads_part=False), Random(1)),
    )

    async def run():
        tasks = [asyncio.create_task(crew.keep(0)), asyncio.create_task(crew.look_on())]
        await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
        crew.stop()
        await asyncio.wait_for(asyncio.gather(*tasks), 5)

    asyncio.run(run())
    assert crew.has_ended
    assert not crew.members
