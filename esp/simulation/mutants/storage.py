"""Bugs of one node's storage: logs, recovery, producer state."""

from typing import Final

from esp.simulation.mutants.mutant import Mutant

STORAGE_MUTANTS: Final = (
    Mutant(
        "partial-write-stays",
        "KAFKA-10778",
        "LOG-13",
        "esp.storage.log",
        """            if file.size() != segment.size:
                file.truncate(segment.size)
""",
        """            file.size()
""",
        node_count=1,
    ),
    Mutant(
        "producer-state-before-write",
        "KAFKA-6683",
        "PRODUCE-5",
        "esp.storage.log",
        """        try:
            segment.append(batch, last_offset, max_timestamp)
""",
        """        try:
            if producer_id >= 0:
                self.producers.update(header)
            segment.append(batch, last_offset, max_timestamp)
""",
        node_count=1,
        is_gap=True,
    ),
    Mutant(
        "duplicate-is-appended",
        "PROD-5 broken",
        "PROD-5",
        "esp.storage.producer_state",
        "                            return batch.base_offset\n",
        "                            return None\n",
        node_count=1,
    ),
    Mutant(
        "duplicate-gets-the-next-offset",
        "PROD-5 broken",
        "PROD-5",
        "esp.storage.producer_state",
        "                            return batch.base_offset\n",
        "                            return batch.base_offset + 1\n",
        node_count=1,
    ),
    Mutant(
        "sequence-gap-is-taken",
        "PROD-3 broken",
        "PROD-3",
        "esp.storage.producer_state",
        """        if first != expected:
            raise ApiError(""",
        """        if first < expected:
            raise ApiError(""",
    ),
    Mutant(
        "recovery-skips-checksums",
        "REC-3 broken",
        "REC-3",
        "esp.storage.segment_recovery",
        "        if base_offset >= verify_from:\n",
        "        if base_offset < 0:\n",
        is_gap=True,
    ),
    Mutant(
        "recovery-leaves-torn-tail",
        "KAFKA-10101",
        "REC-3",
        "esp.storage.recovery",
        """        segment.file.truncate(segment.size)
        segment.file.sync_blocking()
""",
        """        segment.file.sync_blocking()
""",
    ),
    Mutant(
        "marker-outlives-the-start",
        "KAFKA-10471",
        "REC-1",
        "esp.storage.log_directory",
        """        self._disk.remove(marker)
        self._disk.sync_directory_blocking(self.path)
""",
        """        self._disk.sync_directory_blocking(self.path)
""",
    ),
    Mutant(
        "epochs-not-rebuilt",
        "KAFKA-10432",
        "LOG-10",
        "esp.storage.segment_recovery",
        "                    epochs.assign(epoch, header[0])\n",
        "                    pass\n",
    ),
    Mutant(
        "high-watermark-beyond-the-end",
        "REC-5 broken",
        "REC-5",
        "esp.storage.recovery",
        "max(log.log_start_offset, min(known.high_watermark, log.log_end_offset))",
        "max(log.log_start_offset, known.high_watermark)",
        is_gap=True,
    ),
    Mutant(
        "recovery-point-before-the-sync",
        "section 12 broken",
        "REC-3",
        "esp.storage.log",
        """        active_too = end_offset > self.recovery_point
        if (""",
        """        active_too = end_offset > self.recovery_point
        self.recovery_point = max(self.recovery_point, end_offset)
        if (""",
    ),
    Mutant(
        "failed-sync-is-tried-again",
        "SYNC-1 broken",
        "SYNC-1",
        "esp.storage.log",
        """                await sync(self._flushing(), self._disk)
            except OSError:
                self.is_offline = True
                raise
""",
        """                await sync(self._flushing(), self._disk)
            except OSError:
                self._segments.active.close()
""",
        is_gap=True,
    ),
    Mutant(
        "roll-leaves-names-unsynced",
        "section 12 broken",
        "REC-3",
        "esp.storage.unsynced",
        """            yield self._path
            self._names_synced = changed
        if cuts""",
        """            self._names_synced = changed
        if cuts""",
    ),
    Mutant(
        "sealed-segment-unsynced",
        "section 12 broken",
        "REC-3",
        "esp.storage.unsynced",
        """            yield segment.file
            for suffix""",
        """            for suffix""",
        is_gap=True,
    ),
    Mutant(
        "producers-not-loaded",
        "KAFKA-12520",
        "PROD-9",
        "esp.storage.producer_snapshots",
        """        if header.producer_id >= 0 and header.base_offset >= start:
            states.update(header)
""",
        """        if header.producer_id >= 0 and header.base_offset > start:
            states.update(header)
""",
    ),
)
