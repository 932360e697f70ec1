"""A recess that a share group keeps empties it for as long as the administrator is at work."""

import asyncio
import dataclasses
from random import Random
from types import SimpleNamespace

import pytest

from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.nodes_tier.share_profile import ShareProfile
from esp.simulation.streams import stream
from esp.simulation.workload import share_crew
from esp.simulation.workload.share_crew import ShareCrew
from tests.unit.simulation.workload.scripted import new_history

PROFILE = dataclasses.replace(
    ShareProfile.draw_some(stream("share groups", 1), 3), members=3, session_s=3.0, calm_s=2.0, recess_s=6.0
)
ACT_S = 5.0
"""Longer than any place stays empty, but for a recess."""


class Member:
    """Takes part until it is told to leave, or dies."""

    def __init__(self, _client, _rng, _history, _checker, _profile, _names, _on_records):
        self.name = "member"
        self.is_stopping = self.is_hasty = self.has_ended = False

    def avoid(self, _addresses):
        pass

    def die(self):
        self.is_stopping = True

    def stand_still(self, _seconds):
        pass

    def lose_connections(self):
        pass

    def change_connections(self, _seconds):
        pass

    async def run(self):
        while not self.is_stopping:  # noqa: ASYNC110 - the crew sets it, as that of a real member
            await asyncio.sleep(0.1)
        self.has_ended = True


class Administrator:
    """Notes whether the group was empty for as long as it did something to it."""

    def __init__(self):
        self.found_empty = []

    def avoid(self, _addresses):
        pass

    async def look(self):
        pass

    async def act(self):
        is_empty = self.crew.has_ended
        for _ in range(int(ACT_S / 0.1)):
            await asyncio.sleep(0.1)
            is_empty = is_empty and self.crew.has_ended
        self.found_empty.append(is_empty)


@pytest.fixture(autouse=True)
def _scripted_members(monkeypatch):
    monkeypatch.setattr(share_crew, "ShareMember", Member)


def found_empty(profile, seed):
    """What the administrator found in the recesses of 60 s."""
    administrator = Administrator()
    crew = administrator.crew = ShareCrew(
        "queue-0",
        profile,
        {},
        Random(seed),
        new_history(),
        SimpleNamespace(),
        lambda _group, name: SimpleNamespace(client=SimpleNamespace(name=name)),
        administrator,
    )
    loop = SimulatedLoop()

    async def main():
        keepers = [loop.create_task(crew.keep(place)) for place in range(profile.members)]
        administering = loop.create_task(crew.administer())
        await asyncio.sleep(60)
        crew.stop()
        await asyncio.gather(administering, *keepers)
        assert crew.has_ended

    loop.run(main())
    return administrator.found_empty


@pytest.mark.parametrize("calm_s", [2.0, 20.0])
def test_no_member_joins_during_a_recess_that_is_kept(calm_s):
    profile = dataclasses.replace(PROFILE, calm_s=calm_s, keeps_recesses=True)
    found = [empty for seed in range(5) for empty in found_empty(profile, seed)]
    assert len(found) >= 10
    assert all(found)


@pytest.mark.parametrize("dies", [False, True])
def test_sessions_of_one_member_end(dies):
    crew = ShareCrew("queue-0", PROFILE, {}, Random(1), new_history(), SimpleNamespace(), None, Administrator())
    befallen = []
    crew._members = {
        place: SimpleNamespace(
            name=name,
            member_id=name,
            has_ended=False,
            is_hasty=False,
            die=lambda name=name: befallen.append((name, "dies")),
            lose_connections=lambda name=name: befallen.append((name, "loses")),
        )
        for place, name in enumerate(("a", "b"))
    }
    crew.end_sessions_of("b", dies=dies)
    crew.end_sessions_of("c", dies=dies)
    assert befallen == [("b", "dies" if dies else "loses")]
    crew.calm()
    crew.end_sessions_of("a", dies=dies)
    assert len(befallen) == 1


def test_members_join_during_a_recess_that_is_not_kept():
    profile = dataclasses.replace(PROFILE, calm_s=20.0, keeps_recesses=False)
    found = [empty for seed in range(5) for empty in found_empty(profile, seed)]
    assert found
    assert not all(found)
