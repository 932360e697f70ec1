"""The metadata of the cluster image by image, replayed from the files of the first node that takes a batch for committed.

What single nodes show of it is a sample: one that comes up publishes the last image only, and one that is behind takes in several changes
at once. Here each committed batch gives one image, as soon as any node may act on it.
"""

import contextlib
from collections.abc import Callable, Iterator

from esp.broker.raft.applier import MetadataApplier
from esp.controller.errors import InvalidMetadataError
from esp.controller.image import EMPTY_IMAGE, ClusterImage
from esp.controller.replay import MetadataReplay
from esp.model.errors import CorruptionError
from esp.model.ids import METADATA_TOPIC_ID, LeaderEpoch
from esp.records.batch import iterate_records
from esp.schemas.metadata_frames import UnknownRecordError, decode_record
from esp.simulation.checkers.replica_view import BatchView, ReplicaView
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.log import Log


class CommittedImages:
    """Replays the metadata log up to the highest offset that any node has taken for committed.

    Args:
        find_disk: the disk of the node that is running; None if that is no node whose metadata counts.
        on_image: called with each image, in the order of the log.
        report: takes what is found, as that is in the midst of a node's step.
    """

    def __init__(
        self,
        find_disk: Callable[[], SimulatedDisk | None],
        on_image: Callable[[ClusterImage], None],
        report: Callable[[ViolationError], None],
    ) -> None:
        self._find_disk = find_disk
        self._on_image = on_image
        self._report = report
        self._end_offset = 0
        self._replay = MetadataReplay(EMPTY_IMAGE)
        self._log: Log | None = None
        self._view: ReplicaView | None = None

    def on_committed(self, disk: SimulatedDisk, log: Log, high_watermark: int) -> None:
        """A node is about to apply its metadata log up to there.

        Raises:
            ViolationError: INV-ORDER: its files do not hold that; INV-META-SAME: it is not what follows the metadata before it.
        """
        if self._view is None or self._log is not log:
            self._log = log
            self._view = ReplicaView("the metadata log", disk, log.path, METADATA_TOPIC_ID, self._end_offset)
        for batch in self._view.read_to(high_watermark):
            try:
                self._take(batch)
            except (InvalidMetadataError, UnknownRecordError, CorruptionError) as error:
                raise ViolationError("INV-META-SAME", log.path, f"{batch} cannot be applied: {error}") from error
            self._end_offset = batch.next_offset
            self._on_image(self._replay.image)

    def _take(self, batch: BatchView) -> None:
        if not batch.is_control:
            for record in iterate_records(batch.written()):
                assert record.value is not None
                self._replay.replay(record.offset, decode_record(record.value))
        self._replay.publish(batch.next_offset - 1, LeaderEpoch(batch.leader_epoch))

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at all nodes of this process from outside, until the block ends."""
        apply = MetadataApplier.apply

        def watch(applier: MetadataApplier, high_watermark: int, *, is_active: bool) -> None:
            if high_watermark > self._end_offset:
                disk = self._find_disk()
                if disk is not None:
                    try:
                        self.on_committed(disk, applier._log, high_watermark)  # noqa: SLF001 - looked at from outside
                    except ViolationError as error:
                        self._report(error)
            apply(applier, high_watermark, is_active=is_active)

        MetadataApplier.apply = watch  # type: ignore[method-assign, assignment]  # of the class
        try:
            yield
        finally:
            MetadataApplier.apply = apply  # type: ignore[method-assign]
