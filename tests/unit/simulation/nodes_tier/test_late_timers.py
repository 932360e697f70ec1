"""A controller whose timer is late each time that it is due, and a broker that is silent meanwhile."""

import asyncio
from dataclasses import replace

from esp.simulation.checkers import probe
from esp.simulation.nodes_tier.faults import Fault, FaultKind
from esp.simulation.nodes_tier.late_timer_profile import CHAOS_S, has_late_timers, with_late_timers
from esp.simulation.nodes_tier.late_timers import HELD_UP_S, LateTimers
from esp.simulation.nodes_tier.layout import Layout
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.world import World
from esp.simulation.streams import stream

SPLIT = Layout(brokers=(1, 2, 3), controllers=(4,), first_voters=(4,))


def test_each_look_at_the_sessions_is_late_while_a_broker_is_silent():
    world = World(replace(Profile.draw(1), layout=SPLIT, upgrade=None, clock_rates=(0.9,) * 4))
    late = LateTimers(world, lambda: probe.active_controller(world.nodes.values()), lambda: False)
    controller, silent = world.nodes[4], world.nodes[2]
    held_s, late_s = [], []

    def look(touched):
        if controller.process in touched:
            now_s = world.loop.time()
            if held_s and now_s - held_s[-1] > 1:
                late_s.append(now_s - due_s[-1])
            held_s.append(now_s)
            due_s.append(probe.sessions_due_s(controller) or 0.0)

    due_s = []

    async def main():
        await world.boot()
        world.loop.on_turn = look
        assert late.bring(Fault(0.0, FaultKind.LATE_TIMER, (2,), 40.0), silent)
        assert not late.bring(Fault(0.0, FaultKind.LATE_TIMER, (3,), 40.0), world.nodes[3]), "one at a time"
        await asyncio.sleep(15)
        assert silent.process.is_paused
        await asyncio.sleep(15)
        assert probe.image(controller).brokers[2].fenced
        await asyncio.sleep(25)
        assert not silent.process.is_paused
        assert not probe.image(controller).brokers[2].fenced

    world.loop.run(main())
    assert len(late_s) >= 3
    assert all(1 / 0.9 < seconds < HELD_UP_S[1] + 0.05 for seconds in late_s)


def test_they_come_in_a_part_of_the_runs_with_others_rarely():
    drawn = [has_late_timers(stream("late timers", seed), SPLIT) for seed in range(1_000)]
    assert 50 < sum(drawn) < 110
    assert not any(has_late_timers(stream("late timers", seed), Layout.combined(1)) for seed in range(1_000))
    assert with_late_timers({FaultKind.KILL: 2.0})[FaultKind.KILL] > 10
    profiles = [Profile.draw(seed) for seed in range(1, 101)]
    those = [profile for profile in profiles if FaultKind.LATE_TIMER in profile.fault_means_s]
    assert those
    assert all(profile.chaos_s >= CHAOS_S for profile in those)
