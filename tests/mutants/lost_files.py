"""Bugs that show when logs and directories vanish while a node is down."""

from typing import Final

from tests.mutants.mutant import Mutant

LOST_FILES_MUTANTS: Final = (
    Mutant(
        "gone-logs-are-not-told",
        "BRK-11 broken",
        "BRK-11",
        "esp.broker.broker_role",
        "        await replicas.tell_gone(self._replication, lambda: lifecycle.epoch)\n",
        "",
        first=70_025,
    ),
    Mutant(
        "gone-replica-stays-eligible",
        "BRK-11 broken",
        "BRK-11",
        "esp.controller.partition_change",
        "min_isr, unclean_shutdown if gone is None else gone)",
        "min_isr, unclean_shutdown)",
        first=70_011,
    ),
    Mutant(
        "holes-are-opened",
        "REC-11 broken",
        "REC-11",
        "esp.storage.recovery",
        "        if not self._may_have_gaps:\n",
        "        if self._may_have_gaps:\n",
        first=70_072,
    ),
)
