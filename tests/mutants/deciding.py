"""Bugs of transactions in a cluster: of coordinators, of the verification by partition leaders, and of markers on their way."""

from typing import Final

from esp.simulation.tiers import PARTITION
from tests.mutants.mutant import COMPACTED_COORDINATORS, TRANSACTIONS_ALONE, Mutant

DECIDING_MUTANTS: Final = (
    Mutant(
        "old-clients-are-not-verified",
        "KAFKA-12671, KAFKA-14402",
        "TXN-4",
        "esp.broker.transactions.verifier",
        "        if not adds and not self._is_enabled():\n",
        "        if not adds:\n",
        kind=TRANSACTIONS_ALONE,
    ),
    Mutant(
        "guard-is-not-compared-at-the-append",
        "KAFKA-14884",
        "TXN-4",
        "esp.replication.verification",
        "        if verification is None or verification.guard is not guard:\n",
        """        if verification is None:
            return
        if guard is None:
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "marker-leaves-the-guards",
        "KAFKA-14884",
        "TXN-4",
        "esp.replication.partition_leader",
        """        base_offset = self._append_marker(marker, now_ms)
        self._verifications.end(marker.producer_id)
""",
        """        base_offset = self._append_marker(marker, now_ms)
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "lowest-sequence-is-not-remembered",
        "KAFKA-14920",
        "TXN-5",
        "esp.replication.verification",
        "        elif _is_before(sequence, verification.lowest_sequence):\n",
        "        elif sequence:\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "partition-counts-as-added-while-the-last-transaction-ends",
        "KAFKA-18575",
        "TXN-4",
        "esp.broker.transactions.verifier",
        "                elif code is not ErrorCode.none:\n",
        "                elif code not in (ErrorCode.none, ErrorCode.concurrent_transactions):\n",
        kind=TRANSACTIONS_ALONE,
    ),
    Mutant(
        "pending-move-fails-the-verification",
        "KAFKA-14904",
        "TXN-4",
        "esp.transactions.adding",
        "        current = None if entry is None else entry.current\n",
        """        current = None if entry is None else entry.current
        if entry is not None and entry.pending is not None:
            return _same(request.partitions, ErrorCode.transaction_abortable)
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "first-answer-takes-all-markers-out-of-the-queue",
        "KAFKA-16352",
        "TXN-12",
        "esp.broker.transactions.marker_sender",
        "        if not work.left:\n",
        "        if outcomes:\n",
        kind=TRANSACTIONS_ALONE,
    ),
    Mutant(
        "first-marker-completes-the-transaction",
        "KAFKA-10080",
        "TXN-6",
        "esp.transactions.markers",
        "        decision.left.discard(partition)\n",
        "        decision.left.clear()\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "failed-completion-is-not-repeated",
        "KAFKA-9777",
        "TXN-12",
        "esp.transactions.markers",
        "            self._retry_us[entry.transactional_id] = now.monotonic_us + RETRY_US\n",
        "            pass\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "repeated-marker-is-refused",
        "KAFKA-19999",
        "TXN-7",
        "esp.replication.end_marker",
        "    must_be_higher = marker.transaction_version >= BUMPED_EPOCH_FROM and producer.transaction_first_offset >= 0\n",
        "    must_be_higher = marker.transaction_version >= BUMPED_EPOCH_FROM\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "fence-raises-the-epoch-twice",
        "KAFKA-19367",
        "TXN-2",
        "esp.transactions.ending",
        "            bumps_epoch=True,\n",
        "            bumps_epoch=2,\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "failed-append-raises-the-epoch",
        "KAFKA-9666",
        "TXN-1",
        "esp.transactions.directory",
        """            entry.pending, entry.is_late = None, False
            if entry.current is None:
""",
        """            after, entry.pending = entry.pending, None
            if entry.current is not None:
                entry.current = entry.current._replace(producer_epoch=after.producer_epoch)
            if entry.current is None:
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "failed-append-leaves-its-move-pending",
        "KAFKA-5351",
        "TXN-1",
        "esp.transactions.directory",
        """            entry.pending, entry.is_late = None, False
            if entry.current is None:
""",
        """            if entry.pending is not None and entry.pending.status.name.startswith("COMPLETE"):
                entry.pending, entry.is_late = None, False
            if entry.current is None:
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "epoch-is-looked-at-before-the-pending-move",
        "KAFKA-18464",
        "TXN-1",
        "esp.transactions.ending",
        """            self._answer(ticket, entry.busy_error)
""",
        """            is_other = entry.pending is not None and request.producer != entry.pending.producer
            self._answer(ticket, _FENCED if is_other else entry.busy_error)
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "timeout-leaves-the-epoch",
        "KAFKA-6119",
        "TXN-9",
        "esp.transactions.ending",
        """            client_version=level,
            bumps_epoch=True,
""",
        """            client_version=0,
            bumps_epoch=False,
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "fence-leaves-the-epoch",
        "KAFKA-5231",
        "TXN-2",
        "esp.transactions.ending",
        "        self._abort(entry, current, now, last_epoch=current.producer_epoch if by_itself else NO_EPOCH, reply=reply)\n",
        """        after = decided(current, now, is_commit=False, client_version=0, bumps_epoch=False, last_epoch=current.last_epoch)
        self._state.directory.move(entry, after, now, reply=reply, settled=self._on_decided)
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "zombie-ends-the-transaction-of-its-owner",
        "as in Kafka",
        "TXN-2",
        "esp.transactions.initialising",
        "_OPEN: Final[_Row] = {Claim.NEW: Step.FENCE, Claim.CURRENT: Step.FENCE, Claim.PREVIOUS: _FENCED, Claim.FOREIGN: _FENCED}\n",
        "_OPEN: Final[_Row] = dict.fromkeys(Claim, Step.FENCE)\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "higher-epoch-may-end-the-transaction",
        "KAFKA-9600",
        "TXN-6",
        "esp.transactions.ending",
        "        if asked.epoch == current.producer_epoch:\n",
        "        if asked.epoch >= current.producer_epoch:\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "offsets-of-transactions-are-not-verified",
        "KAFKA-15784",
        "TXN-10",
        "esp.broker.apis.txn_offset_commit",
        "    (guard,) = await services.verifier.verify(producer, (batch,), protocol)\n",
        """    (guard,) = await services.verifier.verify(producer, (batch,), protocol)
    from esp.replication.verification import UNVERIFIED
    guard = UNVERIFIED
""",
        kind=TRANSACTIONS_ALONE,
    ),
    Mutant(
        "partition-that-a-leader-does-not-have-counts-as-deleted",
        "as in Kafka",
        "TXN-12",
        "esp.transactions.markers",
        "        ErrorCode.none: MarkerOutcome.WRITTEN,\n",
        """        ErrorCode.none: MarkerOutcome.WRITTEN,
        ErrorCode.unknown_topic_or_partition: MarkerOutcome.WRITTEN,
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "loading-ends-at-the-first-hole",
        "KAFKA-9065",
        "TXN-1",
        "esp.broker.coordination.latest_records",
        "        while position < size:\n            if position + HEADER_SIZE <= size:\n",
        """        while position < size:
            if position and int.from_bytes(data[position : position + 8], "big") != next_offset:
                return 1 << 62
            if position + HEADER_SIZE <= size:
""",
        kind=COMPACTED_COORDINATORS,
    ),
    Mutant(
        "state-of-an-earlier-epoch-is-kept",
        "KAFKA-9307",
        "TXN-1",
        "esp.transactions.coordinator",
        "            self._read[record.transactional_id] = record.value\n",
        "            self._read.setdefault(record.transactional_id, record.value)\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "decision-of-the-coordinator-before-is-not-carried-out",
        "KAFKA-15468 class",
        "TXN-12",
        "esp.transactions.coordinator",
        "                self._markers.begin(entry, now)\n",
        "                pass\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "epoch-is-not-exhausted-by-transactions",
        "KAFKA-18660",
        "TXN-3",
        "esp.transactions.ending",
        "        return self._state.take_producer_id() if is_needed and current.is_exhausted else NO_PRODUCER_ID\n",
        "        return NO_PRODUCER_ID\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "fence-of-the-last-epoch-does-not-rotate",
        "KAFKA-20090",
        "TXN-3",
        "esp.transactions.ending",
        "        next_producer_id = self._next_producer_id(current, is_needed=level >= BUMPING_VERSION)\n",
        "        next_producer_id = self._next_producer_id(current, is_needed=False)\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "answer-has-the-producer-of-before-the-rotation",
        "KAFKA-18660",
        "TXN-3",
        "esp.transactions.ending",
        "        reply = partial(self._answer, ticket, producer=after.next_producer)\n",
        "        reply = partial(self._answer, ticket, producer=after.producer)\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "id-with-an-open-transaction-expires",
        "KAFKA-5279",
        "TXN-9",
        "esp.transactions.time_limits",
        """            if entry.pending is not None or current is None or current.status not in _AT_REST:
                continue
            if current.used_us > oldest_us:
                continue
            size += len(entry.transactional_id.encode())
""",
        """            if entry.pending is not None or current is None:
                continue
            if current.used_us > oldest_us:
                continue
            current = current._replace(status=TransactionStatus.EMPTY)
            size += len(entry.transactional_id.encode())
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "failed-expiry-leaves-its-move-pending",
        "KAFKA-7519",
        "TXN-9",
        "esp.transactions.directory",
        """            entry.pending, entry.is_late = None, False
            if entry.current is None:
""",
        """            if entry.pending is not None and entry.pending.status is not TransactionStatus.DEAD:
                entry.pending, entry.is_late = None, False
            if entry.current is None:
""",
        tiers=(PARTITION,),
    ),
    Mutant(
        "transactions-time-out-by-the-wall-clock",
        "as in Kafka",
        "TXN-9",
        "esp.transactions.time_limits",
        "            is_late = now.monotonic_us - current.started_us > current.timeout_ms * _US_PER_MS\n",
        "            is_late = now.wall_ms - current.start_ms > current.timeout_ms\n",
        tiers=(PARTITION,),
    ),
)
