"""Bugs of the controller: who may be in sync, who may lead, and what a broker that comes back may keep."""

from typing import Final

from esp.simulation.tiers import PARTITION
from tests.mutants.mutant import Mutant

CONTROLLER_MUTANTS: Final = (
    Mutant(
        "transactions-go-on-after-the-epoch",
        "BRK-6 broken",
        "BRK-6",
        "esp.broker.controller.proposals",
        "            self.require_active()\n            self._metadata.propose",
        "            self._metadata.propose",
        is_gap=True,
        covered_by="tests/unit/broker/controller/test_driver.py::"
        "test_a_controller_that_loses_the_epoch_between_two_batches_of_a_decision_goes_on_as_any_other",
    ),
    Mutant(
        "fenced-without-a-last-look",
        "BRK-6 broken",
        "BRK-6, ISR-7",
        "esp.controller.sliced_changes",
        "            if is_whole or changes:\n                return changes, is_whole\n",
        "            return changes, True\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "first-slice-is-all",
        "BRK-6 broken",
        "BRK-6",
        "esp.broker.controller.slices",
        "        if decision.rest is None:\n            on_reply(decision.reply)\n            return None\n",
        "        if decision:\n            on_reply(decision.reply)\n            return None\n",
        is_gap=True,
        covered_by="tests/unit/broker/controller/test_driver.py::"
        "test_other_decisions_are_made_and_answered_between_the_slices_of_a_fencing",
    ),
    Mutant(
        "slices-go-on-in-the-next-epoch",
        "BRK-6 broken",
        "BRK-6",
        "esp.broker.controller.slices",
        "                if self._has_ended:\n",
        "                if self._has_ended and not self._proposals:\n",
        is_gap=True,
        covered_by="tests/unit/broker/controller/test_driver.py::"
        "test_slices_of_an_earlier_epoch_are_not_decided_in_the_next_one",
    ),
    Mutant(
        "shutdown-is-told-before-its-last-slice",
        "BRK-7 broken",
        "BRK-7",
        "esp.broker.controller.driver",
        "UNDECIDED_SHUTDOWN if has_rest else self._proposals.next_offset - 1",
        "self._proposals.next_offset - 1",
        is_gap=True,
        covered_by="tests/unit/broker/controller/test_driver.py::"
        "test_a_leader_of_many_may_stop_when_all_others_have_read_the_last_slice",
    ),
    Mutant(
        "elections-that-were-cut-are-forgotten",
        "BRK-6 broken",
        "BRK-6",
        "esp.broker.controller.term",
        "        self._begin(lambda image: decide_leaderless(",
        "        _ = (lambda image: decide_leaderless(",
        is_gap=True,
        covered_by="tests/unit/broker/controller/test_driver.py::"
        "test_a_new_controller_elects_leaders_where_the_last_one_was_cut_short",
    ),
    Mutant(
        "no-eligible-replicas",
        "KIP-966",
        "ELR-1",
        "esp.controller.partition_change",
        "    eligible = {*state.elr, *state.isr}.difference(isr) - {unclean_shutdown}\n",
        "    eligible = {*state.elr}.intersection(())\n",
    ),
    Mutant(
        "eligible-after-unclean-shutdown",
        "KAFKA-18635, KAFKA-15586",
        "BRK-2",
        "esp.controller.partition_change",
        ".difference(isr) - {unclean_shutdown}\n",
        ".difference(isr)\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "restarted-broker-stays-in-sync",
        "BRK-2 broken",
        "BRK-2",
        "esp.controller.brokers",
        """    if existing is not None:
        changes, is_complete =""",
        """    if existing is not None and existing.fenced:
        changes, is_complete =""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "every-shutdown-is-clean",
        "KAFKA-15586",
        "BRK-2",
        "esp.controller.brokers",
        "        is_clean = registration.previous_broker_epoch == image.brokers[node_id].epoch\n",
        "        is_clean = registration.previous_broker_epoch <= image.brokers[node_id].epoch\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "fenced-broker-joins",
        "KAFKA-13916, KIP-841",
        "ISR-7",
        "esp.controller.alter_partition",
        "    elif broker.fenced:\n",
        "    elif broker.fenced and not broker:\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "broker-epoch-is-not-compared",
        "KIP-903",
        "ISR-7",
        "esp.controller.alter_partition",
        "    elif epoch not in (UNCHECKED_EPOCH, broker.epoch):\n",
        "    elif epoch < UNCHECKED_EPOCH:\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "last-known-leader-may-be-fenced",
        "KAFKA-19522",
        "BRK-8",
        "esp.controller.partition_change",
        "    if not clean and len(last_known) == 1 and is_acceptable(last_known[0]):\n",
        "    if not clean and len(last_known) == 1:\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "partition-epoch-is-not-compared",
        "KIP-497",
        "ISR-7",
        "esp.controller.alter_partition",
        "    if change.partition_epoch < state.partition_epoch:\n",
        "    if change.partition_epoch < 0:\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "leader-epoch-stays",
        "KAFKA-15109",
        "ISR-8",
        "esp.controller.partition_change",
        "        leader_epoch=LeaderEpoch(state.leader_epoch + leads),\n",
        "        leader_epoch=LeaderEpoch(state.leader_epoch + (leads and change.leader == -1)),\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "election-outside-the-sync-set",
        "ELECT-1 broken",
        "ELECT-1",
        "esp.controller.partition_change",
        "        if node in clean and is_acceptable(node):\n",
        "        if is_acceptable(node):\n",
        tiers=(PARTITION,),
    ),
)
