"""Streams of randomness: each part of a simulation has its own, so that what one draws changes nothing for the others."""

from random import Random


def stream(purpose: str, seed: int) -> Random:
    """The stream of a run's seed for one purpose."""
    return Random(f"{purpose} of {seed}")  # noqa: S311 -- a replay by seed is what this is for


def between(rng: Random, least: int, most: int) -> int:
    """A number of a small range, its ends included: the same as ``rng.randint`` gives, without the calls that check its arguments."""
    count = most - least + 1
    bits = count.bit_length()
    value = rng.getrandbits(bits)
    while value >= count:
        value = rng.getrandbits(bits)
    return least + value


def fork(rng: Random) -> Random:
    """A new stream that depends on what ``rng`` gives next."""
    return Random(rng.random())  # noqa: S311 -- as above
