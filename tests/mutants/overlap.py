"""Bugs of what threads do beside the loop: two of them, or one and the loop, at work on the same files."""

from typing import Final

from tests.mutants.mutant import Mutant

OVERLAP_MUTANTS: Final = (
    Mutant(
        "logs-are-opened-without-the-lock",
        "a bug of our own",
        "REC-6",
        "esp.broker.replication.host",
        """            async with self.directories_lock:
                has_more = await""",
        """            if has_more:
                has_more = await""",
        is_gap=True,
        covered_by="tests/unit/broker/replication/test_loading.py::"
        "test_the_metadata_log_is_cut_between_two_turns_of_the_loading_and_never_within_one",
    ),
    Mutant(
        "checkpoints-are-written-without-the-lock",
        "REC-6 broken",
        "REC-6",
        "esp.broker.replication.maintenance",
        """        async with self._replicas.directories_lock:
            for directory in self._online():
""",
        """        if self._directories:
            for directory in self._online():
""",
        is_gap=True,
        covered_by="tests/unit/broker/replication/test_maintenance.py::"
        "test_checkpoints_wait_for_other_work_on_the_directories",
    ),
)
