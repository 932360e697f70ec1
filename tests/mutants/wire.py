"""Bugs of those who take records from the network: what came is believed to be what was sent."""

from typing import Final

from tests.mutants.mutant import FLIPPED_BITS, Mutant

WIRE_MUTANTS: Final = (
    Mutant(
        "produced-bytes-are-believed",
        "LOG-6 broken",
        "LOG-6",
        "esp.replication.produced_batch",
        "    if crc32c(batch[ATTRIBUTES_OFFSET:]) != crc:\n",
        "    if not crc32c(batch[ATTRIBUTES_OFFSET:]) and crc:\n",
        kind=FLIPPED_BITS,
    ),
    Mutant(
        "fetched-bytes-are-believed",
        "LOG-6 broken",
        "LOG-6",
        "esp.replication.partition_follower",
        "        check_batch(batch, header)\n",
        "",
    ),
    Mutant(
        "fetched-metadata-is-believed",
        "RAFT-17 broken",
        "RAFT-17",
        "esp.raft.following",
        "                check_batch(batch, header)\n",
        "",
        kind=FLIPPED_BITS,
    ),
)
