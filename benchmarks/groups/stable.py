"""The time that a group takes until it is stable, when all its members join at once."""

from typing import Final

from benchmarks.client import create_topic
from benchmarks.cost import CostMeter
from benchmarks.groups.members import Crew, crew
from benchmarks.groups.metrics import STABLE, STABLE_AT_ONCE, STABLE_AT_ONCE_CPU, STABLE_CPU
from benchmarks.stage import Stage

MEMBERS: Final = 50
PARTITIONS: Final = 100
PAUSE_S: Final = 0.02
"""Between a member's answer and its next heartbeat: clients beat at once when they have something to say, else much more seldom."""

_TOPIC: Final = "joined"


def is_stable(members: Crew) -> bool:
    """True if all partitions have owners, each member has its share, and the coordinator knows it."""
    share = PARTITIONS // MEMBERS
    return all(member.is_settled and member.owned == share for member in members.members)


def measure_stable(stage: Stage, *, at_once: bool) -> None:
    """Let the members of one group after another join.

    Args:
        stage: has the brokers, whose settings say how soon an assignment may follow another.
        at_once: true if they may follow at once.
    """
    wall, cpu = (STABLE_AT_ONCE, STABLE_AT_ONCE_CPU) if at_once else (STABLE, STABLE_CPU)
    for node in stage.nodes.values():
        create_topic(node.port, _TOPIC, PARTITIONS)
    for number in stage.rounds():
        for name, node in stage.in_turn(number):
            with crew(node.port, [f"group-{number}"], MEMBERS, _TOPIC) as members, CostMeter(node) as cost:
                members.beat_until(lambda: is_stable(members), PAUSE_S)
            stage.take(name, {wall: cost.elapsed_s, cpu: cost.all_s * 1e3}, number)
