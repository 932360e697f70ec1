"""What a heartbeat costs of a member whose group is at rest: nearly all heartbeats are such."""

from typing import Final

from benchmarks.client import create_topic
from benchmarks.cost import CostMeter
from benchmarks.groups.members import crew
from benchmarks.groups.metrics import HEARTBEAT_ALL, HEARTBEAT_USER
from benchmarks.stage import Stage

GROUPS: Final = 10
MEMBERS: Final = 5
"""Of each group."""

PARTITIONS: Final = 50
COUNT: Final = 20_000
"""Heartbeats of a round, one in flight for each member."""

_TOPIC: Final = "heartbeats"
_PAUSE_S: Final = 0.02


def measure_heartbeats(stage: Stage) -> None:
    """Let the groups come to rest, and count what further heartbeats cost."""
    for node in stage.nodes.values():
        create_topic(node.port, _TOPIC, PARTITIONS)
    count = stage.scaled(COUNT, least=GROUPS * MEMBERS)
    for number in stage.rounds():
        for name, node in stage.in_turn(number):
            groups = [f"group-{number}-{place}" for place in range(GROUPS)]
            with crew(node.port, groups, MEMBERS, _TOPIC) as members:
                all_members = members.members
                members.beat_until(
                    lambda: (
                        sum(member.owned for member in all_members) == GROUPS * PARTITIONS  # noqa: B023
                        and all(member.is_settled for member in all_members)  # noqa: B023
                    ),
                    _PAUSE_S,
                )
                with CostMeter(node) as cost:
                    members.beat_times(count)
            per_beat = 1e6 / count
            stage.take(name, {HEARTBEAT_USER: cost.user_s * per_beat, HEARTBEAT_ALL: cost.all_s * per_beat}, number)
