"""The tiers of the simulator, and one seed of each.

A tier is imported with its first run, and only what it needs: code that is changed as it is imported (mutants, notes of coverage) is
changed before that.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from esp.simulation.excuses import tallied

NODES: Final = "nodes"
"""The tier of whole nodes on a virtual-time loop."""

PARTITION: Final = "partition"
"""The tier of one partition's cores on a heap."""

QUORUM: Final = "quorum"
"""The tier of the metadata quorum's cores on a heap."""

LOG: Final = "log"
"""The tier of one log on a simulated disk."""

TIERS: Final = (NODES, PARTITION, QUORUM, LOG)

PATCH_ERRORS: Final = (NameError, TypeError, AttributeError, ImportError, SyntaxError)
"""The errors that a bad patch raises. A mutant that dies of these would be dead for the wrong reason, so they end its process."""

NO_CRASH: Final = "INV-NO-CRASH"
"""The invariant that an error of the product's own violates."""


class Found(NamedTuple):
    """The outcome of one seed; ``invariant`` and ``violation`` are None if all was well."""

    invariant: str | None
    violation: str | None
    cpu_s: float
    excuses: Mapping[str, int]
    """By name the number of times that checks did not ask what they ask else."""


def _run_nodes(seed: int, node_count: int | None) -> Found:
    from esp.simulation.seeds import run_seed  # noqa: PLC0415 - the fast tiers do without the whole product

    outcome = run_seed(seed, node_count=node_count)
    return Found(outcome.invariant, outcome.violation, outcome.cpu_s, outcome.excuses)


def _run_partition(seed: int, _node_count: int | None) -> Found:
    from esp.simulation.partition_tier.cluster import PartitionCluster  # noqa: PLC0415 - see above
    from esp.simulation.partition_tier.transacting import TransactingRun  # noqa: PLC0415 - see above

    def run() -> None:
        PartitionCluster(seed).run()
        TransactingRun(seed).run()

    return _run_cores(run)


def _run_quorum(seed: int, _node_count: int | None) -> Found:
    from esp.simulation.quorum_tier.cluster import QuorumCluster  # noqa: PLC0415 - see above

    return _run_cores(lambda: QuorumCluster(seed).run())


def _run_log(seed: int, _node_count: int | None, keep: Callable[[str], None] = lambda _line: None) -> Found:
    from esp.simulation.log_tier.compacted import CompactedLogRun  # noqa: PLC0415 - see above
    from esp.simulation.log_tier.run import LogRun  # noqa: PLC0415 - see above
    from esp.simulation.log_tier.transacted import TransactedLogRun  # noqa: PLC0415 - see above

    def run() -> None:
        LogRun(seed, keep).run()
        CompactedLogRun(seed, keep).run()
        TransactedLogRun(seed, keep).run()

    return _run_cores(run)


def _run_cores(run: Callable[[], None]) -> Found:
    before_s = time.process_time()
    invariant = violation = None
    excuses: Mapping[str, int] = {}
    try:
        with tallied() as excuses:
            run()
    except PATCH_ERRORS:
        raise
    except (
        Exception
    ) as error:  # an assertion of the product's own, or what it raises in a state that it takes for impossible
        violation = str(error)
        named = getattr(error, "invariant", None)
        invariant = str(named) if named else NO_CRASH
        if not named:
            violation = f"{NO_CRASH}: {type(error).__name__}: {error}"
    return Found(invariant, violation, time.process_time() - before_s, excuses)


RUNS: Final[Mapping[str, Callable[[int, int | None], Found]]] = {
    NODES: _run_nodes,
    PARTITION: _run_partition,
    QUORUM: _run_quorum,
    LOG: _run_log,
}


def replay(tier: str, seed: int, keep: Callable[[str], None]) -> Found:
    """Run one seed of a fast tier.

    Args:
        tier: one of :data:`TIERS`, but that of whole nodes.
        seed: which.
        keep: called with each line of the trace; only the tier of one log has one.
    """
    return _run_log(seed, None, keep) if tier == LOG else RUNS[tier](seed, None)
