"""Bugs that show when more is lost than is promised to survive: what was left is given up too, or nobody is told."""

from typing import Final

from esp.simulation.tiers import PARTITION
from tests.mutants.mutant import BEYOND_PROMISE, Mutant

LOSS_MUTANTS: Final = (
    Mutant(
        "last-known-leader-before-the-eligible",
        "KIP-966 broken",
        "ELECT-1",
        "esp.controller.partition_change",
        "    if not clean and len(last_known) == 1 and is_acceptable(last_known[0]):\n",
        "    if len(last_known) == 1 and is_acceptable(last_known[0]):\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "loss-is-not-told",
        "ELECT-4 broken",
        "ELECT-4",
        "esp.broker.replication.roles",
        "            if state.recovering:\n",
        "            if state.recovering and state.leader < 0:\n",
        kind=BEYOND_PROMISE,
    ),
)
