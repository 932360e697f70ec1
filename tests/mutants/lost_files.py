"""Bugs that show when logs and directories vanish while a node is down, or move between directories while it runs."""

from typing import Final

from esp.simulation.tiers import LOG
from tests.mutants.mutant import BEYOND_PROMISE, FAILING_DIRECTORIES, LOST_FILES, MOVED_REPLICAS, REPLACED_DISKS, Mutant

LOST_FILES_MUTANTS: Final = (
    Mutant(
        "gone-logs-are-not-told",
        "BRK-11 broken",
        "BRK-11",
        "esp.broker.broker_role",
        "        await replicas.tell_gone(self._replication, lambda: lifecycle.epoch)\n",
        "",
        kind=LOST_FILES,
    ),
    Mutant(
        "gone-replica-stays-eligible",
        "BRK-11 broken",
        "BRK-11",
        "esp.controller.partition_change",
        "min_isr, unclean_shutdown if gone is None else gone)",
        "min_isr, unclean_shutdown)",
        kind=LOST_FILES,
    ),
    Mutant(
        "holes-are-opened",
        "REC-11 broken",
        "REC-11",
        "esp.storage.recovery",
        "        if not self._may_have_gaps:\n",
        "        if self._may_have_gaps:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "move-flushes-before-the-last-records",
        "KIP-113 broken",
        "KIP-113",
        "esp.broker.replication.log_dir_move",
        """        async with self._host.directories_lock, self.hosted.busy:
            # If a leader was elected while the move waited for the locks, the metadata must have the new directory after all. No metadata
            # is applied while they are held. What came since the copy was found to be complete may be flushed already.
            if self._has_ended() or not self._is_confirmed() or not self._take_the_rest(source):
                return False
            async with self.busy:
                await self.copy.flush()
            start_offset = self.copy.log_start_offset
            await self._env.cpu.run(self.target.write_checkpoints_blocking)
            if self._has_ended() or not self._take_the_rest(source):
                return False
            if self.copy.log_start_offset != start_offset:  # records were deleted, which has to be durable (KIP-107)
                return False
            if self.copy.recovery_point < source.recovery_point:  # there was no room for its indexes or leader epochs
                return False
""",
        """        async with self.busy:
            await self.copy.flush()
        async with self._host.directories_lock, self.hosted.busy:
            if self._has_ended() or not self._is_confirmed():
                return False
            start_offset = self.copy.log_start_offset
            await self._env.cpu.run(self.target.write_checkpoints_blocking)
            if self._has_ended() or not self._take_the_rest(source):
                return False
            if self.copy.log_start_offset != start_offset:  # records were deleted, which has to be durable (KIP-107)
                return False
""",
        kind=MOVED_REPLICAS,
    ),
    Mutant(
        "offline-replica-is-elected",
        "KIP-858 broken",
        "ELECT-1",
        "esp.controller.partition_change",
        "    return directory in _KNOWN_TO_NOBODY or directory in broker.log_dirs\n",
        "    return True\n",
        kind=FAILING_DIRECTORIES,
    ),
    Mutant(
        "stopped-replica-is-not-told",
        "a bug of our own",
        "TRUNC-8",
        "esp.broker.replication.host",
        """        hosted.is_offline = True
        self._roles.give_up(hosted)
        self.tell_directory(hosted)

    def fail(""",
        """        hosted.is_offline = True
        self._roles.give_up(hosted)

    def fail(""",
        kind=BEYOND_PROMISE,
        is_gap=True,
        covered_by="tests/unit/broker/test_replication.py::test_the_controller_learns_of_a_replica_that_was_stopped",
    ),
    Mutant(
        "empty-log-on-a-new-disk-is-taken-for-offline",
        "BRK-11 broken",
        "BRK-11",
        "esp.broker.replication.host",
        "if is_needless or (candidates and (self._directories.is_online(known) or self._node_id in candidates)):",
        "if is_needless or candidates:",
        kind=REPLACED_DISKS,
        is_gap=True,
        covered_by="tests/unit/broker/test_replication.py::"
        "test_one_with_nothing_on_a_new_disk_says_so_though_another_replica_is_eligible",
    ),
)
