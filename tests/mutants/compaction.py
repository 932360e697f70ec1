"""Bugs of compaction."""

from typing import Final

from esp.simulation.tiers import LOG
from tests.mutants.mutant import BUSY_TRANSACTIONS, COMPACTED_TOPICS, COMPACTED_TRANSACTIONS, Mutant

COMPACTION_MUTANTS: Final = (
    Mutant(
        "last-batch-of-producer-is-removed",
        "KAFKA-5490",
        "CLEAN-5",
        "esp.storage.compaction.fates",
        "        must_stay = is_first_of_epoch or is_end or is_last_of_producer\n",
        "        must_stay = is_first_of_epoch or is_end\n",
        tiers=(LOG,),
    ),
    Mutant(
        "last-batch-of-producer-is-looked-for-among-those-that-may-be-cut",
        "CLEAN-5 broken, as in Kafka",
        "CLEAN-5",
        "esp.storage.compaction.round",
        """        if len(ends) < BATCHES_KEPT and not are_all_known:
            return ANY_BATCH
        return min(sorted(ends)[-BATCHES_KEPT:], default=ANY_BATCH)
""",
        "        return max(known, default=ANY_BATCH)\n",
        tiers=(LOG,),
    ),
    Mutant(
        "last-batches-of-producer-are-those-of-the-dirty-part",
        "PROD-5 broken by compaction",
        "CLEAN-5",
        "esp.storage.compaction.round",
        "        if len(ends) < BATCHES_KEPT and not are_all_known:\n",
        "        if not ends and not are_all_known:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "log-start-is-not-written-with-what-is-clean",
        "CLEAN-2 broken, as in Kafka",
        "CLEAN-2",
        "esp.storage.log_directory",
        """        self._offsets.write_offsets_blocking()

    # --- moves""",
        """        self._offsets.write_recovery_points_blocking()
        self._offsets.write_cleaned_blocking()

    # --- moves""",
        tiers=(LOG,),
    ),
    Mutant(
        "last-batch-of-producer-alone-stays",
        "PROD-5 broken by compaction, as in Kafka",
        "CLEAN-5",
        "esp.storage.compaction.round",
        "        return min(sorted(ends)[-BATCHES_KEPT:], default=ANY_BATCH)\n",
        "        return max(ends, default=ANY_BATCH)\n",
        tiers=(LOG,),
    ),
    Mutant(
        "last-batch-of-round-is-removed",
        "KAFKA-17076",
        "CLEAN-5",
        "esp.storage.compaction.fates",
        "        must_stay = is_first_of_epoch or is_end or is_last_of_producer\n",
        "        must_stay = is_first_of_epoch or is_last_of_producer\n",
        tiers=(LOG,),
    ),
    Mutant(
        "first-batch-of-epoch-is-removed",
        "CLEAN-5 broken",
        "CLEAN-5",
        "esp.storage.compaction.fates",
        "        must_stay = is_first_of_epoch or is_end or is_last_of_producer\n",
        "        must_stay = is_end or is_last_of_producer\n",
        tiers=(LOG,),
    ),
    Mutant(
        "uncommitted-records-are-cleaned",
        "KAFKA-13194",
        "CLEAN-1",
        "esp.storage.compaction.cleaning",
        "        bound=min(log.last_stable_offset, log.recovery_point, log.sealed_end_offset),\n",
        "        bound=min(log.recovery_point, log.sealed_end_offset),\n",
        tiers=(LOG,),
    ),
    Mutant(
        "unflushed-records-are-cleaned",
        "CLEAN-1 broken",
        "CLEAN-1",
        "esp.storage.compaction.cleaning",
        "        bound=min(log.last_stable_offset, log.recovery_point, log.sealed_end_offset),\n",
        "        bound=min(log.last_stable_offset, log.sealed_end_offset),\n",
        tiers=(LOG,),
    ),
    Mutant(
        "tombstones-go-at-once",
        "KAFKA-4529",
        "CLEAN-2",
        "esp.storage.compaction.fates",
        "        return bool(header.attributes & DELETE_HORIZON_BIT) and header.base_timestamp <= self._now_ms\n",
        "        return header.max_timestamp <= self._now_ms\n",
        tiers=(LOG,),
    ),
    Mutant(
        "map-knows-hash-values-only",
        "Kafka's own map",
        "CLEAN-2",
        "esp.storage.compaction.key_set",
        "        new = set(found).difference(self._keys)\n",
        """        found = {key[:-1]: doubled for key, doubled in found.items()}
        new = set(found).difference(self._keys)
""",
        tiers=(LOG,),
    ),
    Mutant(
        "clean-part-is-taken-for-superseded",
        "CLEAN-2 broken",
        "CLEAN-2",
        "esp.storage.compaction.survivors",
        """        if header.last_offset < self._start_offset:
            return None
""",
        "",
        tiers=(LOG,),
    ),
    Mutant(
        "batches-beyond-the-map-are-cleaned",
        "KAFKA-13727",
        "CLEAN-2",
        "esp.storage.compaction.round",
        """                if header.base_offset < self.end_offset:  # the part ends with a whole batch, and has one at least
                    self.end_offset = header.base_offset if header.base_offset > start else header.next_offset
""",
        "",
        tiers=(LOG,),
    ),
    Mutant(
        "first-record-of-a-chunk-stays",
        "CLEAN-2 broken",
        "CLEAN-2",
        "esp.storage.compaction.round",
        "        for index, header in reversed(chunk.batches):\n",
        "        for index, header in chunk.batches:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "keys-of-a-pass-that-began-anew-are-kept",
        "CLEAN-2 broken",
        "CLEAN-2",
        "esp.storage.compaction.round",
        """            self._begin_learning()
            self.counts""",
        """            self._keys = KeySet(self._limits.map_bytes)
            self.counts""",
        tiers=(LOG,),
    ),
    Mutant(
        "compaction-launders-rot",
        "Kafka checks no checksum there",
        "CLEAN-6",
        "esp.storage.compaction.chunks",
        "        if crc32c(view[index + ATTRIBUTES_OFFSET : end]) != header.crc:\n",
        "        if crc32c(view[index + ATTRIBUTES_OFFSET : end]) < 0:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "rot-that-a-round-meets-is-not-repaired",
        "REC-4 broken",
        "CLEAN-6",
        "esp.broker.replication.cleaner",
        "            cleaning.log.note_rot(error)\n",
        "            pass\n",
        kind=COMPACTED_TOPICS,
        is_gap=True,
        covered_by="tests/unit/broker/replication/test_cleaner.py::"
        "test_a_replica_in_which_a_round_meets_rot_is_repaired_and_compacted_then",
    ),
    Mutant(
        "sources-go-before-the-swap-is-decided",
        "KAFKA-6264",
        "CLEAN-7",
        "esp.storage.segment_files",
        """            self.disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
        yield self.path
""",
        """            self.disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
""",
        tiers=(LOG,),
    ),
    Mutant(
        "swap-ends-before-its-sources-are-gone",
        "CLEAN-7 broken",
        "CLEAN-7",
        "esp.storage.segment_files",
        """        self._put_aside(sources, due_ms, kept=snapshot)
        yield self.path
""",
        """        self._put_aside(sources, due_ms, kept=snapshot)
""",
        tiers=(LOG,),
    ),
    Mutant(
        "recovery-ends-a-swap-before-its-sources-are-gone",
        "CLEAN-7 broken",
        "CLEAN-7",
        "esp.storage.recovery",
        """    if swaps:
        # What""",
        """    if changed is None:
        # What""",
        tiers=(LOG,),
    ),
    Mutant(
        "cleaned-segment-is-not-synced",
        "CLEAN-7 broken",
        "CLEAN-7",
        "esp.storage.compaction.output",
        "        self._file.sync_blocking()\n",
        "",
        tiers=(LOG,),
    ),
    Mutant(
        "horizon-that-the-clock-was-set-back-from-is-past",
        "CLEAN-2 broken",
        "CLEAN-2",
        "esp.storage.compaction.fates",
        "        return bool(header.attributes & DELETE_HORIZON_BIT) and header.base_timestamp <= self._now_ms\n",
        """        is_ahead = self._now_ms < header.base_timestamp <= self._horizon_ms
        return bool(header.attributes & DELETE_HORIZON_BIT) and not is_ahead
""",
        tiers=(LOG,),
    ),
    Mutant(
        "tombstones-go-at-once-in-a-cluster",
        "KAFKA-4529",
        "CLEAN-2",
        "esp.storage.compaction.fates",
        "        return bool(header.attributes & DELETE_HORIZON_BIT) and header.base_timestamp <= self._now_ms\n",
        "        return True\n",
        kind=COMPACTED_TOPICS,
    ),
    Mutant(
        "markers-go-with-their-records-in-a-cluster",
        "CLEAN-3 broken",
        "CLEAN-3",
        "esp.storage.compaction.fates",
        "        if not had_records and self._is_past_horizon(header):\n",
        "        if True:\n",
        kind=COMPACTED_TRANSACTIONS,
    ),
    Mutant(
        "markers-go-without-a-horizon-in-a-cluster",
        "CLEAN-3 broken",
        "CLEAN-3",
        "esp.storage.compaction.fates",
        "        if not had_records and self._is_past_horizon(header):\n",
        "        if not had_records:\n",
        kind=COMPACTED_TRANSACTIONS,
    ),
    Mutant(
        "aborted-records-supersede-in-a-cluster",
        "CLEAN-2 broken",
        "CLEAN-2",
        "esp.storage.compaction.round",
        "        return not (header.is_transactional and self._aborted.has(header))\n",
        "        return True\n",
        kind=COMPACTED_TRANSACTIONS,
    ),
    Mutant(
        "transactions-are-forgotten-between-groups",
        "KAFKA-8351",
        "CLEAN-4",
        "esp.storage.compaction.round",
        """            output = CleanedSegment(self._disk, sources)
""",
        """            fates = self.fates()
            output = CleanedSegment(self._disk, sources)
""",
        tiers=(LOG,),
    ),
    Mutant(
        "records-that-stay-where-they-are-are-not-passed",
        "CLEAN-4 broken",
        "CLEAN-4",
        "esp.storage.compaction.round",
        """                left_alone = LeftAloneError("it was dropped meanwhile")
                continue
""",
        """                raise LeftAloneError("it was dropped meanwhile")
""",
        tiers=(LOG,),
    ),
    Mutant(
        "rest-of-a-half-cleaned-segment-loses-its-aborts",
        "KAFKA-13727",
        "CLEAN-3",
        "esp.storage.compaction.output",
        "            joined.entries += [entry for entry in index.entries if entry.last_offset >= end_offset]\n",
        "            pass\n",
        tiers=(LOG,),
    ),
    Mutant(
        "marker-is-superseded-by-the-next-one",
        "KAFKA-14055",
        "CLEAN-3",
        "esp.storage.compaction.fates",
        "        if not had_records and self._is_past_horizon(header):\n",
        "        if header.base_offset < last or (not had_records and self._is_past_horizon(header)):\n",
        tiers=(LOG,),
    ),
    Mutant(
        "transactions-are-not-rewound-with-their-batches",
        "KAFKA-20036",
        "CLEAN-4",
        "esp.storage.compaction.fates",
        "        had_records = self._passed.on_marker(header, marker)\n",
        """        self._passed.on_marker(header, marker)
        had_records = self._passed.on_marker(header, marker)
""",
        tiers=(LOG,),
    ),
    Mutant(
        "marker-goes-without-a-horizon",
        "CLEAN-3 broken",
        "CLEAN-3",
        "esp.storage.compaction.fates",
        "        if not had_records and self._is_past_horizon(header):\n",
        "        if not had_records:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "epoch-of-an-empty-marker-is-not-learned",
        "as in Kafka",
        "CLEAN-5",
        "esp.storage.producer_state",
        """        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(epoch)
""",
        """        state = self._states.get(producer_id)
        if attributes & CONTROL_BIT and not count:
            return None
        if state is None:
            state = self._states[producer_id] = ProducerState(epoch)
""",
        tiers=(LOG,),
    ),
    Mutant(
        "records-of-before-a-compaction-go-with-the-names-of-after-it",
        "LSO-2 broken",
        "LSO-2",
        "esp.broker.data_path.pending_fetch",
        "            if cuts == log.cuts:\n",
        "            if True:\n",
        kind=BUSY_TRANSACTIONS,
        is_gap=True,
        covered_by="tests/unit/broker/data_path/test_read_committed.py::"
        "test_what_is_compacted_while_the_aborted_are_searched_for_is_read_again",
    ),
    Mutant(
        "tombstones-stay-for-ever",
        "KAFKA-8522",
        "CLEAN-2",
        "esp.storage.compaction.fates",
        "            return choose_records(*opened, header, self._keys, surviving, drops_tombstones=drops_tombstones)\n",
        "            return choose_records(*opened, header, self._keys, surviving, drops_tombstones=False)\n",
        tiers=(LOG,),
    ),
)
