"""What a heartbeat costs of a member whose group is at rest: nearly all heartbeats are such."""

from functools import partial
from typing import Final

from benchmarks.client import create_topic
from benchmarks.cost import CostMeter
from benchmarks.groups.members import Crew, crew
from benchmarks.groups.metrics import HEARTBEAT_ALL, HEARTBEAT_USER
from benchmarks.stage import Stage

GROUPS: Final = 10
MEMBERS: Final = 5
"""The members of each group."""

PARTITIONS: Final = 50
COUNT: Final = 20_000
"""Heartbeats of a round, one in flight for each member."""

_TOPIC: Final = "heartbeats"
_PAUSE_S: Final = 0.02


def is_at_rest(members: Crew) -> bool:
    """True if each member has its share, and the coordinator knows it: a group of which one member has all partitions, and the others are
    settled with none, is assigned once more as soon as the interval between assignments is over."""
    share = PARTITIONS // MEMBERS
    return all(member.is_settled and member.owned == share for member in members.members)


def measure_heartbeats(stage: Stage) -> None:
    """Let the groups come to rest, and count what further heartbeats cost."""
    for node in stage.nodes.values():
        create_topic(node.port, _TOPIC, PARTITIONS)
    count = stage.scaled(COUNT, least=GROUPS * MEMBERS)
    for number in stage.rounds():
        for name, node in stage.in_turn(number):
            groups = [f"group-{number}-{place}" for place in range(GROUPS)]
            with crew(node.port, groups, MEMBERS, _TOPIC) as members:
                members.beat_until(partial(is_at_rest, members), _PAUSE_S)
                with CostMeter(node) as cost:
                    members.beat_times(count)
            per_beat = 1e6 / count
            stage.take(name, {HEARTBEAT_USER: cost.user_s * per_beat, HEARTBEAT_ALL: cost.all_s * per_beat}, number)
