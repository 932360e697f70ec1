"""A seeded order of brokers, for choices between equals. No source of random numbers: the same seed must give the same plan everywhere."""

from collections.abc import Iterable
from typing import Final

from esp.model.ids import NodeId

_MASK: Final = (1 << 64) - 1


def ranks(brokers: Iterable[NodeId], seed: int) -> dict[NodeId, int]:
    """A rank of each broker; which are low depends on the seed."""
    return {broker: _mix(_mix(seed) ^ broker) for broker in brokers}


def _mix(value: int) -> int:
    """A 64-bit number that looks like chance: one step of SplitMix64 (Steele, Lea, Flood 2014)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
