"""One bug as a patch."""

from typing import Final, NamedTuple

from esp.simulation.tiers import NODES

UNMUTATED: Final = "unmutated"
"""What stands for a mutant's name where the product is to run as it is."""

# Kinds of runs (see tests.mutants.kinds): of whole nodes, ...
BEYOND_PROMISE: Final = "beyond the promise"
LOST_FILES: Final = "lost files"
ASKED_OFFSETS: Final = "asked offsets"
EXPIRING_OFFSETS: Final = "expiring offsets"
DELETED_OFFSETS: Final = "deleted offsets"
CONSUMER_GROUPS: Final = "consumer groups"
MOVING_GROUPS: Final = "groups of two protocols"
SHARE_GROUPS: Final = "share groups"
TRANSACTIONS_ALONE: Final = "transactions alone"
COMPACTED_COORDINATORS: Final = "compacted coordinators"
TRANSACTED_OFFSETS: Final = "offsets in transactions"
FLIPPED_BITS: Final = "flipped bits"
REPLACED_LEADERS: Final = "replaced leaders"
SECOND_VOTERS: Final = "second voters"
SECOND_BROKERS: Final = "second brokers"
MOVED_VOTERS: Final = "moved voters"
MOVED_REPLICAS: Final = "moves of busy replicas"
REPLACED_DISKS: Final = "replaced disks"
FAILING_DIRECTORIES: Final = "failing directories"
MOVING_LOG_STARTS: Final = "moving log starts"
HELD_RECORDS: Final = "held records"
RECREATED_TOPICS: Final = "topics that go on"
TRASHED_TOPICS: Final = "topics in the trash"
TRASHED_TRANSACTIONS: Final = "transactions and the trash"
TRASHED_NAMES: Final = "topics that go on and the trash"
TRASHED_DIRECTORIES: Final = "directories and the trash"
COMPACTED_TOPICS: Final = "compacted topics"
COMPACTED_TRANSACTIONS: Final = "compacted transactions"
BUSY_TRANSACTIONS: Final = "compacted transactions among others"
ROTTEN_COPIES: Final = "rotten copies far away"
GUARDED_NODES: Final = "rules of access"
GUARDED_TOPICS: Final = "rules of topics"
USERS: Final = "users"
TOKENS: Final = "delegation tokens"
METERED_NODES: Final = "quotas of clients"
UPGRADED_BROKERS: Final = "upgraded brokers apart"
HELD_BACK_COPIES: Final = "held-back repairs"
DOUBTED_MARKERS: Final = "doubted markers"
# ... and of one partition.
STRANDED_LEADERS: Final = "stranded leaders"
LOST_TAILS: Final = "lost tails"


class Mutant(NamedTuple):
    """In ``module`` the one occurrence of ``text`` becomes ``replacement``.

    ``bug`` names what it puts back: a bug of Kafka's, or the rule that it breaks. ``node_count`` overrules the size of the seeds' clusters.
    """

    name: str
    bug: str
    rule: str
    module: str
    text: str
    replacement: str
    tiers: tuple[str, ...] = (NODES,)
    node_count: int | None = None
    equivalent: str = ""
    """Why nobody can see this bug, if that is so: it is not run then."""
    first: int = 1
    """The first seed that is run: another one where hundreds are needed until the situation comes about, and one is known."""
    kind: str = ""
    """Only the seeds whose runs are of this kind (:mod:`tests.mutants.kinds`) are run and counted; empty: all."""
    is_gap: bool = False
    """No run has been seen to catch it yet: it is run only if it is named."""
    catchers: tuple[str, ...] = ()
    """The invariants that count as having caught it; empty: any. A seed that violates another one is passed over."""
    covered_by: str = ""
    """The test that catches a gap, as pytest names it (``python -m tests.mutants.tested`` shows that), or the reason why none can."""
