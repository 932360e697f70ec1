"""Bugs of what producers are told."""

from typing import Final

from esp.simulation.tiers import PARTITION
from tests.mutants.mutant import Mutant

PRODUCE_MUTANTS: Final = (
    Mutant(
        "success-before-commit",
        "PRODUCE-2 broken",
        "PRODUCE-2",
        "esp.broker.data_path.delayed_produce",
        "            elif hosted.log.high_watermark < appended.next_offset:\n",
        "            elif hosted.log.log_end_offset < appended.next_offset:\n",
    ),
    Mutant(
        "unleashed-duplicate",
        "PRODUCE-7 broken",
        "PRODUCE-7",
        "esp.replication.partition_leader",
        "                return duplicate_of, duplicate_of + count, -1\n",
        "                return duplicate_of, min(log.high_watermark, duplicate_of + count), -1\n",
        tiers=(PARTITION,),
    ),
)
