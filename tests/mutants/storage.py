"""Bugs of one node's storage: logs, recovery, producer state."""

from typing import Final

from esp.simulation.tiers import LOG, NODES, PARTITION
from tests.mutants.mutant import MOVING_LOG_STARTS, Mutant

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
        tiers=(LOG,),
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
        tiers=(LOG,),
    ),
    Mutant(
        "duplicate-is-appended",
        "PROD-5 broken",
        "PROD-5",
        "esp.storage.producer_state",
        "                            return batch.base_offset\n",
        "                            return None\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "duplicate-gets-the-next-offset",
        "PROD-5 broken",
        "PROD-5",
        "esp.storage.producer_state",
        "                            return batch.base_offset\n",
        "                            return batch.base_offset + 1\n",
        tiers=(PARTITION,),
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
        "        is_verified = base_offset >= verify_from\n",
        "        is_verified = base_offset < 0\n",
        tiers=(LOG,),
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
        tiers=(LOG,),
    ),
    Mutant(
        "marker-outlives-the-start",
        "KAFKA-10471",
        "REC-1",
        "esp.storage.clean_marker",
        '                _logger.warning("%s cannot be read; the last stop counts as unclean: %s", self._path, error)\n'
        "            self._disk.remove(self._path)\n",
        '                _logger.warning("%s cannot be read; the last stop counts as unclean: %s", self._path, error)\n',
        tiers=(LOG,),
    ),
    Mutant(
        "epochs-not-rebuilt",
        "KAFKA-10432",
        "LOG-10",
        "esp.storage.segment_recovery",
        "                    epochs.assign(epoch, header[0])\n",
        "                    pass\n",
        tiers=(LOG,),
    ),
    Mutant(
        "high-watermark-beyond-the-end",
        "REC-5 broken",
        "REC-5",
        "esp.storage.recovery",
        "max(log.log_start_offset, min(known.high_watermark, log.log_end_offset))",
        "max(log.log_start_offset, known.high_watermark)",
        tiers=(LOG,),
    ),
    Mutant(
        "recovery-point-before-the-sync",
        "section 12 broken",
        "REC-3",
        "esp.storage.log",
        """            active_too = end_offset > self.recovery_point
            if (""",
        """            active_too = end_offset > self.recovery_point
            self.recovery_point = max(self.recovery_point, end_offset)
            if (""",
        tiers=(LOG,),
    ),
    Mutant(
        "flush-ends-at-a-cut",
        "SYNC-4 broken",
        "SYNC-4",
        "esp.storage.log",
        "            if cuts == self._unsynced.cuts:\n                return False\n",
        "            return cuts == self._unsynced.cuts\n",
        tiers=(LOG,),
    ),
    Mutant(
        "failed-sync-is-tried-again",
        "SYNC-1 broken",
        "SYNC-1",
        "esp.storage.log",
        """            return await sync(self._flushing(), self.files.disk)
        except OSError:
            self.take_offline()
            raise
""",
        """            return await sync(self._flushing(), self.files.disk)
        except OSError:
            self._segments.active.close()
            return False
""",
        tiers=(LOG,),
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
        tiers=(LOG,),
    ),
    Mutant(
        "front-of-the-log-unsynced",
        "section 12 broken",
        "REC-3",
        "esp.storage.unsynced",
        """        if self.has_names:
            self.sync_names_blocking()
""",
        "",
        tiers=(LOG,),
    ),
    Mutant(
        "failed-sync-of-names-is-tried-again",
        "SYNC-1 broken",
        "SYNC-1",
        "esp.storage.unsynced",
        "            self._failure = error\n            raise\n",
        "            raise\n",
        tiers=(LOG,),
    ),
    Mutant(
        "sealed-segment-unsynced",
        "section 12 broken",
        "REC-3",
        "esp.storage.unsynced",
        """            yield segment.file
            # A cut may""",
        """            # A cut may""",
        tiers=(LOG,),
    ),
    Mutant(
        "snapshots-that-a-power-loss-took-stay-away",
        "KAFKA-12520, before retention",
        "PROD-2",
        "esp.storage.producer_snapshots",
        "        if segment.base_offset > folded_to and not disk.exists(path):\n",
        "        if False:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "log-that-starts-over-loses-its-front-first",
        "REC-3 broken",
        "REC-7",
        "esp.storage.recovery",
        """        for segments in (others, [first]):
            self._remove(segments)
            self._disk.sync_directory_blocking(self._path)
""",
        """        self._remove([first, *others])
""",
        tiers=(LOG,),
    ),
    Mutant(
        "producers-not-loaded",
        "KAFKA-12520",
        "PROD-9",
        "esp.storage.producer_snapshots",
        "        if header.producer_id >= 0 and header.base_offset >= start:\n            marker = None\n",
        "        if header.producer_id >= 0 and header.base_offset > start:\n            marker = None\n",
        tiers=(LOG,),
    ),
    Mutant(
        "high-watermark-of-what-is-gone",
        "KAFKA-9491",
        "TRUNC-6",
        "esp.storage.log",
        "            self.log_start_offset = self.log_end_offset = self.high_watermark = self.recovery_point = offset\n",
        "            self.log_start_offset = self.log_end_offset = self.recovery_point = offset\n",
        tiers=(LOG,),
    ),
    Mutant(
        "retention-above-the-high-watermark",
        "KAFKA-5634",
        "LOG-12",
        "esp.storage.log",
        "            high_watermark=self.high_watermark,\n            hold=hold,\n",
        "            high_watermark=self.log_end_offset,\n            hold=hold,\n",
        tiers=(LOG,),
    ),
    Mutant(
        "retention-takes-young-segments",
        "LOG-12 broken",
        "LOG-12",
        "esp.storage.retention",
        "0 <= settings.retention_ms < now_ms - segment.largest_timestamp\n",
        "0 <= settings.retention_ms < now_ms - segment.largest_timestamp + 3_000\n",
        tiers=(NODES,),
        kind=MOVING_LOG_STARTS,
    ),
    Mutant(
        "deletion-is-not-durable",
        "section 12 broken",
        "LOG-12",
        "esp.broker.apis.delete_records",
        "        await write_log_starts(services.env.cpu, services.replicas, deletions.values())\n",
        "        pass\n",
        tiers=(NODES,),
        kind=MOVING_LOG_STARTS,
    ),
    Mutant(
        "producers-of-what-was-cut",
        "KAFKA-12153",
        "TRUNC-6",
        "esp.storage.log",
        "        self._install_producers_blocking(producers, LONG_MAX)\n",
        "        if not self.producers:\n            self._install_producers_blocking(producers, LONG_MAX)\n",
        tiers=(LOG,),
    ),
    Mutant(
        "snapshot-of-what-was-cut",
        "KAFKA-13098 class",
        "PROD-9",
        "esp.storage.log",
        "        remove_snapshots(files.disk, files.path, above=end_offset, below=self.first_segment_offset)\n",
        "",
        tiers=(LOG,),
    ),
    Mutant(
        "names-that-a-start-removed-come-back",
        "REC-3 broken",
        "REC-3",
        "esp.storage.recovery",
        "        if syncs_names:\n",
        "        if False:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "starts-that-died-are-not-told",
        "REC-3 broken",
        "REC-3",
        "esp.storage.clean_marker",
        "        return self._was_left or self._is_over\n",
        "        return False\n",
        tiers=(LOG,),
        is_gap=True,
        covered_by="tests/unit/storage/test_recovery.py::"
        "test_segments_that_a_killed_start_removed_do_not_come_back_beside_those_of_the_next_one",
    ),
    Mutant(
        "cut-at-the-log-start-forgets-producers",
        "TRUNC-6 broken, as in Kafka",
        "TRUNC-6",
        "esp.storage.log",
        "        if offset < self.log_start_offset:\n            self.truncate_fully_and_start_at(offset)\n",
        "        if offset <= self.log_start_offset:\n            self.truncate_fully_and_start_at(offset)\n",
        tiers=(LOG,),
    ),
    Mutant(
        "removed-marker-comes-back",
        "KAFKA-10471 class",
        "REC-1",
        "esp.storage.clean_marker",
        """            self._disk.remove(self._path)
        self._disk.sync_directory_blocking(self._directory)
""",
        """            self._disk.remove(self._path)
            self._disk.sync_directory_blocking(self._directory)
""",
        tiers=(LOG,),
    ),
    Mutant(
        "epochs-beyond-the-recovery-point",
        "KAFKA-16541 class",
        "LOG-10",
        "esp.storage.recovery",
        "        self.epochs.truncate_from_end(recovery_point)\n",
        "",
        tiers=(LOG,),
    ),
    Mutant(
        "epochs-that-change-meanwhile-are-not-written",
        "LOG-10 broken",
        "LOG-10",
        "esp.storage.unsynced",
        "        while (version := self._epochs.version) != self._epochs_saved:\n",
        "        if (version := self._epochs.version) != self._epochs_saved:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "segment-sealed-twice",
        "section 12 broken",
        "REC-3",
        "esp.storage.unsynced",
        "        self._segments = [entry for entry in self._segments if entry not in sealed]\n",
        """        done = [segment for _number, segment in sealed]
        self._segments = [entry for entry in self._segments if entry[1] not in done]
""",
        tiers=(LOG,),
    ),
)
