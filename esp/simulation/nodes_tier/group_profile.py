"""The consumer groups of a run, and the faults that befall their members."""

from dataclasses import dataclass
from random import Random
from typing import Final

from esp.simulation.nodes_tier.expiry_profile import ExpiryProfile

NO_GROUPS_SHARE: Final = 0.5
"""The share of the runs without groups: the work of groups costs time, and hides little."""

OLD_CLIENTS_SHARE: Final = 0.5
"""The share of the runs with groups in which some of the members, and of the clients outside, are clients of older releases."""


@dataclass(frozen=True, slots=True)
class GroupProfile:
    """One group; times in seconds."""

    name: str
    members: int
    static_members: int
    """The number of them that have a ``group.instance.id``."""
    session_s: float
    rebalance_s: float
    calm_s: float
    """Mean time until something befalls a member: it leaves, dies, stands still, or a second process takes its name."""
    has_outsider: bool
    """True if a client that is no member tries to commit as well, which is allowed while there are no members."""


@dataclass(frozen=True, slots=True)
class GroupsProfile:
    """The groups of a run, and the topic in which they live."""

    groups: tuple[GroupProfile, ...] = ()
    offsets_partitions: int = 1
    """``offsets.topic.num.partitions``."""
    min_insync_replicas: int = 1
    """The brokers' default, which no topic of the workload leaves to them."""
    expiry: ExpiryProfile | None = None
    """The expiry of committed offsets, if they expire."""
    has_old_clients: bool = False
    """True if some members send old versions of their requests (see :mod:`esp.simulation.workload.group_dialects`)."""

    @classmethod
    def draw(cls, rng: Random, brokers: int) -> "GroupsProfile":
        """A group or two, or in many runs none."""
        if rng.random() < NO_GROUPS_SHARE:
            return NO_GROUPS
        return cls(
            groups=tuple(_draw_group(rng, f"group-{number}") for number in range(rng.choice((1, 1, 2)))),
            offsets_partitions=rng.choice((1, 2, 3)),
            min_insync_replicas=min(brokers, rng.choice((1, 2, 2, 2))),
        )


NO_GROUPS: Final = GroupsProfile()


def _draw_group(rng: Random, name: str) -> GroupProfile:
    members = rng.choice((0, 1, 2, 2, 3, 3, 4))
    return GroupProfile(
        name=name,
        members=members,
        static_members=rng.choice((0, 0, rng.randint(0, members))),
        session_s=rng.choice((1.0, 2.0, 4.0)),
        rebalance_s=rng.choice((2.0, 5.0)),
        calm_s=rng.choice((2.0, 6.0, 20.0)),
        has_outsider=members == 0 or rng.random() < 0.5,
    )
