"""The versions of the requests of group members, by the release of the client that speaks them.

A client sends the newest version that it knows and its broker serves. So an old client sends what no test of each API by itself brings
together: it joins without a name of its own, without a timeout for rebalances or without an id that it was given before, in one group with
members of every other release.
"""

from random import Random
from typing import Final, NamedTuple


class GroupDialect(NamedTuple):
    """The versions that one client sends."""

    release: str
    """The first release of Kafka whose client speaks so."""
    find: int
    join: int
    sync: int
    heartbeat: int
    leave: int
    commit: int
    fetch: int

    @property
    def has_instances(self) -> bool:
        """True if its members may have a ``group.instance.id`` (KIP-345)."""
        return self.join >= _FIRST_JOIN_WITH_INSTANCE


_FIRST_JOIN_WITH_INSTANCE: Final = 5

CURRENT: Final = GroupDialect("the present", find=4, join=7, sync=5, heartbeat=4, leave=4, commit=9, fetch=8)

OLDER: Final = (
    GroupDialect("0.9.0", find=0, join=0, sync=0, heartbeat=0, leave=0, commit=2, fetch=1),
    GroupDialect("0.10.2", find=0, join=1, sync=0, heartbeat=0, leave=0, commit=2, fetch=2),
    GroupDialect("0.11.0", find=1, join=2, sync=1, heartbeat=1, leave=1, commit=3, fetch=3),
    GroupDialect("2.0", find=2, join=3, sync=2, heartbeat=2, leave=2, commit=4, fetch=4),
    GroupDialect("2.2", find=2, join=4, sync=2, heartbeat=2, leave=2, commit=6, fetch=5),
    GroupDialect("2.3", find=2, join=5, sync=3, heartbeat=3, leave=2, commit=7, fetch=5),
    GroupDialect("2.4", find=3, join=6, sync=4, heartbeat=4, leave=4, commit=8, fetch=6),
    GroupDialect("2.5", find=3, join=7, sync=5, heartbeat=4, leave=4, commit=8, fetch=7),
)
"""The dialects of older clients, the oldest first."""

OLD_SHARE: Final = 0.6
"""The share of the processes of a group with old clients that speak an older dialect."""


def draw_dialect(rng: Random, *, is_static: bool = False) -> GroupDialect:
    """The dialect of one process of a group that has old clients; a static member speaks one that can say so."""
    if rng.random() >= OLD_SHARE:
        return CURRENT
    return rng.choice([dialect for dialect in OLDER if dialect.has_instances or not is_static])
