"""Bugs of leaders: the high watermark and the in-sync set."""

from typing import Final

from esp.simulation.tiers import PARTITION
from tests.mutants.mutant import LOST_TAILS, Mutant

REPLICATION_MUTANTS: Final = (
    Mutant(
        "high-watermark-above-the-end",
        "HW-7 broken",
        "HW-7",
        "esp.replication.partition_follower",
        "        committed = min(answer.high_watermark, log.log_end_offset)\n",
        "        committed = answer.high_watermark\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "high-watermark-falls",
        "HW-5 broken",
        "HW-5",
        "esp.replication.partition_leader",
        "        if committed <= log.high_watermark or not self._may_commit:\n",
        "        if committed == log.high_watermark or committed < 0 or not self._may_commit:\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "commit-below-minimum",
        "KAFKA-15583",
        "HW-2",
        "esp.replication.partition_leader",
        "        if committed <= log.high_watermark or not self._may_commit:\n",
        "        if committed <= log.high_watermark:\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "followers-do-not-count",
        "HW-4 broken",
        "HW-4",
        "esp.replication.partition_leader",
        """        if self._followers_end < committed:
            committed = self._followers_end
""",
        "",
        tiers=(PARTITION,),
    ),
    Mutant(
        "leader-counts-what-is-not-flushed",
        "SYNC-4 broken",
        "SYNC-4",
        "esp.replication.partition_leader",
        "        committed = log.recovery_point if log.settings.flush_messages == 1 else log.log_end_offset\n",
        "        committed = log.log_end_offset\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "follower-fetches-before-the-flush",
        "SYNC-4 broken",
        "SYNC-4",
        "esp.replication.partition_follower",
        "        return log.settings.flush_messages == 1 and log.recovery_point < log.log_end_offset\n",
        "        return log.settings.flush_messages < 0\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "answer-is-not-counted",
        "KAFKA-13091 class",
        "HW-2",
        "esp.replication.partition_leader",
        """        self._isr_changes.on_answer(change, answer)
        return self._recount(now_us)
""",
        """        self._isr_changes.on_answer(change, answer)
        return False
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "join-before-the-epochs-start",
        "KAFKA-7128",
        "ISR-4",
        "esp.replication.partition_leader",
        "            and follower.log_end_offset >= self.epoch_start_offset\n",
        "",
        tiers=(PARTITION,),
        kind=LOST_TAILS,
    ),
    Mutant(
        "join-below-the-high-watermark",
        "ISR-4 broken",
        "ISR-4",
        "esp.replication.partition_leader",
        "            and follower.log_end_offset >= self.log.high_watermark\n",
        "",
        tiers=(PARTITION,),
    ),
    Mutant(
        "pending-shrink-is-done",
        "KAFKA-8836, KIP-497",
        "HW-3",
        "esp.replication.isr_changes",
        """        if self.pending is not None:
            members |= frozenset(self.pending.isr)
""",
        """        if self.pending is not None:
            members = frozenset(self.pending.isr)
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "pending-expand-does-not-count",
        "KAFKA-8836, KIP-497",
        "HW-3",
        "esp.replication.isr_changes",
        "            members |= frozenset(self.pending.isr)\n",
        "            members |= frozenset()\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "metadata-leaves-the-change-pending",
        "KAFKA-12751",
        "ISR-9",
        "esp.replication.isr_changes",
        """        if is_newer:
            self._settle()
        else:
            self._count()
""",
        "        self._count()\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "lost-change-is-rolled-back",
        "KIP-497",
        "ISR-9",
        "esp.replication.isr_changes",
        """        self._move(verdict)
        if verdict is Event.REFUSED:
""",
        """        if verdict is Event.LOST:
            self._move(Event.REFUSED)
            self.pending = None
            self._count()
            return
        self._move(verdict)
        if verdict is Event.REFUSED:
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "open-change-is-rolled-back",
        "KAFKA-12686",
        "ISR-9",
        "esp.replication.isr_changes",
        """        self._move(verdict)
        if verdict is Event.REFUSED:
""",
        """        if verdict is Event.FATE_UNKNOWN:
            self._move(Event.REFUSED)
            self.pending = None
            self._count()
            return
        self._move(verdict)
        if verdict is Event.REFUSED:
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "refused-expansion-is-forgotten",
        "KAFKA-12686 class",
        "ISR-10",
        "esp.replication.isr_changes",
        "            if change.kind is ChangeKind.EXPAND:\n",
        "            if change.kind is None:\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "broker-epochs-are-not-told",
        "KIP-903",
        "ISR-4",
        "esp.replication.partition_leader",
        "        members = tuple((node, self._broker_epoch(node, own_broker_epoch)) for node in isr)\n",
        "        members = tuple((node, -1) for node in isr)\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "fetch-of-the-old-incarnation",
        "KAFKA-15221",
        "ISR-5",
        "esp.replication.partition_leader",
        "        if broker_epoch < follower.broker_epoch:\n",
        "        if broker_epoch < -1:\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "leader-of-an-old-epoch-serves",
        "UNKNOWN_LEADER_EPOCH",
        "TRUNC-3",
        "esp.replication.fetch_check",
        "    if asked > current:\n",
        "    if asked < 0:\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "nobody-leaves-the-sync-set",
        "ISR-3 broken",
        "ISR-3",
        "esp.replication.partition_leader",
        "            if len(in_sync) < len(isr):\n",
        "            if not isr:\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "joining-replica-is-not-waited-for",
        "HW-4 broken",
        "HW-4",
        "esp.replication.partition_leader",
        "                node in maximal_isr or self._is_about_to_join(",
        "                node in maximal_isr or now_us < 0 and self._is_about_to_join(",
        tiers=(PARTITION,),
    ),
    Mutant(
        "high-watermark-waits-for-a-fetch",
        "KAFKA-13091",
        "HW-6",
        "esp.replication.partition_leader",
        """        self._isr_changes.on_answer(change, answer)
        return self._recount(now_us)
""",
        """        self._isr_changes.on_answer(change, answer)
        self._may_commit = len(self.state.isr) >= self._min_isr
        return False
""",
        tiers=(PARTITION,),
    ),
)
