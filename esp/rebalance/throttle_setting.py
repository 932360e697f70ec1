"""Sets the throttle of a plan and takes it away again, so that no broker that is down can hinder either.

The rates are settings of all brokers at once (KAFKA-10190), the replicas to which they apply are settings of topics: any broker takes a
change of both. A broker's own settings can be changed through that broker only, which made Kafka's tool hang on a dead one
(apache/kafka#21388).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from esp.model.errors import OperatorError
from esp.placement.step import Move
from esp.rebalance.cluster import (
    ALL_BROKERS,
    FOLLOWER_THROTTLED_RATE,
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_RATE,
    LEADER_THROTTLED_REPLICAS,
    ConfigTarget,
    ReassignmentAdmin,
)
from esp.rebalance.throttles import Copying, throttled_replicas

RATES: Final = (LEADER_THROTTLED_RATE, FOLLOWER_THROTTLED_RATE)
_LISTS: Final = (LEADER_THROTTLED_REPLICAS, FOLLOWER_THROTTLED_REPLICAS)
_ALL: Final = "*"


class ThrottleSetting:
    """The throttle of some moves.

    Args:
        admin: the cluster.
        moves: the moves of the plan, throttled while the plan goes on; a move that copies nothing is not.

    Raises:
        OperatorError: in every method: the cluster does not answer, or refuses.
    """

    def __init__(self, admin: ReassignmentAdmin, moves: Sequence[Move]) -> None:
        self._admin = admin
        copying = {move.name: Copying(frozenset(move.before), frozenset(move.adding)) for move in moves if move.adding}
        self._lists = throttled_replicas(copying)

    def previous_rates(self) -> dict[str, str]:
        """The rates that all brokers had before these moves were throttled.

        There are none if the moves are throttled already, by a process whose journal is not here.
        """
        if any(self._is_ours(target, present) for target, present in self._present().items()):
            return {}
        return self._admin.settings([ALL_BROKERS], RATES)[ALL_BROKERS]

    def _is_ours(self, target: ConfigTarget, present: Mapping[str, str]) -> bool:
        ours = self._lists[target.topic or ""]
        return any(_items(text) & _items(present.get(name, "")) for name, text in ours.items())

    def name_replicas(self) -> None:
        """Add the moves' replicas to what is throttled."""
        self._change(
            {
                target: {
                    name: _with(present.get(name, ""), text)
                    for name, text in self._lists[target.topic or ""].items()
                    if text
                }
                for target, present in self._present().items()
            }
        )

    def set_rate(self, bytes_per_second: int) -> None:
        """Let no broker send or receive more for throttled replicas."""
        self._change({ALL_BROKERS: dict.fromkeys(RATES, str(bytes_per_second))})

    def clear(self, previous_rates: Mapping[str, str] | None) -> None:
        """Restore the settings: other replicas that were named stay, and the previous rates are set again.

        The rates come first: as long as the replicas are named, a process that goes on after a kill knows that the rates are the plan's.

        Args:
            previous_rates: None if they are not known. Then there were none if one of these moves is throttled; else the rates that are set
                do not belong to the plan.
        """
        present = self._present()
        if previous_rates is not None or any(self._is_ours(*each) for each in present.items()):
            known = previous_rates or {}
            self._change({ALL_BROKERS: {name: known.get(name) for name in RATES}})
        self._change(
            {
                target: {
                    name: _without(there[name], text)
                    for name, text in self._lists[target.topic or ""].items()
                    if name in there
                }
                for target, there in present.items()
            }
        )

    def _present(self) -> dict[ConfigTarget, dict[str, str]]:
        """The lists that those topics have which exist."""
        there = self._admin.topics(self._lists)
        return self._admin.settings([ConfigTarget(topic=topic) for topic in there], _LISTS) if there else {}

    def _change(self, changes: Mapping[ConfigTarget, Mapping[str, str | None]]) -> None:
        wanted = {target: change for target, change in changes.items() if change}
        for target, reason in (self._admin.change_settings(wanted) if wanted else {}).items():
            raise OperatorError(
                f"the throttle of {target} could not be changed: {reason}", "Fix the cause, then resume the plan."
            )


def _with(present: str, ours: str) -> str:
    """Kafka's list with ours in it; ``*`` has everything in it."""
    return present if present == _ALL else ",".join(sorted({*_items(present), *_items(ours)}))


def _without(present: str, ours: str) -> str | None:
    """Kafka's list without ours; None if nothing is left."""
    return present if present == _ALL else ",".join(sorted(_items(present) - _items(ours))) or None


def _items(text: str) -> set[str]:
    return {item for item in text.split(",") if item}
