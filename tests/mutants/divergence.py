"""Bugs of followers and of logs that part: truncation, epochs, late answers."""

from typing import Final

from esp.simulation.tiers import LOG, PARTITION
from tests.mutants.mutant import STRANDED_LEADERS, Mutant

DIVERGENCE_MUTANTS: Final = (
    Mutant(
        "fetch-ignores-divergence",
        "KIP-320, KIP-595",
        "TRUNC-3",
        "esp.replication.fetch_check",
        "        if epoch < last_fetched_epoch or epoch_end < fetch_offset:\n",
        "        if epoch_end < 0:\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "logs-are-not-compared-at-the-log-start",
        "TRUNC-3 broken, as in Kafka",
        "TRUNC-3",
        "esp.replication.partition_leader",
        """        offsets = check_position(self.log, fetch_offset, last_fetched_epoch)
        if fetch_offset == offsets.log_start_offset and last_fetched_epoch >= 0:
""",
        """        is_start = fetch_offset == self.log.log_start_offset
        offsets = check_position(self.log, fetch_offset, -1 if is_start else last_fetched_epoch)
        if False:
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "truncate-to-high-watermark",
        "KAFKA-1211, KIP-101",
        "TRUNC-1",
        "esp.replication.partition_follower",
        "        log.truncate_to(log.log_end_offset)\n",
        "        log.truncate_to(log.high_watermark)\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "begun-epoch-stays",
        "KAFKA-7415",
        "LOG-8",
        "esp.replication.partition_follower",
        "        log.truncate_to(log.log_end_offset)\n",
        "        pass\n",
        tiers=(PARTITION,),
        kind=STRANDED_LEADERS,
    ),
    Mutant(
        "one-round-of-truncation",
        "KAFKA-6361, KIP-279",
        "TRUNC-4",
        "esp.replication.partition_follower",
        "        return own_end  # the leader",
        "        return end_offset  # the leader",
        tiers=(PARTITION,),
    ),
    Mutant(
        "floor-epoch-is-not-told",
        "KAFKA-6361, KIP-279",
        "LOG-11",
        "esp.storage.leader_epochs",
        "        return (self._epochs[higher - 1] if higher else epoch), self._starts[higher]\n",
        "        return epoch, self._starts[higher]\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "last-fetched-epoch-lost",
        "KAFKA-15510",
        "TRUNC-2",
        "esp.replication.partition_follower",
        "UNDEFINED if epoch is None else epoch, log.log_start_offset)",
        "UNDEFINED, log.log_start_offset)",
        tiers=(PARTITION,),
    ),
    Mutant(
        "answers-of-old-epochs-are-taken",
        "KAFKA-7164, KAFKA-7786",
        "LOG-5",
        "esp.replication.partition_follower",
        "        return asked[:3] == self.position[:3]\n",
        "        return asked[1] == self.position[1]\n",
        tiers=(PARTITION,),
        kind=STRANDED_LEADERS,
    ),
    Mutant(
        "answers-for-old-offsets-are-taken",
        "KAFKA-13207",
        "LOG-5",
        "esp.replication.partition_follower",
        "        return asked[:3] == self.position[:3]\n",
        "        return asked[0] == self.position[0]\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "high-watermark-before-truncation",
        "KAFKA-14704",
        "TRUNC-4",
        "esp.replication.partition_follower",
        "        if answer.diverging_epoch != UNDEFINED:\n",
        """        self.log.high_watermark = max(self.log.high_watermark, min(answer.high_watermark, self.log.log_end_offset))
        if answer.diverging_epoch != UNDEFINED:
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "diverging-fetch-counts",
        "KAFKA-13141",
        "TRUNC-3",
        "esp.replication.partition_leader",
        "        if offsets.diverging_epoch < 0:\n",
        "        if fetch_offset <= offsets.log_end_offset:\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "diverging-answer-below-the-start",
        "KAFKA-12996",
        "TRUNC-3",
        "esp.replication.fetch_check",
        """    if fetch_offset < start_offset:
        raise _out_of_range(log, fetch_offset)
""",
        "",
        tiers=(PARTITION,),
    ),
    Mutant(
        "fetched-batches-unchecked",
        "KAFKA-18723",
        "LOG-6",
        "esp.replication.partition_follower",
        "        check_batch(batch, header)\n",
        "",
        tiers=(PARTITION,),
    ),
    Mutant(
        "no-log-begins-within-a-batch",
        "TRUNC-5 broken",
        "TRUNC-5",
        "esp.replication.partition_follower",
        "        log_is_empty=log.log_start_offset == log.log_end_offset,\n",
        "        log_is_empty=False,\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "log-start-falls-with-the-first-batch",
        "LOG-12 broken",
        "TRUNC-5",
        "esp.replication.partition_follower",
        "            log.high_watermark = high_watermark\n            log.raise_log_start(start_offset)\n",
        "",
        tiers=(LOG,),
    ),
    Mutant(
        "conflicting-epochs-stay",
        "KAFKA-16541 class",
        "LOG-9",
        "esp.storage.leader_epochs",
        "        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start))\n",
        "        keep = len(self._epochs)\n",
        tiers=(LOG,),
    ),
)
