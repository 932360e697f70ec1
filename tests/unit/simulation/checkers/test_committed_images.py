"""The metadata is replayed from the files of whichever node takes a batch for committed first."""

from types import SimpleNamespace

import pytest

from esp.broker.raft.applier import MetadataApplier
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.schemas.metadata_frames import encode_record
from esp.schemas.metadata_records import EndTransactionRecord, FeatureLevelRecord, MetadataRecord
from esp.simulation.checkers.committed_images import CommittedImages
from esp.simulation.checkers.violation import ViolationError
from tests.unit.storage.helpers import append_marker, new_disk, new_log


class Scene:
    """Two nodes with a metadata log each, and the images that were told of."""

    def __init__(self) -> None:
        self.disks = [new_disk(), new_disk()]
        self.logs = [new_log(disk)[1] for disk in self.disks]
        self.told = []
        self.found = []
        self.running = 0
        self.images = CommittedImages(self.find_disk, self.told.append, self.found.append)

    def find_disk(self):
        return self.disks[self.running] if self.running < len(self.disks) else None

    def append(self, *records: MetadataRecord, nodes=(0, 1)) -> None:
        for log in [self.logs[node] for node in nodes]:
            values = [NewRecord(encode_record(record)) for record in records]
            data = build_batch(values, base_offset=log.log_end_offset, leader_epoch=3, timestamp_ms=1000)
            log.append(data, read_header(data), 0)

    def commit(self, node: int, high_watermark: int) -> None:
        self.images.on_committed(self.disks[node], self.logs[node], high_watermark)

    @property
    def levels(self):
        return [(image.offset, image.epoch, dict(image.features)) for image in self.told]


def level(number: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name="f", feature_level=number)


def test_each_batch_gives_one_image_whoever_commits_it_first():
    scene = Scene()
    scene.append(level(1), level(2))
    scene.append(level(3))
    scene.append(level(4), nodes=(1,))
    scene.commit(0, 2)
    scene.commit(1, 4)
    assert scene.levels == [(1, 3, {"f": 2}), (2, 3, {"f": 3}), (3, 3, {"f": 4})]


def test_batch_of_the_quorum_itself_changes_nothing_but_the_offset():
    scene = Scene()
    scene.append(level(1))
    append_marker(scene.logs[0], (7, 0), is_commit=True)
    scene.commit(0, 2)
    assert [offset for offset, _, _ in scene.levels] == [0, 1]
    assert scene.told[1].features == {"f": 1}


def test_records_that_cannot_be_applied_are_found():
    scene = Scene()
    scene.append(EndTransactionRecord())
    with pytest.raises(ViolationError, match="INV-META-SAME"):
        scene.commit(0, 1)


def test_what_is_taken_for_committed_stands_in_the_files():
    scene = Scene()
    scene.append(level(1))
    with pytest.raises(ViolationError, match="INV-ORDER"):
        scene.commit(0, 2)


def applier_of(scene: Scene, node: int) -> MetadataApplier:
    """That has handed everything over already: its node leads."""
    machine = SimpleNamespace(commit_proposed=lambda _high_watermark: None)
    return MetadataApplier(scene.logs[node], machine, lambda _coroutine: None, lambda: None)


def test_nodes_are_watched_as_they_apply_and_second_processes_are_not():
    scene = Scene()
    scene.append(level(1))
    scene.append(level(2))
    before = MetadataApplier.apply
    with scene.images.watched():
        for scene.running, high_watermark in ((0, 1), (1, 1), (2, 2), (1, 2)):
            applier_of(scene, min(scene.running, 1)).apply(high_watermark, is_active=True)
            scene.told.append(scene.running)
        applier_of(scene, 0).apply(3, is_active=True)
    first, second = [image for image in scene.told if not isinstance(image, int)]
    assert scene.told == [first, 0, 1, 2, second, 1]
    assert (first.features, second.features) == ({"f": 1}, {"f": 2})
    assert [error.invariant for error in scene.found] == ["INV-ORDER"]
    assert MetadataApplier.apply is before
