"""Chooses the seeds of whole nodes in which what few runs do is done about as often as anything else.

A client that few runs have, or two of them in one run, would else be in two or three of sixty runs, and the functions that only they enter
in none.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.transaction_profile import TransactionProfile

SEEDS_LOOKED_AT: Final = 20
"""For each one that is chosen."""

_MOST_NODES: Final = 6
_OVERHEAD_S: Final = 30.0
"""The time of a run before and after its faults, about."""


def _transactions(profile: Profile, kind: Callable[[TransactionProfile], bool]) -> bool:
    return profile.transactions is not None and kind(profile.transactions)


def _is_replicated(profile: Profile) -> bool:
    return len(profile.layout.brokers) > 1


WORKLOADS: Final[Mapping[str, Callable[[Profile], bool]]] = {
    "lone nodes": lambda profile: profile.node_count == 1,
    "brokers apart from controllers": lambda profile: set(profile.layout.brokers).isdisjoint(
        profile.layout.controllers
    ),
    "surveyors of groups": lambda profile: profile.surveys and bool(profile.groups.groups),
    "surveyors of consumer groups": lambda profile: profile.surveys and profile.consumer_group is not None,
    "surveyors of transactions": lambda profile: profile.surveys and profile.transactions is not None,
    "surveyors of one broker with transactions": lambda profile: (
        profile.surveys and profile.transactions is not None and not _is_replicated(profile)
    ),
    "surveyors of moves between directories": lambda profile: profile.surveys and profile.moves_directories,
    "surveyors of reassignments": lambda profile: profile.surveys and profile.moves_partitions,
    "surveyors of nodes with quotas": lambda profile: profile.surveys and profile.has_quotas,
    "surveyors of nodes with an authorizer": lambda profile: profile.surveys and profile.is_guarded,
    "mistaken clients of compacted topics": lambda profile: profile.mistakes and profile.compaction is not None,
    "mistaken clients": lambda profile: profile.mistakes,
    "offsets in transactions": lambda profile: _transactions(
        profile, lambda found: any(one.commits_offsets for one in found.ids)
    ),
    "epochs that run out": lambda profile: _transactions(profile, lambda found: found.first_epoch > 0),
    "transactional ids that expire": lambda profile: _transactions(profile, lambda found: found.expires),
    "compacted coordinators": lambda profile: _transactions(profile, lambda found: found.compacts),
    "transactions in a compacted topic": lambda profile: _transactions(profile, lambda found: bool(found.compaction)),
    "idle producers": lambda profile: profile.checks_producers,
    "compacted topics": lambda profile: profile.compaction is not None,
    "offsets that expire": lambda profile: profile.groups.expiry is not None,
    "consumer groups": lambda profile: profile.consumer_group is not None,
    "consumer groups whose offsets expire": lambda profile: (
        profile.consumer_group is not None and profile.groups.expiry is not None
    ),
    "consumer groups that move between the protocols": lambda profile: (
        profile.consumer_group is not None and profile.consumer_group.classic_share > 0
    ),
    "share groups": lambda profile: profile.share is not None,
    "share groups with recesses": lambda profile: profile.share is not None and profile.share.recess_s is not None,
    "share groups with recesses that are kept": lambda profile: (
        profile.share is not None and profile.share.recess_s is not None and profile.share.keeps_recesses
    ),
    "share groups of topics that come and go": lambda profile: (
        profile.share is not None and profile.share.reads_passing
    ),
    "groups": lambda profile: bool(profile.groups.groups),
    "moves between directories": lambda profile: profile.moves_directories,
    "moves between directories that take time": lambda profile: profile.directory_moves_rate is not None,
    "moves between directories of replicas": lambda profile: profile.moves_directories and _is_replicated(profile),
    "reassignments": lambda profile: profile.moves_partitions,
    "throttled replication": lambda profile: profile.throttles and profile.moves_partitions,
    "repairs": lambda profile: profile.repairs is not None,
    "log starts that move": lambda profile: profile.log_starts is not None and _is_replicated(profile),
    "cold reads": lambda profile: profile.cools and _is_replicated(profile),
    "snapshots of metadata": lambda profile: profile.snapshots_metadata and _is_replicated(profile),
    "readers of followers": lambda profile: profile.asks_offsets and _is_replicated(profile),
    "changed minimums": lambda profile: profile.isr.changes_minimums,
    "late timers": lambda profile: FaultKind.LATE_TIMER in profile.fault_means_s,
    "upgrades": lambda profile: profile.upgrade is not None,
    "rules of access": lambda profile: profile.is_guarded,
    "rules of topics": lambda profile: profile.guards_topics,
    "users": lambda profile: profile.has_users,
    "tokens": lambda profile: profile.has_tokens,
    "quotas": lambda profile: profile.has_quotas,
    "losses beyond the promise": lambda profile: profile.breaks_promise,
    "lost files": lambda profile: FaultKind.LOST_FILES in profile.fault_means_s and _is_replicated(profile),
    "log directories that come back": lambda profile: FaultKind.LOG_DIR_AWAY in profile.fault_means_s,
    "rot": lambda profile: FaultKind.BIT_ROT in profile.fault_means_s and _is_replicated(profile),
    "errors of disks": lambda profile: {FaultKind.IO_ERROR, FaultKind.FULL_DISK} <= profile.fault_means_s.keys(),
    "other disks": lambda profile: FaultKind.NEW_DISK in profile.fault_means_s and _is_replicated(profile),
    "old disks": lambda profile: FaultKind.OLD_DISK in profile.fault_means_s and _is_replicated(profile),
    "second processes of brokers": lambda profile: FaultKind.TWIN in profile.fault_means_s,
    "second processes of voters": lambda profile: FaultKind.VOTER_TWIN in profile.fault_means_s,
    "voters that move": lambda profile: FaultKind.RELOCATE in profile.fault_means_s,
}
"""By what a run does or has; some functions wait for two in one run."""


def choose(seeds: int, first: int) -> list[int]:
    """So many seeds from ``first`` on, in order, in which each workload comes about equally often, and short runs more often than long."""
    profiles = {seed: Profile.draw(seed) for seed in range(first, first + SEEDS_LOOKED_AT * seeds)}
    kinds = {seed: [name for name, is_there in WORKLOADS.items() if is_there(profiles[seed])] for seed in profiles}
    done = Counter[str]()
    chosen: list[int] = []
    for _ in range(seeds):
        best = max(
            (seed for seed in profiles if seed not in chosen),
            key=lambda seed: sum(0.5 ** done[kind] for kind in kinds[seed]) / _cost(profiles[seed]),
        )
        chosen.append(best)
        done.update(kinds[best])
    return sorted(chosen)


def _cost(profile: Profile) -> float:
    """The cost of a run in comparison with others: virtual time, more of it for each node, and much more for an outage of minutes."""
    outage_s = 60.0 if profile.outage is not None else 0.0
    return (_OVERHEAD_S + profile.chaos_s + outage_s) * (_MOST_NODES + profile.node_count)
