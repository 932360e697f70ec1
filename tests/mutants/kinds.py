"""Kinds of runs: a bug that needs one of them is looked for in runs of that kind alone, drawn from all seeds as they come."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from math import inf
from random import Random
from typing import Final

from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.ledger import copies_lost_allowed
from esp.simulation.nodes_tier.offset_deletions import deletes_offsets
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.partition_tier.profile import PartitionProfile
from esp.simulation.workload.admin import continues_offsets, restores_topics
from tests.mutants.mutant import (
    ASKED_OFFSETS,
    BEYOND_PROMISE,
    BUSY_TRANSACTIONS,
    COMPACTED_COORDINATORS,
    COMPACTED_TOPICS,
    COMPACTED_TRANSACTIONS,
    CONSUMER_GROUPS,
    DELETED_OFFSETS,
    DOUBTED_MARKERS,
    EXPIRING_OFFSETS,
    FAILING_DIRECTORIES,
    FLIPPED_BITS,
    GUARDED_NODES,
    GUARDED_TOPICS,
    HELD_BACK_COPIES,
    HELD_RECORDS,
    LOST_FILES,
    LOST_TAILS,
    METERED_NODES,
    MOVED_REPLICAS,
    MOVED_VOTERS,
    MOVING_GROUPS,
    MOVING_LOG_STARTS,
    RECREATED_TOPICS,
    REPLACED_DISKS,
    REPLACED_LEADERS,
    ROTTEN_COPIES,
    SECOND_BROKERS,
    SECOND_VOTERS,
    SHARE_GROUPS,
    STRANDED_LEADERS,
    TOKENS,
    TRANSACTED_OFFSETS,
    TRANSACTIONS_ALONE,
    TRASHED_DIRECTORIES,
    TRASHED_NAMES,
    TRASHED_TOPICS,
    TRASHED_TRANSACTIONS,
    UPGRADED_BROKERS,
    USERS,
)

OFTEN_S: Final = 20.0
"""Mean seconds between two faults of a kind that comes often."""

FAR_US: Final = 50_000
"""The longest way of a packet, where nodes are far from one another."""

NODES_KINDS: Final[Mapping[str, Callable[[Profile], bool]]] = {
    BEYOND_PROMISE: lambda profile: profile.breaks_promise,
    LOST_FILES: lambda profile: FaultKind.LOST_FILES in profile.fault_means_s and len(profile.layout.brokers) > 1,
    ASKED_OFFSETS: lambda profile: profile.asks_offsets and len(profile.layout.brokers) > 1,
    EXPIRING_OFFSETS: lambda profile: profile.groups.expiry is not None,
    DELETED_OFFSETS: deletes_offsets,
    CONSUMER_GROUPS: lambda profile: profile.consumer_group is not None,
    MOVING_GROUPS: lambda profile: (
        profile.consumer_group is not None
        and profile.consumer_group.classic_share > 0
        and profile.consumer_group.is_alone
    ),
    SHARE_GROUPS: lambda profile: profile.share is not None and profile.share.is_alone,
    TRANSACTIONS_ALONE: lambda profile: profile.transactions is not None and profile.transactions.is_alone,
    COMPACTED_COORDINATORS: lambda profile: (
        profile.transactions is not None and profile.transactions.is_alone and profile.transactions.compacts
    ),
    TRANSACTED_OFFSETS: lambda profile: (
        profile.transactions is not None and any(one.commits_offsets for one in profile.transactions.ids)
    ),
    FLIPPED_BITS: lambda profile: FaultKind.FLIP in profile.fault_means_s,
    REPLACED_LEADERS: lambda profile: FaultKind.LONG_OSTRACISM in profile.fault_means_s,
    SECOND_VOTERS: lambda profile: FaultKind.VOTER_TWIN in profile.fault_means_s,
    SECOND_BROKERS: lambda profile: FaultKind.TWIN in profile.fault_means_s,
    MOVED_VOTERS: lambda profile: FaultKind.RELOCATE in profile.fault_means_s,
    MOVED_REPLICAS: lambda profile: (
        profile.moves_directories
        and profile.directory_moves_rate is None
        and profile.pause_between_batches_s < 1
        and any("flush.messages" in topic.configs for topic in profile.topics)
    ),
    REPLACED_DISKS: lambda profile: (
        profile.administrators
        and len(profile.layout.brokers) > 1
        and {FaultKind.NEW_DISK, FaultKind.STRAND} <= profile.fault_means_s.keys()
    ),
    FAILING_DIRECTORIES: lambda profile: (
        profile.has_more
        and profile.fault_means_s.get(FaultKind.IO_ERROR, inf) < OFTEN_S
        and len(profile.layout.brokers) > 1
    ),
    RECREATED_TOPICS: lambda profile: profile.administrators and continues_offsets(profile.seed),
    TRASHED_TOPICS: lambda profile: profile.administrators and restores_topics(profile.seed),
    TRASHED_NAMES: lambda profile: (
        profile.administrators and continues_offsets(profile.seed) and restores_topics(profile.seed)
    ),
    TRASHED_DIRECTORIES: lambda profile: (
        profile.administrators
        and profile.has_more
        and FaultKind.LOG_DIR_AWAY in profile.fault_means_s
        and restores_topics(profile.seed)
    ),
    TRASHED_TRANSACTIONS: lambda profile: (
        profile.administrators
        and profile.transactions is not None
        and not profile.asks_offsets
        and restores_topics(profile.seed)
    ),
    MOVING_LOG_STARTS: lambda profile: profile.log_starts is not None,
    HELD_RECORDS: lambda profile: "retention.hold.groups" in profile.topics[0].configs,
    COMPACTED_TOPICS: lambda profile: profile.compaction is not None,
    COMPACTED_TRANSACTIONS: lambda profile: (
        profile.transactions is not None
        and profile.transactions.is_alone
        and profile.transactions.compaction is not None
    ),
    BUSY_TRANSACTIONS: lambda profile: (
        profile.transactions is not None
        and not profile.transactions.is_alone
        and profile.transactions.compaction is not None
    ),
    ROTTEN_COPIES: lambda profile: (
        profile.fault_means_s.get(FaultKind.BIT_ROT, inf) < OFTEN_S
        and profile.latency_us[1] >= FAR_US
        and len(profile.layout.brokers) > 1
    ),
    GUARDED_NODES: lambda profile: profile.is_guarded,
    GUARDED_TOPICS: lambda profile: profile.guards_topics,
    USERS: lambda profile: profile.has_users,
    TOKENS: lambda profile: profile.has_tokens,
    METERED_NODES: lambda profile: profile.has_quotas,
    # A node that is a controller, too, ends itself before it asks to be registered.
    UPGRADED_BROKERS: lambda profile: (
        profile.upgrade is not None and not set(profile.layout.brokers) <= set(profile.layout.controllers)
    ),
    DOUBTED_MARKERS: lambda profile: (
        not profile.believes_markers
        and FaultKind.OLD_DISK in profile.fault_means_s
        and copies_lost_allowed(profile.every_topic) > 0
    ),
    HELD_BACK_COPIES: lambda profile: profile.repairs is not None and profile.repairs.held_back_bytes_per_s is not None,
}
"""The kinds of runs of whole nodes: by name, a predicate that is true if a run is of the kind."""

PARTITION_KINDS: Final[Mapping[str, Callable[[PartitionProfile], bool]]] = {
    STRANDED_LEADERS: lambda profile: profile.strands > 0,
    LOST_TAILS: lambda profile: profile.loses_tails,
}
"""The same of the tier of one partition."""

KINDS: Final = (*NODES_KINDS, *PARTITION_KINDS)
"""The names of all."""


def is_of_kind(kind: str, seed: int, node_count: int | None = None) -> bool:
    """True if a seed's run, in the tier that has the kind, is of it; ``node_count`` overrules what the seed says of whole nodes."""
    if kind in PARTITION_KINDS:
        return PARTITION_KINDS[kind](PartitionProfile.of_seed(seed, Random(seed)))
    return NODES_KINDS[kind](Profile.draw(seed, node_count=node_count))


def seeds_of_kind(kind: str, first: int, node_count: int | None = None) -> Iterator[int]:
    """The seeds from ``first`` on whose runs, of so many nodes, are of a kind."""
    return (seed for seed in count(first) if is_of_kind(kind, seed, node_count))
