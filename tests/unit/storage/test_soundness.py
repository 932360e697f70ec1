"""REC-4: bytes that the device gives back are compared with their checksums before a reader gets them."""

from collections.abc import Callable

import pytest

from esp.model.errors import CorruptionError
from esp.records.batch_header import ATTRIBUTES_OFFSET, read_header
from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.log import Log
from tests.unit.storage.helpers import CPU, REPLICA, make_batch, new_disk, new_log, reopen, run

SETTINGS = TopicSettings(index_interval_bytes=0, segment_bytes=1000)
FIRST = f"{REPLICA}/{0:020d}.log"
SIZE = len(make_batch(0, size=100))


def filled(count: int = 11, settings: TopicSettings = SETTINGS) -> tuple[SimulatedDisk, Log]:
    disk = new_disk()
    directory, log = new_log(disk, settings)
    for number in range(count):
        batch = make_batch(number, size=100, timestamp=1000 + number)
        log.append(batch, read_header(batch), 0)
    log.high_watermark = log.log_end_offset
    directory.close_blocking(1)  # type: ignore[arg-type]
    return disk, reopen(disk, settings)[1]


def read_all(log: Log, offset: int = 0, max_bytes: int = 10_000) -> list[int]:
    """The base offsets of what is read, as a consumer reads."""
    found = []
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes, log.log_end_offset, at_least_one=True)
        if data is None:
            data = run(log.read_cold(offset, max_bytes, log.log_end_offset, at_least_one=True))
        position = 0
        while position < len(data):
            header = read_header(data, position)
            found.append(header.base_offset)
            position += header.size
            offset = header.next_offset
    return found


def rot(disk: SimulatedDisk, position: int, path: str = FIRST, mask: int = 1) -> None:
    content = disk.content(path)
    assert content is not None
    content.rot(position, mask)


@pytest.mark.parametrize("max_bytes", [1, 300, 10_000])
def test_batches_before_the_rot_are_given_and_then_an_error_that_names_the_file(max_bytes: int) -> None:
    disk, log = filled()
    rot(disk, 2 * SIZE + ATTRIBUTES_OFFSET + 50)
    told: list[int] = []
    log.on_rot = lambda: told.append(1)
    data = run(log.read_cold(0, 2 * SIZE, 11, at_least_one=True))
    assert len(data) == 2 * SIZE
    for _ in range(2):
        with pytest.raises(CorruptionError, match=FIRST):
            read_all(log, 2, max_bytes)
    assert told == [1], "it is said once"
    assert log.rot is not None
    assert read_all(log, 3, max_bytes) == list(range(3, 11)), "what is sound is served"


@pytest.mark.parametrize("place", [8, 9, 11, 16, 17, 20, ATTRIBUTES_OFFSET, 57, SIZE - 1])
def test_rot_of_any_part_that_a_checksum_or_the_form_covers_is_found(place: int) -> None:
    disk, log = filled()
    rot(disk, SIZE + place, mask=0x40)
    with pytest.raises(CorruptionError):
        read_all(log)


@pytest.mark.parametrize("place", [0, 3, 6])
def test_a_base_offset_that_leaves_its_place_is_found(place: int) -> None:
    disk, log = filled()
    rot(disk, SIZE + place, mask=0x40)
    with pytest.raises(CorruptionError):
        read_all(log)


def test_bytes_that_the_page_cache_got_from_the_device_are_checked_too_and_once() -> None:
    disk, log = filled()
    assert read_all(log) == list(range(11))
    segment = log.files.segments[0]
    assert (segment.checked_start, segment.checked_end) == (0, segment.size)
    rot(disk, 30)
    disk.open(FIRST).read_blocking(0, 100)  # somebody else brings the sector back
    segment.suspect()
    with pytest.raises(CorruptionError):
        log.read(0, 10_000, 11, at_least_one=True)


def test_a_read_that_goes_on_where_one_ended_says_when_the_page_cache_lacks_the_rest() -> None:
    disk, log = filled()
    assert len(run(log.read_cold(0, SIZE, 11, at_least_one=True))) == SIZE
    disk.make_cold(FIRST)
    assert log.read(1, 10_000, 11, at_least_one=True) is None


def test_what_was_appended_by_this_process_is_given_as_it_is() -> None:
    _, log = new_log(new_disk())
    batch = make_batch(0)
    log.append(batch, read_header(batch), 0)
    assert log.files.segments.active.suspect_end == 0
    assert read_all(log) == [0]


def break_position(data: bytearray, entry: int) -> None:
    data[8 * entry + 7] ^= 0x08


def break_offset(data: bytearray, entry: int) -> None:
    data[8 * entry + 3] ^= 0x01


@pytest.mark.parametrize("harm", [break_position, break_offset])
@pytest.mark.parametrize("entry", range(3))
@pytest.mark.parametrize("number", [0, 1])
def test_an_index_that_rotted_in_its_midst_misleads_nobody(
    harm: Callable[[bytearray, int], None], entry: int, number: int
) -> None:
    settings = TopicSettings(index_interval_bytes=0, segment_bytes=1000)
    disk, log = filled(11, settings)
    path = f"{REPLICA}/{log.files.segments[number].base_offset:020d}.index"
    data = bytearray(disk.read_file(path))
    harm(data, entry)
    disk.write_file(path, bytes(data))
    disk.crash()
    _, log = reopen(disk, settings)
    for offset in range(11):
        for max_bytes in (1, 300, 450, 10_000):
            assert read_all(log, offset, max_bytes) == list(range(offset, 11))


@pytest.mark.parametrize(
    "position", [2 * SIZE + 16, 4 * SIZE - 1], ids=["the magic of a batch", "a value of the last batch that would stay"]
)
def test_a_log_that_cannot_be_cut_for_rot_reports_it_and_stays_whole(position: int) -> None:
    disk, log = filled()
    rot(disk, position, mask=0x40)
    log.files.segments[0].indexes = None
    disk.remove(f"{REPLICA}/{0:020d}.index")
    with pytest.raises(CorruptionError):
        log.truncate_to(4)
    assert log.rot is not None
    assert not log.is_offline
    assert log.log_end_offset == 11
    assert read_all(log, 9) == [9, 10]


def test_a_search_by_time_reports_rot() -> None:
    disk, log = filled()
    rot(disk, 2 * SIZE + 16, mask=0x40)
    disk.remove(f"{REPLICA}/{0:020d}.index")
    log.files.segments[0].indexes = None
    with pytest.raises(CorruptionError):
        run(log.find_offset_by_timestamp(1004, CPU))
    assert log.rot is not None


@pytest.mark.parametrize("was_clean", [False, True])
def test_a_base_offset_that_no_index_can_hold_does_not_break_the_start(was_clean: bool) -> None:
    disk = new_disk()
    directory, log = new_log(disk, TopicSettings(index_interval_bytes=0))
    for number in range(5):
        batch = make_batch(number, size=100)
        log.append(batch, read_header(batch), 0)
    directory.close_blocking(1)  # type: ignore[arg-type]
    disk.crash()
    rot(disk, 2 * SIZE, mask=0x40)
    if was_clean:
        disk.remove(f"{REPLICA}/{0:020d}.index")
        with pytest.raises(CorruptionError, match=FIRST):
            reopen(disk)
    else:
        disk.remove("data/.kafka_cleanshutdown")
        disk.remove("data/recovery-point-offset-checkpoint")
        assert reopen(disk)[1].log_end_offset == 2


def test_a_last_batch_that_rotted_does_not_say_where_the_log_ends() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    for number in range(3):
        batch = make_batch(number, size=100)
        log.append(batch, read_header(batch), 0)
    directory.close_blocking(1)  # type: ignore[arg-type]
    disk.crash()
    rot(disk, 2 * SIZE + 23, mask=0x08)  # of the last offset's delta
    with pytest.raises(CorruptionError, match=FIRST):
        reopen(disk)
