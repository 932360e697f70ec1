"""Bugs of what producers are told."""

from typing import Final

from esp.simulation.tiers import PARTITION
from tests.mutants.mutant import FLIPPED_BITS, Mutant

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
    Mutant(
        "later-batch-overtakes-a-refused-one",
        "PROD-11 broken",
        "PROD-11",
        "esp.replication.refused_batches",
        "            if _is_before(each, sequence):\n",
        "            if _is_before(each, sequence) and not self.by_partition:\n",
    ),
    Mutant(
        "later-batch-overtakes-a-corrupt-one",
        "PROD-11 broken",
        "PROD-11",
        "esp.replication.refused_batches",
        "missing = [expected] if _is_before(expected, sequence) else []",
        "missing = []",
        kind=FLIPPED_BITS,
    ),
)
