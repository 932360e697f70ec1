"""Members of share groups that take their time."""

import asyncio
import dataclasses
from random import Random
from types import SimpleNamespace

import pytest

from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.nodes_tier.share_profile import ShareProfile
from esp.simulation.streams import stream
from esp.simulation.workload.share_member import ShareMember
from tests.unit.simulation.workload.scripted import new_history

WORK_S = 4.0
PLAIN = dataclasses.replace(ShareProfile.draw_some(stream("share groups", 1), 3), session_s=3.0)
WORKING = dataclasses.replace(PLAIN, works_s=WORK_S)


def work(profile, held, *, stops_s=None):
    """The seconds that members take, each of its own seed, and the heartbeats that they send meanwhile."""
    loop, taken, beats = SimulatedLoop(), [], []

    async def main():
        for seed in range(10):
            member = ShareMember(
                SimpleNamespace(), Random(seed), new_history(), SimpleNamespace(), profile, {}, lambda _count: None
            )
            member._sessions = {"leader": SimpleNamespace(held=held)}

            async def beat(member=member):
                beats.append(loop.time())
                member._beat_s = loop.time() + profile.heartbeat_s

            member._beat = beat
            if stops_s is not None:
                loop.call_later(stops_s, setattr, member, "is_stopping", True)
            begin_s = loop.time()
            await member._work()
            taken.append(loop.time() - begin_s)
            await asyncio.sleep(1)

    loop.run(main())
    loop.close()
    return taken, beats


def test_members_work_and_keep_their_sessions():
    taken, beats = work(WORKING, [object()])
    assert all(0 < seconds <= 2 * WORK_S for seconds in taken)
    assert len(set(taken)) > 1
    assert len(beats) > sum(taken) / WORKING.session_s


@pytest.mark.parametrize(("profile", "held"), [(PLAIN, [object()]), (WORKING, [])])
def test_others_say_at_once_what_has_become_of_records(profile, held):
    taken, beats = work(profile, held)
    assert not any(taken)
    assert not beats


def test_members_that_are_to_leave_do_so_at_the_next_heartbeat():
    taken, _beats = work(WORKING, [object()], stops_s=0.1)
    assert max(taken) <= 0.1 + 2 * WORKING.heartbeat_s
