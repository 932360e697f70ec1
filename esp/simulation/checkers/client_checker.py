"""Holds what clients were told against what is committed, and at the end the whole history against the whole log."""

from collections.abc import Mapping, Sequence

from crc32c import crc32c

from esp.model.ids import INTERNAL_TOPICS, TopicId
from esp.records.batch import iterate_records
from esp.records.batch_header import ATTRIBUTES_OFFSET, BatchHeader
from esp.simulation.checkers.client_history import REFUSED_BUT_WRITTEN, Outcome, Read, Sent, check
from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.ledger import GUARDED_TOPICS, SURVEYED
from esp.simulation.nodes_tier.share_profile import LETTERS
from esp.simulation.nodes_tier.transaction_profile import TRANSACTIONAL_TOPIC
from esp.simulation.workload.history import History, SentBatch

Committed = Mapping[tuple[TopicId, int], CommittedLog]


class ClientChecker:
    """Compares the records that clients sent with the answers that they got and the committed logs.

    Args:
        committed: what is committed, by topic and partition; filled while the run goes on.
    """

    def __init__(self, committed: Committed) -> None:
        self._committed = committed

    def on_ack(self, batch: SentBatch) -> None:
        """A producer got an acknowledgement. Raises ViolationError: INV-ACK-DURABLE."""
        committed = self._committed.get((batch.topic_id, batch.partition))
        if batch.acks == -1 and committed is not None:
            assert batch.base_offset is not None
            committed.on_ack(batch.producer, batch.base_offset, batch.crc)

    def on_read(
        self,
        reader: str,
        topic_id: TopicId,
        partition: int,
        offset: int,
        batches: list[tuple[BatchHeader, memoryview]],
    ) -> None:
        """A reader got batches.

        Raises:
            ViolationError: INV-CLEAN-LATEST, INV-NO-ROT-SERVED, INV-READ-COMMITTED-HW, INV-READ-STABLE, INV-SNAPSHOT-FETCH.
        """
        committed = self._committed.get((topic_id, partition))
        if committed is None or committed.is_excused:
            return
        who = f"{reader}, {committed.name}"
        due = offset
        for header, data in batches:
            if crc32c(data[ATTRIBUTES_OFFSET:]) != header.crc:
                raise ViolationError(
                    "INV-NO-ROT-SERVED", who, f"the batch at {header.base_offset} does not match its checksum"
                )
            is_before = committed.compacted is not None and due < header.base_offset
            if not (header.base_offset <= due or is_before) or due >= header.next_offset:
                raise ViolationError(
                    "INV-SNAPSHOT-FETCH", who, f"asked for {due}, got {header.base_offset}-{header.last_offset}"
                )
            due = header.next_offset
            known = committed.batches.get(header.base_offset)
            if known is None:
                raise ViolationError(
                    "INV-READ-COMMITTED-HW",
                    who,
                    f"read {header.base_offset}-{header.last_offset}, committed is {committed.last}",
                )
            if committed.compacted is not None and known.crc != header.crc:
                difference = committed.compacted.find_difference(bytes(data))
                if difference is not None:
                    raise ViolationError("INV-CLEAN-LATEST", who, f"read at {header.base_offset}: {difference}")
            elif (known.crc, known.leader_epoch) != (header.crc, header.leader_epoch):
                raise ViolationError("INV-READ-STABLE", who, f"read crc {header.crc:08x} where {known} is committed")
        if committed.compacted is not None:
            found = {
                record.offset for header, data in batches if header.record_count for record in iterate_records(data)
            }
            lost = committed.compacted.find_lost(offset, due, found)
            if lost is not None:
                raise ViolationError("INV-CLEAN-LATEST", who, f"read {offset}-{due - 1}: {lost}")

    def check_history(self, history: History) -> None:
        """Hold every batch that was ever sent against everything that is committed.

        Raises:
            ViolationError: INV-CLIENT-HISTORY, INV-NOT-ENOUGH.
        """
        sent: dict[tuple[TopicId, int], list[SentBatch]] = {}
        for batch in history.batches:
            sent.setdefault((batch.topic_id, batch.partition), []).append(batch)
        for key, committed in self._committed.items():
            # Coordinators write the internal ones, leaders change the surveyed one, and transactions are judged by themselves.
            if committed.name.topic in {*INTERNAL_TOPICS, SURVEYED, TRANSACTIONAL_TOPIC, LETTERS, *GUARDED_TOPICS}:
                continue
            if not committed.is_excused:
                _check_partition(committed, sent.get(key, []))


def _check_partition(committed: CommittedLog, sent: Sequence[SentBatch]) -> None:
    known = {batch.mark: _identify(batch) for batch in sent}
    last_places = {batch.mark: batch.base_offset for batch in committed.batches.values()}
    read = [
        Read(0, batch.base_offset, *known.get(batch.mark, (f"crc {batch.crc:08x}", 0)))
        for batch in committed.batches.values()
        if not batch.is_control and not committed.is_repeated(batch, last_places[batch.mark])
    ]
    for anomaly in check([Sent(*_identify(batch), _outcome(batch), 0, batch.base_offset) for batch in sent], read):
        invariant = "INV-NOT-ENOUGH" if anomaly.startswith(REFUSED_BUT_WRITTEN) else "INV-CLIENT-HISTORY"
        raise ViolationError(invariant, f"{committed.name}", anomaly)


def _identify(batch: SentBatch) -> tuple[str, int]:
    """Key and number. A producer that tries each batch once sends it over any connection: there is no order among its batches."""
    if batch.is_idempotent:
        return batch.producer, batch.number
    return f"{batch.producer}, batch {batch.number}", 0


def _outcome(batch: SentBatch) -> Outcome:
    """A leader's word alone, acks=1, promises nothing."""
    if batch.fate is Outcome.REFUSED:
        return Outcome.REFUSED
    return Outcome.ACKED if batch.fate is Outcome.ACKED and batch.acks == -1 else Outcome.UNKNOWN
