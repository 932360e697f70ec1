"""The state machine on top of the metadata log: it turns the log into images of the cluster.

Two states are kept. ``image`` is the committed one, visible to the whole node. ``newest`` goes ahead of it on the active controller only:
a proposal is replayed at once, so that the next decision rests on it, and becomes visible image by image as it is committed. When
leadership is lost the newest state goes back to the committed one (RAFT-21), in the midst of a metadata transaction too: for each
proposed batch the point after it is kept, which costs nothing since images are immutable.

All other nodes replay committed batches, in the order of the log, exactly once (RAFT-20). A record that cannot be applied ends the
node (RAFT-23).
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, NoReturn, Protocol

from esp.controller.errors import InvalidMetadataError
from esp.controller.image import EMPTY_IMAGE, ClusterDelta, ClusterImage
from esp.controller.image_difference import image_difference
from esp.controller.replay import MetadataReplay, ReplayPoint
from esp.controller.snapshot_records import snapshot_records
from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError
from esp.model.ids import LeaderEpoch
from esp.ports.env import Env
from esp.records.batch import iterate_records
from esp.schemas.metadata_frames import UnknownRecordError, decode_record, encode_record
from esp.schemas.metadata_records import MetadataRecord

OnChange = Callable[[ClusterImage, ClusterDelta], None]


class ProposalLog(Protocol):
    """The part of the quorum that the loader needs: :class:`~esp.broker.raft.driver.RaftDriver`."""

    @property
    def is_active(self) -> bool:
        """True if this node may propose."""

    @property
    def epoch(self) -> LeaderEpoch:
        """The epoch in which it does."""

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""

    def propose(self, values: Sequence[bytes]) -> None:
        """Append one batch of records."""


class _Proposed(NamedTuple):
    """A batch that is not committed yet: the state after it, and what it changed."""

    point: ReplayPoint
    delta: ClusterDelta


class MetadataLoader:
    """Images of the metadata log; the raft driver calls it, the controller proposes through it, all other parts subscribe.

    Args:
        env: the outside; its host ends the node when a record cannot be applied, and its threads replay snapshots.
        empty: the state before the first record.
    """

    def __init__(self, env: Env, empty: ClusterImage = EMPTY_IMAGE) -> None:
        self.image = self._empty = empty
        """The committed state, as it was published last."""
        self._host = env.host
        self._cpu = env.cpu
        self._replay = MetadataReplay(empty)
        self._committed = ReplayPoint(empty)
        self._proposed: deque[_Proposed] = deque()
        self._subscribers: list[OnChange] = []
        self._is_published = False

    @property
    def newest(self) -> ClusterImage:
        """The state on which the active controller decides: the committed one, with what this node has proposed."""
        return self._replay.image

    @property
    def in_transaction(self) -> bool:
        """True if the newest state stands within a metadata transaction."""
        return self._replay.in_transaction

    def subscribe(self, callback: OnChange) -> None:
        """Call ``callback`` with every committed image and what it changed, the first time with everything; at once if there is one."""
        self._subscribers.append(callback)
        if self._is_published:
            callback(self.image, image_difference(self._empty, self.image))

    def propose(self, raft: ProposalLog, records: Sequence[MetadataRecord]) -> None:
        """Take records into the newest state, and append them as one batch to the log.

        Only while this node is the active controller (RAFT-22). The caller decided on :attr:`newest` in the same turn of the loop.
        """
        assert raft.is_active, "only the active controller proposes"
        try:
            for offset, record in enumerate(records, start=raft.next_offset):
                self._replay.replay(offset, record)
            values = [encode_record(record) for record in records]
            delta = self._replay.publish(raft.next_offset + len(records) - 1, raft.epoch)
        except InvalidMetadataError as error:  # the state is half changed, and what was decided is wrong
            self._host.fatal(f"a decision of the controller cannot be applied: {error}")
        self._proposed.append(_Proposed(self._replay.point(), delta))
        raft.propose(values)

    # --- for the raft driver -------------------------------------------------------------------------------------------------------

    def replay_committed(self, batch: Buffer) -> None:
        """Take the next committed batch of records that this node has not proposed itself in its present term."""
        assert not self._proposed, "this node's own proposals are replayed already"
        try:
            _replay_batch(self._replay, batch)
        except (InvalidMetadataError, UnknownRecordError, CorruptionError) as error:
            self._refuse(error)

    def publish(self, end_offset: int, epoch: LeaderEpoch) -> None:
        """Everything below ``end_offset`` was replayed; its last batch has ``epoch``."""
        try:
            delta = self._replay.publish(end_offset - 1, epoch)
        except InvalidMetadataError as error:
            self._refuse(error)
        self._publish(self._replay.point(), delta)

    def commit_proposed(self, high_watermark: int) -> None:
        """Publish the proposals below ``high_watermark``, image by image."""
        while self._proposed and self._proposed[0].point.image.offset < high_watermark:
            point, delta = self._proposed.popleft()
            self._publish(point, delta)

    def roll_back(self) -> None:
        """Leadership is lost: what was proposed and is not committed may never be (RAFT-21)."""
        if self._proposed:
            self._proposed.clear()
            self._replay = MetadataReplay.at(self._committed)

    async def load(self, batches: Iterable[Buffer], end_offset: int, epoch: LeaderEpoch) -> None:
        """Replace everything by a snapshot's records (RAFT-33). It is seen with the next :meth:`publish` or at once if there was one.

        The records are replayed beside the loop, for a second if there are very many: until then all is as before. Nothing may be replayed
        or published meanwhile.
        """
        assert not self._proposed, "a leader loads no snapshot (RAFT-32)"
        before, known = self._replay, self.image if self._is_published else None
        try:
            replay, delta = await self._cpu.run(_load, self._empty, batches, end_offset, epoch, known)
        except (InvalidMetadataError, UnknownRecordError, CorruptionError) as error:
            self._refuse(error)
        assert self._replay is before, "the log stands still while a snapshot is loaded"
        self._replay = replay
        if known is None:
            self._committed = replay.point()
        else:
            self._publish(replay.point(), delta)

    def snapshot_source(self) -> ClusterImage | None:
        """The image that a snapshot may be made of now; None within a metadata transaction, whose records no image holds."""
        return None if self._committed.in_transaction else self._committed.image

    def _publish(self, point: ReplayPoint, delta: ClusterDelta) -> None:
        self._committed = point
        self.image = point.image
        if not self._is_published:
            self._is_published = True
            delta = image_difference(EMPTY_IMAGE, point.image)
        for callback in self._subscribers:
            callback(point.image, delta)

    def _refuse(self, error: Exception) -> NoReturn:
        """RAFT-23: every node has the same records; one that goes on without one of them serves another cluster than the others."""
        self._host.fatal(
            f"the metadata log cannot be applied: {error}; use the release of the software that wrote it, or a newer one"
        )


def _load(
    empty: ClusterImage, batches: Iterable[Buffer], end_offset: int, epoch: LeaderEpoch, before: ClusterImage | None
) -> tuple[MetadataReplay, ClusterDelta]:
    """The state that a snapshot's records give, and what it changes against ``before``; runs beside the loop.

    Raises:
        InvalidMetadataError, UnknownRecordError, CorruptionError: a record cannot be applied.
    """
    replay = MetadataReplay(empty)
    for batch in batches:
        _replay_batch(replay, batch, offset=end_offset - 1)
    delta = replay.publish(end_offset - 1, epoch)
    return replay, delta if before is None else image_difference(before, replay.image)


def _replay_batch(replay: MetadataReplay, batch: Buffer, offset: int | None = None) -> None:
    for record in iterate_records(batch):
        if record.value is None:
            raise CorruptionError(f"the metadata record at {record.offset} has no value")
        replay.replay(record.offset if offset is None else offset, decode_record(record.value))


def encode_snapshot(image: ClusterImage) -> list[bytes]:
    """The values of a snapshot's records; may run beside the loop, since images never change."""
    return [encode_record(record) for record in snapshot_records(image)]
