"""The condition of the ways between hosts at the moment: each direction of each pair for itself.

A :class:`LinkRule` is one disturbance. Several may be in force at once; where they overlap, delays and losses add up and one block is
enough. Lifting a rule changes nothing of the others, so that faults need not know of one another.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple


class LinkCondition(NamedTuple):
    """One direction between two hosts: nothing arrives if ``is_blocked``; ``loss`` is the share of packets that must be sent again."""

    is_blocked: bool = False
    delay_us: tuple[int, int] = (0, 0)
    """Least and most microseconds on top of the network's own."""
    loss: float = 0.0
    bytes_per_s: int | None = None
    flips: float = 0.0
    """The share of writes with a batch of records in which bits flip (:mod:`esp.simulation.machine.flips`)."""


CLEAR: Final = LinkCondition()


@dataclass(frozen=True, slots=True)
class LinkRule:
    """A disturbance of all packets from ``sources`` to ``targets``; None stands for every host."""

    condition: LinkCondition
    sources: frozenset[str] | None = None
    targets: frozenset[str] | None = None

    def covers(self, source: str, target: str) -> bool:
        """True if it disturbs this direction. A host reaches itself whatever happens to the network."""
        return (
            source != target
            and (self.sources is None or source in self.sources)
            and (self.targets is None or target in self.targets)
        )


class Links:
    """The rules in force.

    Args:
        on_change: called when a rule came or went.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._rules: dict[int, LinkRule] = {}
        self._next_id = 0
        self._known: dict[tuple[str, str], LinkCondition] = {}

    def add(self, rule: LinkRule) -> int:
        """Put a rule into force; the number is for :meth:`remove`."""
        self._next_id += 1
        self._rules[self._next_id] = rule
        self._changed()
        return self._next_id

    def remove(self, rule_id: int) -> None:
        """Lift a rule; nothing happens when it was lifted before."""
        if self._rules.pop(rule_id, None) is not None:
            self._changed()

    def clear(self) -> None:
        """Lift all rules."""
        self._rules.clear()
        self._changed()

    def condition(self, source: str, target: str) -> LinkCondition:
        """The condition of packets from ``source`` to ``target`` now."""
        known = self._known.get((source, target))
        if known is None:
            known = self._known[source, target] = self._combine(source, target)
        return known

    def _combine(self, source: str, target: str) -> LinkCondition:
        found = CLEAR
        for rule in self._rules.values():
            if not rule.covers(source, target):
                continue
            new = rule.condition
            caps = [cap for cap in (found.bytes_per_s, new.bytes_per_s) if cap is not None]
            found = LinkCondition(
                is_blocked=found.is_blocked or new.is_blocked,
                delay_us=(found.delay_us[0] + new.delay_us[0], found.delay_us[1] + new.delay_us[1]),
                loss=1 - (1 - found.loss) * (1 - new.loss),
                bytes_per_s=min(caps, default=None),
                flips=max(found.flips, new.flips),
            )
        return found

    def _changed(self) -> None:
        self._known.clear()
        self._on_change()
