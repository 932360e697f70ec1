"""Streams of randomness: each part of a simulation has its own, so that what one draws changes nothing for the others."""

from random import Random


def stream(purpose: str, seed: int) -> Random:
    """The stream of a run's seed for one purpose."""
    return Random(f"{purpose} of {seed}")  # noqa: S311 -- a replay by seed is what this is for


def fork(rng: Random) -> Random:
    """A new stream that depends on what ``rng`` gives next."""
    return Random(rng.random())  # noqa: S311 -- as above
