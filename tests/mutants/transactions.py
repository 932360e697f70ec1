"""Bugs of what a log knows of its transactions."""

from typing import Final

from esp.simulation.tiers import LOG
from tests.mutants.mutant import TRANSACTED_OFFSETS, Mutant

TRANSACTION_MUTANTS: Final = (
    Mutant(
        "stable-offset-above-the-high-watermark",
        "KAFKA-9807",
        "LSO-1",
        "esp.storage.log",
        "        return max(unstable, self.log_start_offset)\n",
        "        return max(unstable, self.log_end_offset)\n",
        tiers=(LOG,),
    ),
    Mutant(
        "stable-offset-below-the-log-start",
        "LSO-1 broken",
        "LSO-1",
        "esp.storage.log",
        "        return max(unstable, self.log_start_offset)\n",
        "        return unstable\n",
        tiers=(LOG,),
    ),
    Mutant(
        "marker-counts-before-it-is-committed",
        "KAFKA-9807 class",
        "LSO-1",
        "esp.storage.producer_state",
        "        while completed and completed[0][1] < high_watermark:\n",
        "        while completed and completed[0][1] <= high_watermark:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "later-transaction-hides-an-older-one",
        "LSO-1 broken",
        "LSO-1",
        "esp.storage.producer_state",
        "        while completed and completed[-1][0] > first_offset:\n",
        "        while completed:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "open-transactions-are-not-in-the-snapshot",
        "KAFKA-9892 class",
        "PROD-7",
        "esp.storage.producer_state",
        "        states.has_transactions = bool(states._open)\n",
        "        states._open = {}\n",
        tiers=(LOG,),
    ),
    Mutant(
        "uncommitted-marker-is-forgotten-at-a-start",
        "LSO-1 broken",
        "LSO-1",
        "esp.storage.producer_snapshots",
        "    before = min(high_watermark, unindexed_from)\n",
        "    before = unindexed_from\n",
        tiers=(LOG,),
    ),
    Mutant(
        "marker-leaves-no-coordinator-epoch",
        "TXN-7 broken",
        "PROD-7",
        "esp.storage.producer_state",
        "            state.coordinator_epoch = marker.coordinator_epoch\n",
        "            pass\n",
        tiers=(LOG,),
    ),
    Mutant(
        "aborts-are-not-indexed-after-a-crash",
        "LSO-2 broken",
        "LSO-2",
        "esp.storage.recovery",
        "            self.unindexed_from = min(self.unindexed_from, segment.base_offset)\n",
        "",
        tiers=(LOG,),
    ),
    Mutant(
        "aborts-stay-where-their-markers-were-cut",
        "LSO-2 broken",
        "TRUNC-6",
        "esp.storage.segment_files",
        "            segment.aborted.truncate_to(place.end_offset)\n",
        "            pass\n",
        tiers=(LOG,),
    ),
    Mutant(
        "search-for-aborts-ends-with-the-segment",
        "LSO-2 broken",
        "LSO-2",
        "esp.storage.aborted_transactions",
        "            if is_behind and oldest_open is not None and oldest_open >= end_offset:\n",
        "            if is_behind:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "aborts-of-the-last-batches-only",
        "KAFKA-5376 class",
        "LSO-2",
        "esp.storage.transaction_index",
        "            if first_offset < end_offset:\n",
        "            if start_offset <= first_offset < end_offset:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "rotten-transaction-index-is-believed",
        "REC-4 broken",
        "REC-4",
        "esp.storage.transaction_proof",
        "        if file_index is not None and self._checksum == file_index.checksum():\n",
        "        if file_index is not None:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "offsets-of-an-aborted-transaction-count",
        "TXN-10 broken",
        "TXN-10",
        "esp.groups.offset_store",
        "            if is_commit:\n                self.apply(changes, order)\n",
        "            if changes:\n                self.apply(changes, order)\n",
        kind=TRANSACTED_OFFSETS,
    ),
    Mutant(
        "pending-offsets-are-not-told-to-be-unstable",
        "KIP-447 broken",
        "TXN-10",
        "esp.groups.offset_requests",
        "                if partition in unstable\n",
        "                if partition in ()\n",
        kind=TRANSACTED_OFFSETS,
    ),
    Mutant(
        "pending-offsets-are-lost-when-groups-are-loaded",
        "TXN-10 broken",
        "TXN-10",
        "esp.groups.coordinator",
        "            self._state.offsets.begin_transactional(producer_id, tuple(changes))\n",
        "            pass\n",
        kind=TRANSACTED_OFFSETS,
    ),
    Mutant(
        "marker-takes-effect-after-its-answer",
        "KAFKA-17507",
        "TXN-10",
        "esp.broker.groups.driver",
        """        token = core.on_marker_appended()
        self._note_appended(
            next_offset,
            lambda now: core.on_marker_committed(token, marker.producer_id, now, is_commit=marker.is_commit),
        )
""",
        """        is_commit = marker.is_commit

        def end() -> None:
            if self._leads():
                token = core.on_marker_appended()
                self._work(core.on_marker_committed(token, marker.producer_id, self.now(), is_commit=is_commit))

        loop = asyncio.get_running_loop()
        self._note_appended(next_offset, lambda now: (loop.call_later(0.1, end), ())[1])
""",
        kind=TRANSACTED_OFFSETS,
    ),
    Mutant(
        "pending-offset-outlives-a-later-one",
        "redpanda#31483",
        "TXN-10",
        "esp.groups.offset_store",
        "            self.transactional.supersede(change, order)\n",
        "",
        kind=TRANSACTED_OFFSETS,
    ),
    Mutant(
        "producer-with-an-open-transaction-is-forgotten",
        "KAFKA-7190",
        "PROD-8",
        "esp.storage.producer_state",
        "            if state.transaction_first_offset < 0 and now_ms - state.last_timestamp >= expiration_ms\n",
        "            if now_ms - state.last_timestamp >= expiration_ms\n",
        tiers=(LOG,),
    ),
    Mutant(
        "markers-do-not-keep-a-producer",
        "KAFKA-9144",
        "PROD-8",
        "esp.storage.producer_state",
        "        state.last_timestamp = max_timestamp\n",
        "        state.last_timestamp = state.last_timestamp if attributes & CONTROL_BIT else max_timestamp\n",
        tiers=(LOG,),
    ),
    Mutant(
        "sequences-do-not-begin-again",
        "KAFKA-7692",
        "PROD-3",
        "esp.storage.producer_state",
        "                expected = (batches[-1][1] + 1) & _SEQUENCE_MASK\n",
        "                expected = batches[-1][1] + 1\n",
        tiers=(LOG,),
    ),
)
