"""The batches of one partition that were ever committed, and acknowledged: the one true log, against which every replica is held."""

from collections.abc import Collection
from typing import NamedTuple

from esp.model.ids import TopicId, TopicPartition
from esp.simulation.checkers.compacted_records import CompactedRecords
from esp.simulation.checkers.replica_view import BatchView, ReplicaView
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.workload.batch_mark import BatchMark

_SEQUENCES: int = 2**31


class _Link(NamedTuple):
    """The batch that must stand before the end of a batch, wherever it stands; ``before`` is its key, if any replica had it."""

    base_offset: int
    crc: int
    before: tuple[int, int] | None


class CommittedLog:
    """Filled when the first replica's high watermark passes an offset; never changed after that.

    Args:
        name: of the partition.
        topic_id: of its topic.
    """

    def __init__(self, name: TopicPartition, topic_id: TopicId) -> None:
        self.name = name
        self.topic_id = topic_id
        self.batches: dict[int, BatchView] = {}
        """By base offset, ascending."""
        self.end_offset = 0
        self.last: BatchView | None = None
        self.acked: dict[int, int] = {}
        """CRC of each batch that was acknowledged with acks=all, by base offset."""
        self.is_excused = False
        """True if more was lost than the promise covers (see :mod:`esp.simulation.nodes_tier.ledger`): durability is not asked any more."""
        self.compacted: CompactedRecords | None = None
        """All records, if the topic is compacted: then batches change and offsets are missing (CLEAN-2, CLEAN-5)."""
        self.doubted_epoch: int | None = None
        """The leader epoch for which that is not certain yet: its leader lost bytes, and has not shown yet which (ELECT-5)."""
        self._led_epoch = -1
        """The newest leader epoch of a leader that was seen."""
        self._links: dict[tuple[int, int], _Link] = {}
        self._appenders: dict[int, str] = {}
        self._sequences: dict[tuple[int, int], tuple[int, int]] = {}
        """The sequence that is due, and the offset at which the last batch ends, by producer and epoch."""
        self.restarts: list[BatchView] = []
        """Batches that did not go on with their producer's sequences, as nothing was left of it."""

    def on_batch(self, view: ReplicaView, before: BatchView | None, batch: BatchView) -> None:
        """A batch appeared in a replica behind ``before``.

        Raises:
            ViolationError: INV-ORDER (LOG-2, LOG-3), INV-LOGMATCH (LOG-4).
        """
        is_hole = before is not None and batch.base_offset > before.next_offset
        if is_hole and self.compacted is not None:
            assert before is not None
            if batch.leader_epoch < before.leader_epoch:
                raise ViolationError("INV-ORDER", view.who, f"{batch} follows {before}")
            before = None  # the batch that stood there before compaction is not known here
        if before is not None and (batch.base_offset != before.next_offset or batch.leader_epoch < before.leader_epoch):
            raise ViolationError("INV-ORDER", view.who, f"{batch} follows {before}")
        key = (batch.next_offset, batch.leader_epoch)
        above = (before.next_offset, before.leader_epoch) if before is not None else None
        link = self._links.get(key)
        if link is None:
            self._links[key] = _Link(batch.base_offset, batch.crc, above)
            return
        is_alike = link.base_offset == batch.base_offset and (
            link.crc == batch.crc or self._is_compacted_copy(view, batch)
        )
        if not is_alike:
            raise ViolationError(
                "INV-LOGMATCH",
                view.who,
                f"{batch} stands where another replica has {link.base_offset}, crc {link.crc:08x}",
            )
        if link.before is None:
            self._links[key] = link._replace(before=above)
        elif above is not None and link.before != above:
            raise ViolationError(
                "INV-LOGMATCH",
                view.who,
                f"{batch} follows the end (offset, epoch) {above}; in another replica it follows {link.before}",
            )

    def _is_compacted_copy(self, view: ReplicaView, batch: BatchView) -> bool:
        """True if a batch is what compaction has left of another one: replicas are alike in the records that both have.

        Raises:
            ViolationError: INV-CLEAN-LATEST: it is something else.
        """
        if self.compacted is None:
            return False
        difference = None if self.is_excused else self.compacted.find_difference(batch.written())
        if difference is not None:
            raise ViolationError("INV-CLEAN-LATEST", view.who, f"{batch}: {difference}")
        return True

    def are_same(self, known: BatchView, batch: BatchView) -> bool:
        """True if ``batch`` is a copy of a committed one, or what compaction has left of it."""
        if known.is_same(batch):
            return True
        return self.compacted is not None and self.compacted.find_difference(batch.written()) is None

    def on_leader_append(self, view: ReplicaView, node: str, batch: BatchView) -> None:
        """A leader appended.

        Raises:
            ViolationError: INV-EPOCH-LEADER: another node did so in this epoch.
        """
        appender = self._appenders.setdefault(batch.leader_epoch, node)
        if appender != node:
            raise ViolationError("INV-EPOCH-LEADER", view.who, f"{batch}: in this epoch {appender} appended before")

    def on_high_watermark(self, view: ReplicaView, old: int, new: int) -> list[BatchView]:
        """A replica's high watermark rose; returns the batches that were not known to be committed.

        Raises:
            ViolationError: INV-COMMIT-STABLE, INV-SEQ.
        """
        added = []
        for batch in view.from_offset(old):
            if batch.next_offset > new:
                break
            known = self.batches.get(batch.base_offset)
            if known is not None:
                if not self.is_excused and not self.are_same(known, batch):
                    raise ViolationError("INV-COMMIT-STABLE", view.who, f"{batch} is committed where {known} was")
            elif batch.base_offset >= self.end_offset:
                self._commit(view, batch)
                added.append(batch)
            elif not self.is_excused:
                raise ViolationError("INV-COMMIT-STABLE", view.who, f"{batch} is committed within another batch")
        return added

    def _commit(self, view: ReplicaView, batch: BatchView) -> None:
        if batch.producer_id >= 0 and batch.base_sequence >= 0 and not batch.is_control:
            key = (batch.producer_id, batch.producer_epoch)
            due, known_end = self._sequences.get(key, (batch.base_sequence, 0))
            # A replica that began at the log start of its leader never had what lies below it, and as a leader takes any sequence of a
            # producer that it does not know (PROD-2), as in Kafka.
            is_forgotten = batch.base_sequence != due and known_end <= view.log_start_offset
            if is_forgotten:
                self.restarts.append(batch)
            if batch.base_sequence != due and not is_forgotten and not self.is_excused:
                raise ViolationError(
                    "INV-SEQ",
                    view.who,
                    f"{batch} of producer {key} begins with sequence {batch.base_sequence}, not {due}",
                )
            count = batch.next_offset - batch.base_offset
            self._sequences[key] = (batch.base_sequence + count) % _SEQUENCES, batch.next_offset
        self.batches[batch.base_offset] = self.last = batch
        self.end_offset = batch.next_offset
        if self.compacted is not None:
            self.compacted.on_commit(batch)

    def is_repeated(self, batch: BatchView, at: int) -> bool:
        """True if a batch was appended again, ``at`` this offset, by a leader that had nothing of its producer any more (PROD-2)."""
        return any(
            batch.base_offset < restart.base_offset <= at and restart.producer_id == batch.producer_id
            for restart in self.restarts
        )

    def doubt(self, leader_epoch: int) -> None:
        """A leader was elected that lost bytes: nothing is asked of the partition until it leads, and shows what it has."""
        if not self.is_excused or self.doubted_epoch is not None:
            self.doubted_epoch = leader_epoch
        self.is_excused = True

    def excuse(self) -> None:
        """Nothing is asked of the partition any more."""
        self.doubted_epoch = None
        self.is_excused = True

    def on_led(self, view: ReplicaView, leader_epoch: int) -> None:
        """A replica leads in an epoch, with the log that it has: if the log is complete, nothing is lost, whatever befell the disk."""
        self._led_epoch = max(self._led_epoch, leader_epoch)
        if self.is_settled_by(leader_epoch):
            self.doubted_epoch = None
            self.is_excused = not self.is_held_by(view)

    @property
    def newest_epoch(self) -> int:
        """The newest leader epoch that a leader, or what is committed, tells of."""
        return self._led_epoch if self.last is None else max(self._led_epoch, self.last.leader_epoch)

    def is_settled_by(self, leader_epoch: int) -> bool:
        """True if the leader of an epoch settles the doubt: the elected one, or a later one, if that died before it led."""
        return self.doubted_epoch is not None and leader_epoch >= self.doubted_epoch

    def is_held_by(self, view: ReplicaView) -> bool:
        """True if a replica has everything that was committed. Equal ends are equal logs (INV-LOGMATCH), so the last batch tells."""
        last = self.last
        if last is None or view.log_start_offset >= self.end_offset:
            return True
        found = view.find(last.base_offset)
        return found is not None and self.are_same(last, found)

    def is_retired(self, mark: BatchMark, log_start_offset: int) -> bool:
        """True if a batch was committed and has gone, being below a log start since."""
        return any(batch.mark == mark and batch.next_offset <= log_start_offset for batch in self.batches.values())

    def holds_bytes(self, data: bytes, copies: Collection[ReplicaView]) -> bool:
        """True if a committed batch has these bytes in it; the newest are looked at first.

        The file in which a batch was first seen may be lost: then one of its ``copies`` tells.
        """
        return any(
            data in one.content.written(one.position, one.position + one.size)
            for batch in reversed(self.batches.values())
            for one in (batch, *(view.find(batch.base_offset) for view in copies))
            if one is not None and one.is_same(batch)
        )

    def on_ack(self, who: str, base_offset: int, crc: int) -> None:
        """A producer was told that a batch is committed.

        Raises:
            ViolationError: INV-ACK-DURABLE: it is not.
        """
        self.acked[base_offset] = crc
        known = self.batches.get(base_offset)
        if (known is None or known.crc != crc) and not self.is_excused:
            raise ViolationError(
                "INV-ACK-DURABLE",
                who,
                f"crc {crc:08x} at {base_offset} of {self.name} was acknowledged; committed there is {known}",
            )
