"""Holds what clients were told against what is committed, and at the end the whole history against the whole log."""

from collections.abc import Mapping

from crc32c import crc32c

from esp.model.ids import TopicId
from esp.records.batch_header import ATTRIBUTES_OFFSET, BatchHeader
from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.workload.history import Fate, History, SentBatch

Committed = Mapping[tuple[TopicId, int], CommittedLog]


class ClientChecker:
    """See the module.

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
            ViolationError: INV-NO-ROT-SERVED, INV-READ-COMMITTED-HW, INV-READ-STABLE, INV-SNAPSHOT-FETCH.
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
            if not header.base_offset <= due < header.next_offset:
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
            if (known.crc, known.leader_epoch) != (header.crc, header.leader_epoch):
                raise ViolationError("INV-READ-STABLE", who, f"read crc {header.crc:08x} where {known} is committed")

    def check_history(self, history: History) -> None:
        """Hold every batch that was ever sent against everything that is committed.

        Raises:
            ViolationError: INV-CLIENT-HISTORY, INV-NOT-ENOUGH.
        """
        places: dict[tuple[TopicId, int, int], list[int]] = {}
        for (topic_id, partition), committed in self._committed.items():
            for batch in committed.batches.values():
                places.setdefault((topic_id, partition, batch.crc), []).append(batch.base_offset)
        before: dict[tuple[str, TopicId, int], tuple[int, int]] = {}
        for sent in history.batches:
            committed_log = self._committed.get((sent.topic_id, sent.partition))
            if committed_log is None or committed_log.is_excused:
                continue
            found = places.get((sent.topic_id, sent.partition, sent.crc), [])
            who = f"{sent.producer}, {committed_log.name}"
            self._check_one(sent, found, who)
            if sent.is_idempotent and found:
                key = (sent.producer, sent.topic_id, sent.partition)
                number, offset = before.get(key, (-1, -1))
                if found[0] < offset:
                    raise ViolationError(
                        "INV-CLIENT-HISTORY",
                        who,
                        f"batch {sent.number} stands at {found[0]}, batch {number} before it at {offset}",
                    )
                before[key] = (sent.number, found[0])

    def _check_one(self, sent: SentBatch, found: list[int], who: str) -> None:
        if len(found) > 1 and sent.is_idempotent:
            raise ViolationError("INV-CLIENT-HISTORY", who, f"batch {sent.number} stands at {found}: doubled")
        if sent.fate is Fate.ACKED and sent.acks == -1 and sent.base_offset not in found:
            raise ViolationError(
                "INV-CLIENT-HISTORY",
                who,
                f"batch {sent.number} was acknowledged at {sent.base_offset} and stands at {found}: lost",
            )
        if sent.fate is Fate.REFUSED and found:
            raise ViolationError(
                "INV-NOT-ENOUGH", who, f"batch {sent.number} was refused for certain and stands at {found}"
            )
