"""Kinds of whole-node runs: a bug that needs one of them is looked for in runs of that kind alone, drawn from all seeds as they come."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Final

from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.profile import Profile
from tests.mutants.mutant import (
    ASKED_OFFSETS,
    BEYOND_PROMISE,
    COMPACTED_TOPICS,
    EXPIRING_OFFSETS,
    FAILING_DIRECTORIES,
    FLIPPED_BITS,
    LOST_FILES,
    MOVED_REPLICAS,
    MOVED_VOTERS,
    MOVING_LOG_STARTS,
    REPLACED_LEADERS,
    ROTTEN_COPIES,
    SECOND_BROKERS,
    SECOND_VOTERS,
    TRANSACTED_OFFSETS,
    UPGRADED_NODES,
)

KINDS: Final[Mapping[str, Callable[[Profile], bool]]] = {
    BEYOND_PROMISE: lambda profile: profile.breaks_promise,
    LOST_FILES: lambda profile: FaultKind.LOST_FILES in profile.fault_means_s and len(profile.layout.brokers) > 1,
    ASKED_OFFSETS: lambda profile: profile.asks_offsets and len(profile.layout.brokers) > 1,
    EXPIRING_OFFSETS: lambda profile: profile.groups.expiry is not None,
    TRANSACTED_OFFSETS: lambda profile: (
        profile.transactions is not None and any(one.commits_offsets for one in profile.transactions.ids)
    ),
    FLIPPED_BITS: lambda profile: FaultKind.FLIP in profile.fault_means_s,
    REPLACED_LEADERS: lambda profile: FaultKind.LONG_OSTRACISM in profile.fault_means_s,
    SECOND_VOTERS: lambda profile: FaultKind.VOTER_TWIN in profile.fault_means_s,
    SECOND_BROKERS: lambda profile: FaultKind.TWIN in profile.fault_means_s,
    MOVED_VOTERS: lambda profile: FaultKind.RELOCATE in profile.fault_means_s,
    MOVED_REPLICAS: lambda profile: (
        profile.moves_directories and any("flush.messages" in topic.configs for topic in profile.topics)
    ),
    FAILING_DIRECTORIES: lambda profile: (
        profile.has_more and FaultKind.IO_ERROR in profile.fault_means_s and len(profile.layout.brokers) > 1
    ),
    MOVING_LOG_STARTS: lambda profile: profile.log_starts is not None,
    COMPACTED_TOPICS: lambda profile: profile.compaction is not None,
    ROTTEN_COPIES: lambda profile: FaultKind.BIT_ROT in profile.fault_means_s and len(profile.layout.brokers) > 1,
    UPGRADED_NODES: lambda profile: profile.upgrade is not None,
}
"""By name, whether a run is of the kind."""


def seeds_of_kind(kind: str, first: int) -> Iterator[int]:
    """The seeds from ``first`` on whose runs are of a kind; all of them if it is empty."""
    is_of_kind = KINDS[kind] if kind else None
    return (seed for seed in count(first) if is_of_kind is None or is_of_kind(Profile.draw(seed)))
