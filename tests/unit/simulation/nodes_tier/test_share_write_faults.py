"""Faults in which a member ends while its words are being written."""

import asyncio
import uuid
from dataclasses import replace
from types import SimpleNamespace

import pytest

from esp.model.ids import NO_NODE, SHARE_STATES_TOPIC, TopicId
from esp.schemas.share_state_records import ShareStateKey
from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.share_profile import ShareProfile
from esp.simulation.nodes_tier.share_write_faults import REST_S, ShareWriteFaults
from esp.simulation.nodes_tier.world import World
from esp.simulation.streams import stream

KEY = ShareStateKey("queue", TopicId(uuid.UUID(int=1)), 0)
WORDS = 40
"""So many that some of them are hit."""


class Scene:
    """A coordinator, which dies if it is killed, and members whose words are written one after the other."""

    def __init__(self, *, ends_in_writes=True, coordinator=2, dies=True):
        share = replace(ShareProfile.draw_some(stream("share groups", 1), 3), ends_in_writes=ends_in_writes)
        self.world = World(replace(Profile.draw(1, node_count=3), share=share, upgrade=None))
        self.world.nodes = {
            number: SimpleNamespace(node_id=number, process=object(), is_alive=True) for number in (1, 2, 3)
        }
        self.dies, self.is_over = dies, False
        self.brought, self.ended = [], []
        topic = SimpleNamespace(partitions=(SimpleNamespace(leader=coordinator),))
        image = SimpleNamespace(topics_by_name={SHARE_STATES_TOPIC: topic})
        self.faults = ShareWriteFaults(self.world, self.bring, lambda: image, lambda: self.is_over)
        self.faults.end_sessions = lambda group_id, member_id, *, dies: self.ended.append((group_id, member_id, dies))

    def bring(self, fault):
        self.brought.append(fault)
        self.world.nodes[fault.nodes[0]].is_alive = not self.dies

    def write_words(self):
        async def main():
            for number in range(WORDS):
                self.faults.on_words(KEY, f"member {number}")
                await asyncio.sleep(1)

        self.world.loop.run(main())
        self.world.loop.close()


def test_coordinators_die_and_members_end():
    scene = Scene()
    scene.write_words()
    assert {(fault.kind, fault.nodes) for fault in scene.brought} == {(FaultKind.KILL, (2,))}
    assert WORDS / REST_S[1] / 2 < len(scene.brought) < WORDS
    assert len(scene.ended) == len(scene.brought)
    assert {group_id for group_id, _member_id, _dies in scene.ended} == {"queue"}
    assert {dies for _group_id, _member_id, dies in scene.ended} == {False, True}


@pytest.mark.parametrize("options", [{"ends_in_writes": False}, {"coordinator": NO_NODE}])
def test_nothing_befalls_other_writes(options):
    scene = Scene(**options)
    scene.write_words()
    assert not scene.brought


def test_a_member_goes_on_whose_coordinator_may_not_die():
    scene = Scene(dies=False)
    scene.write_words()
    assert scene.brought
    assert not scene.ended


def test_none_comes_after_the_faults():
    scene = Scene()
    scene.is_over = True
    scene.write_words()
    assert not scene.brought
