"""The excuses of the checks: cases in which one of them does not ask what it asks else.

Each has a name, by which ``run`` counts it, and a row in docs/SIMULATION.md with its reason. Most are figures of the outcome of their own,
which their checkers keep; the others are noted here at the very place at which the check is skipped, once for each time that it is. To
note one draws nothing and reads no clock, so that it changes nothing of a run.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final


class Excuse(StrEnum):
    """The excuses that are noted, by name."""

    # Partitions and their leaders.
    LOSSY_CANDIDATES = "lossy_candidates"
    RECKLESS_ELECTIONS = "reckless_elections"
    LATE_ELECTIONS = "late_elections"
    SEVERAL_CHANGES = "several_changes"
    UNCLEAN_ELECTIONS = "unclean_elections"
    EMPTY_LAST_LEADERS = "empty_last_leaders"
    SUPERSEDED_STATES = "superseded_states"
    DELETED_TOPICS = "deleted_topics"
    LOST_LAST_COPIES = "lost_last_copies"
    STRANDED_OUTSIDE = "stranded_outside"
    # Offsets that readers are told.
    FORGOTTEN_EPOCHS = "forgotten_epochs"
    ANSWERS_OF_DELETED = "answers_of_deleted"
    # What comes back from a disk.
    UNFINISHED_CUTS = "unfinished_cuts"
    ROTTEN_TAILS = "rotten_tails"
    REFUSED_TWINS = "refused_twins"
    UNPURGED_TRASH = "unpurged_trash"
    # Processes and their registrations.
    UNFINISHED_STEPS = "unfinished_steps"
    FAULTY_DISKS = "faulty_disks"
    OUTDATED_RELEASES = "outdated_releases"
    UNHEARD_REGISTRATIONS = "unheard_registrations"
    ENDED_CONNECTIONS = "ended_connections"
    # Compaction and log starts.
    LEAPT_CLOCKS = "leapt_clocks"
    ROTTEN_REPLICAS = "rotten_replicas"
    OFFLINE_REPLICAS = "offline_replicas"
    OFFLINE_LOG_STARTS = "offline_log_starts"
    # Groups.
    REPLACED_COORDINATORS = "replaced_coordinators"
    BARE_GENERATIONS = "bare_generations"
    UNHELD_COMMITS = "unheld_commits"
    UNCOUNTED_MOVES = "uncounted_moves"
    POSSIBLE_DELETIONS = "possible_deletions"
    DELETED_GROUPS = "deleted_groups"
    LOST_COORDINATORS = "lost_coordinators"
    # Repairs and throttles.
    EARLY_REPAIRS = "early_repairs"
    ASKED_MOVES = "asked_moves"
    EARLIER_FETCHES = "earlier_fetches"
    # Changes that may have been made or not, and answers that no state of a node is known for.
    UNANSWERED_RULES = "unanswered_rules"
    UNANSWERED_USERS = "unanswered_users"
    UNANSWERED_TOKENS = "unanswered_tokens"
    UNANSWERED_QUOTAS = "unanswered_quotas"
    EXPIRED_BY_JUMPS = "expired_by_jumps"
    UNJUDGED_ENVELOPES = "unjudged_envelopes"
    UNJUDGED_REQUESTS = "unjudged_requests"
    UNJUDGED_GRANTS = "unjudged_grants"
    # The fast tiers.
    LEAVERS_COMMITS = "leavers_commits"
    RESTORED_CUTS = "restored_cuts"
    CLEANED_BEGINS = "cleaned_begins"
    UNKNOWN_SEQUENCES = "unknown_sequences"


FIGURES: Final = (
    *("excused_partitions", "waiting_partitions", "forgotten_producers", "retired_batches"),
    *("poisoned_nodes", "repairs", "given_up_starts"),
    *(
        "fallen_log_starts",
        "forgotten_log_starts",
        "successors_log_starts",
        "copies_found",
        "half_cuts",
        "late_fetches",
    ),
    *("excused_folds", "emptied_replicas"),
    *("told_unplaced", "told_stale", "told_lower_starts", "told_unknown_newest"),
    *("excused_groups", "outdated_assignments", "unwitnessed_ends", "expired_answers", "unwitnessed_expiries"),
    *("replaced_share_leaders",),
    *("unverified_batches", "unjudged_transactions", "one_turn_completions", "late_begins", "unknown_begins"),
    *("compacted_begins", "rotten_markers", "unjudged_refusals", "left_behind_leaders", "held_ends"),
    *("unjudged_accesses", "excused_reads"),
)
"""The excuses that are figures of :class:`esp.simulation.outcome.Outcome`."""

_TALLIES: Final[list[Counter[str]]] = []
"""The tally of the run that is under way; of the runs of a process one is, at any time."""


@contextmanager
def tallied() -> Iterator[Counter[str]]:
    """Count what is noted until the block ends."""
    tally: Counter[str] = Counter()
    _TALLIES.append(tally)
    try:
        yield tally
    finally:
        _TALLIES.remove(tally)


def note(excuse: Excuse) -> None:
    """A check does not ask now what it asks else; outside of a run that counts for nothing."""
    if _TALLIES:
        _TALLIES[-1][excuse] += 1


def lines_of(tally: Counter[str]) -> Iterator[str]:
    """The noted excuses of many runs, for the summary."""
    if tally:
        yield f"excuses, once for each look      {tally.total():>12,}"
        for name, times in sorted(tally.items()):
            yield f"  {name:<31}{times:>12,}"
