import errno
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.records.batch_header import DELETE_HORIZON_BIT, HEADER_SIZE, read_header
from esp.records.builder import Record, seal_batch
from esp.replication.partition_follower import append_fetched
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_faults import Operation, ProcessKilledError
from esp.storage.compaction.cleaning import clean_blocking, cleanable_part, may_be_cleaned
from esp.storage.compaction.key_set import KeySet
from esp.storage.compaction.round import CleanerLimits
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory
from tests.unit.storage.compaction.cleaned import (
    COMPACTED,
    SMALL,
    batches_of,
    clean,
    headers_of,
    latest,
    put,
    records_of,
    settle,
)
from tests.unit.storage.helpers import CPU, DATA, REPLICA, new_disk, new_log, reopen, run

HOUR = 3_600_000


def test_the_latest_record_of_each_key_stays_where_it_was() -> None:
    _, log = new_log(new_disk(), COMPACTED)
    for number in range(30):
        put(log, (b"key %d" % (number % 4), b"value %d" % number))
    settle(log)
    before = latest(records_of(log))
    clean(log)
    assert latest(records_of(log)) == before
    assert len(records_of(log)) == 4
    assert (log.cleaned_to, log.log_end_offset, log.log_start_offset) == (30, 30, 0)
    assert clean(log) is None, "nothing is dirty any more"


def test_a_log_that_has_only_its_active_segment_is_not_looked_at() -> None:
    _, log = new_log(new_disk(), COMPACTED)
    put(log, (b"key", b"value"))
    assert not may_be_cleaned(log)
    settle(log)
    assert may_be_cleaned(log)


def test_batches_of_which_everything_stays_are_the_same_bytes_and_cost_no_write() -> None:
    disk = new_disk()
    _, log = new_log(disk, replace(COMPACTED, segment_bytes=1000))
    for number in range(40):
        put(log, (b"key %d" % number, bytes(30)))
    settle(log)
    before = batches_of(log)
    counts = clean(log)
    assert counts is not None
    assert counts.bytes_written < log.size, "full segments were left alone"
    assert batches_of(log) == before


def test_the_active_segment_and_what_is_not_committed_or_flushed_are_left_alone() -> None:
    _, log = new_log(new_disk(), COMPACTED)
    for _ in range(10):
        put(log, (b"k", bytes(100)))
    assert clean(log) is None, "nothing is committed"
    log.high_watermark = 10
    assert clean(log) is None, "nothing is flushed"
    log.flush_blocking()
    sealed = log.sealed_end_offset
    log.high_watermark = sealed - 1
    assert cleanable_part(log, 0).end < sealed
    log.high_watermark = 10
    clean(log)
    assert log.cleaned_to == sealed < 10
    assert [record.offset for record in records_of(log)] == [sealed - 1, *range(sealed, 10)]


def test_a_record_that_a_later_segment_supersedes_stays_until_that_is_cleaned() -> None:
    _, log = new_log(new_disk(), COMPACTED)
    put(log, (b"k", b"1"))
    settle(log)
    put(log, (b"k", b"2"))
    clean(log)
    assert [record.value for record in records_of(log)] == [b"1", b"2"]


def test_two_keys_with_one_hash_value_are_two_keys() -> None:
    class Same(bytes):
        def __hash__(self) -> int:
            return 7

    keys = KeySet(1 << 20)
    assert keys.add({Same(b"a"): 16, Same(b"b"): 18}) == [18, 16]
    assert keys.add({Same(b"c"): 12, Same(b"a"): 14}) == [12]


def test_records_without_a_key_go_and_an_empty_key_is_a_key() -> None:
    _, log = new_log(new_disk(), COMPACTED)
    put(log, (None, b"1"), (b"", b"2"), (None, None))
    put(log, (b"", b"3"), (b"k", b"4"))
    settle(log)
    clean(log)
    assert [(record.key, record.value) for record in records_of(log)] == [(b"", b"3"), (b"k", b"4")]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_batch_keeps_its_codec(codec: int) -> None:
    _, log = new_log(new_disk(), COMPACTED)
    put(log, (b"a", bytes(50)), (b"b", bytes(50)), codec=codec)
    put(log, (b"a", bytes(50)), codec=codec)
    settle(log)
    clean(log)
    assert [header.codec for header in headers_of(log)] == [codec, codec]
    assert [record.offset for record in records_of(log)] == [1, 2]


# --- tombstones --------------------------------------------------------------------------------------------------------------------


def test_a_tombstone_stays_for_its_time_from_the_first_round_on() -> None:
    _, log = new_log(new_disk(), replace(COMPACTED, delete_retention_ms=HOUR))
    put(log, (b"k", b"v"), (b"other", b"v"))
    put(log, (b"k", None), (b"other", None))
    put(log, (b"l", b"v"))
    settle(log)
    clean(log, now_ms=2000)
    assert [record.value for record in records_of(log)] == [None, None, b"v"]
    marked = [header for header in headers_of(log) if header.attributes & DELETE_HORIZON_BIT]
    assert [header.base_timestamp for header in marked] == [2000 + HOUR]
    assert {record.timestamp for record in records_of(log)} == {1000}, "the records' own timestamps are what they were"
    for now_ms, left in ((2000 + HOUR - 1, [None, None]), (2000 + HOUR, [])):
        put(log, (b"m", b"v"))
        settle(log)
        clean(log, now_ms=now_ms)
        assert [record.value for record in records_of(log) if record.key in (b"k", b"other")] == left
        horizons = [header.base_timestamp for header in headers_of(log) if header.attributes & DELETE_HORIZON_BIT]
        assert horizons == ([2000 + HOUR] if left else []), "a horizon is set once"


def test_a_tombstone_that_is_to_stay_for_ever_stays_until_the_last_date() -> None:
    _, log = new_log(new_disk(), replace(COMPACTED, delete_retention_ms=2**63 - 1))
    put(log, (b"k", b"v"))
    put(log, (b"k", None))
    settle(log)
    clean(log, now_ms=2000)
    assert [(record.key, record.timestamp, record.value) for record in records_of(log)] == [(b"k", 1000, None)]
    [horizon] = [header.base_timestamp for header in headers_of(log) if header.attributes & DELETE_HORIZON_BIT]
    assert datetime.fromtimestamp(horizon / 1000, UTC).year == 9999


@pytest.mark.parametrize("set_back_to", [2000 + HOUR - 1, 3000, 1])
def test_a_tombstone_stays_where_the_clock_is_set_back_over_its_horizon(set_back_to: int) -> None:
    """The horizon is a time by the wall clock: it is reached when that shows it again, and is neither moved nor passed meanwhile."""
    _, log = new_log(new_disk(), replace(COMPACTED, delete_retention_ms=HOUR))
    put(log, (b"k", b"v"))
    put(log, (b"k", None))
    settle(log)
    clean(log, now_ms=2000)
    # The clock has passed the horizon, and no round ran then.
    for now_ms, left in ((set_back_to, [None]), (set_back_to, [None]), (2000 + HOUR, [])):
        put(log, (b"m", b"v"))
        settle(log)
        clean(log, now_ms=now_ms)
        assert [record.value for record in records_of(log) if record.key == b"k"] == left, now_ms
        horizons = [header.base_timestamp for header in headers_of(log) if header.attributes & DELETE_HORIZON_BIT]
        assert horizons == ([2000 + HOUR] if left else [])


def test_a_tombstone_in_the_uncleaned_part_is_not_begun_to_be_counted() -> None:
    _, log = new_log(new_disk(), COMPACTED)
    put(log, (b"k", b"v"))
    settle(log)
    put(log, (b"k", None))
    clean(log)
    assert not any(header.attributes & DELETE_HORIZON_BIT for header in headers_of(log))


# --- what else batches say ---------------------------------------------------------------------------------------------------------


def test_each_segment_ends_where_the_next_one_begins() -> None:
    _, log = new_log(new_disk(), replace(COMPACTED, segment_bytes=200))
    for number in range(20):
        put(log, (b"k", b"%d" % number))
    settle(log)
    clean(log)
    assert [record.offset for record in records_of(log)] == [19]
    ends = {header.next_offset for header in headers_of(log)}
    assert ends >= {segment.next_base_offset for segment in list(log.files.segments)[:-1]}


def test_leader_epochs_can_be_learned_from_the_cleaned_log() -> None:
    disk = new_disk()
    directory, log = new_log(disk, COMPACTED)
    for number in range(20):
        put(log, (b"k", b"%d" % number), epoch=number // 3)
    settle(log)
    clean(log)
    epochs = log.leader_epochs.entries()
    assert len(epochs) == 7
    directory.close_blocking(1)
    disk.remove(f"{REPLICA}/leader-epoch-checkpoint")
    assert reopen(disk, COMPACTED)[1].leader_epochs.entries() == epochs


def test_producers_can_be_learned_from_the_cleaned_log() -> None:
    disk = new_disk()
    directory, log = new_log(disk, replace(COMPACTED, segment_bytes=10_000))
    for number in range(20):
        put(log, (b"k", b"%d" % number), (b"k", b"."), producer=(number % 3, 1, number // 3 * 2))
    settle(log)
    put(log, (b"k", b"last"))
    clean(log)
    known = {pid: (state.epoch, state.batches) for pid, state in log.producers.items()}
    assert [len(batches) for _, batches in known.values()] == [5, 5, 5]
    assert [record.value for record in records_of(log)] == [b".", b"last"]
    directory.close_blocking(1)
    for name in disk.listdir(REPLICA):
        if name.endswith(".snapshot"):
            disk.remove(f"{REPLICA}/{name}")
    log = reopen(disk, COMPACTED)[1]
    assert {pid: (s.epoch, s.batches) for pid, s in log.producers.items()} == known


def test_a_header_without_records_is_no_answer_to_a_timestamp() -> None:
    _, log = new_log(new_disk(), replace(COMPACTED, segment_bytes=10_000))
    put(log, (b"k", b"1"), now_ms=9000, producer=(1, 0, 0))
    put(log, (b"k", b"2"), now_ms=5000)
    put(log, (b"l", b"3"), now_ms=6000)
    settle(log)
    clean(log)
    found = run(log.find_max_timestamp(CPU))
    assert found is not None
    assert (found.timestamp, found.offset) == (6000, 2)
    assert run(log.find_offset_by_timestamp(6001, CPU)) is None


def test_a_batch_that_its_producer_wrote_wrongly_stays_and_supersedes_nothing() -> None:
    _, log = new_log(new_disk(), COMPACTED)
    put(log, (b"k", b"1"))
    data = seal_batch(b"\x10\0\0\0\x02k", 1, base_timestamp=0, max_timestamp=0, base_offset=1, leader_epoch=0)
    log.append(data, read_header(data), 0)
    settle(log)
    counts = clean(log)
    assert counts is not None
    assert counts.batches_malformed == 1
    assert batches_of(log)[1] == data
    assert log.rot is None
    assert log.cleaned_to == 2


@pytest.mark.parametrize(
    ("base_timestamp", "delta", "value"),
    [
        (2**63 - 1, b"\x02", b"\x02v"),  # a millisecond after the last that there is room for
        (0, b"\xff" * 9 + b"\x7f", b"\x02v"),  # of more than 64 bits
        (-(2**63), b"\0", b"\1"),  # a tombstone, too far from its delete horizon
    ],
)
def test_a_batch_of_whose_timestamps_no_other_batch_can_be_made_stays(
    base_timestamp: int, delta: bytes, value: bytes
) -> None:
    _, log = new_log(new_disk(), COMPACTED)
    records = b""
    for number, key in enumerate((b"k", b"l")):
        content = b"\0" + delta + bytes((2 * number, 2)) + key + value + b"\0"
        records += bytes((2 * len(content),)) + content
    data = seal_batch(records, 2, base_timestamp=base_timestamp, max_timestamp=1000, base_offset=0, leader_epoch=0)
    log.append(data, read_header(data), 1000)
    put(log, (b"k", b"2"))
    put(log, (b"k", b"3"))
    settle(log)
    assert clean(log) is not None
    assert batches_of(log)[0] == data
    assert [header.base_offset for header in headers_of(log)] == [0, 3]
    assert log.rot is None
    assert log.cleaned_to == 4


# --- what happens meanwhile --------------------------------------------------------------------------------------------------------


def filled(disk: SimulatedDisk, keys: int = 5, batches: int = 24) -> tuple[LogDirectory, Log]:
    directory, log = new_log(disk, COMPACTED)
    for number in range(batches):
        put(log, (b"key %d" % (number % keys), b"value %d" % number), producer=(number % 2, 0, number // 2))
    settle(log)
    return directory, log


def test_a_map_that_is_full_ends_the_round_in_the_midst_of_a_segment_and_the_next_one_goes_on_there() -> None:
    _, log = filled(new_disk(), keys=24)
    for number in range(24):
        put(log, (b"key %d" % number, b"again"))
    settle(log)
    wanted = latest(records_of(log))
    few = CleanerLimits(map_bytes=1500, chunk_bytes=150)
    rounds = []
    while clean(log, limits=few) is not None:
        rounds.append(log.cleaned_to)
        assert latest(records_of(log)) == wanted
    assert len(rounds) > 3
    assert rounds == sorted(set(rounds)), "each round gets on"
    assert set(rounds) - {segment.base_offset for segment in log.files.segments}, "some end in the midst of a segment"
    assert rounds[-1] == 48
    assert clean(log) is None


def test_a_batch_that_is_larger_than_all_buffers_is_cleaned() -> None:
    _, log = new_log(new_disk(), replace(COMPACTED, segment_bytes=100_000))
    put(log, *((b"key %d" % number, bytes(100)) for number in range(300)))
    put(log, *((b"key %d" % number, b"new") for number in range(0, 300, 2)))
    settle(log)
    while clean(log, limits=CleanerLimits(map_bytes=10, chunk_bytes=10)) is not None:
        pass
    assert len(records_of(log)) == 300
    assert log.cleaned_to == 450


@pytest.mark.parametrize("map_bytes", [10, 1 << 20, 4 << 20])
@pytest.mark.parametrize("codec", [0, 4])
def test_keys_of_900_kilobytes_are_told_apart_by_their_last_byte(map_bytes: int, codec: int) -> None:
    keys = [bytes(900_000) + last for last in (b"a", b"b", b"c")]
    _, log = new_log(new_disk(), replace(COMPACTED, segment_bytes=2_000_000))
    for number in range(3):
        for key in keys:
            put(log, (key, b"%d" % number), codec=codec)
    put(log, (keys[0], None), codec=codec)
    settle(log)
    counts, rounds = clean(log, limits=CleanerLimits(map_bytes=map_bytes, chunk_bytes=1 << 20)), 0
    while counts is not None:
        assert counts.memory_bytes < max(map_bytes, 1_000_000) + 4_000_000, "one batch, and its copy"
        counts, rounds = clean(log, limits=CleanerLimits(map_bytes=map_bytes, chunk_bytes=1 << 20)), rounds + 1
    assert [(record.offset, record.key, record.value) for record in records_of(log)] == [
        (7, keys[1], b"2"),
        (8, keys[2], b"2"),
        (9, keys[0], None),
    ]
    assert log.cleaned_to == 10
    assert (rounds == 1) == (map_bytes == 4 << 20), "a map that has room for all needs one round"


@pytest.mark.parametrize("step", range(0, 24, 3))
def test_a_log_that_is_cut_meanwhile_keeps_what_superseded_no_more(step: int) -> None:
    _, log = new_log(new_disk(), COMPACTED)
    for number in range(12):
        put(log, (b"key %d" % (number % 3), b"value %d" % number))
    settle(log)
    steps = 0

    def between() -> None:
        nonlocal steps
        if steps == step:
            log.truncate_to(6)
        steps += 1

    clean_blocking(log, 2000, SMALL, between)
    assert steps == step + 1, "the round ends with its step"
    assert log.log_end_offset == 6
    assert log.cleaned_to <= 6
    assert {record.value for record in latest(records_of(log)).values()} >= {b"value 5"}
    if step < 10:  # nothing had been replaced
        assert len(records_of(log)) == 6


@pytest.mark.parametrize("step", range(0, 20, 2))
def test_segments_that_retention_drops_meanwhile_do_not_come_back(step: int) -> None:
    _, log = filled(new_disk(), keys=24)
    steps = 0

    def between() -> None:
        nonlocal steps
        if steps == step:
            log.raise_log_start(log.files.segments[2].base_offset)
            log.delete_old_segments_blocking(3000)
        steps += 1

    clean_blocking(log, 2000, SMALL, between)
    assert steps > step
    log.check_offsets()
    assert [record.offset for record in records_of(log)] == list(range(log.log_start_offset, 24))
    bases = [segment.base_offset for segment in log.files.segments]
    assert bases == sorted(set(bases))


def test_a_reader_goes_on_with_a_segment_that_is_replaced_under_it() -> None:
    _, log = filled(new_disk(), keys=3)
    held = log.files.segments[0].file
    data = bytes(held.read_blocking(0, 200))
    reading = log.read_cold(0, 300, log.log_end_offset, at_least_one=True)
    clean(log)
    assert bytes(held.read_blocking(0, 200)) == data
    assert run(reading), "a read that began before finds what is there now"
    offset = 0
    while offset < log.log_end_offset:
        found = log.read(offset, 10_000, log.log_end_offset, at_least_one=True)
        assert found
        offset += 1


def test_a_follower_fetches_over_the_gaps() -> None:
    _, log = filled(new_disk(), keys=3, batches=40)
    clean(log)
    _, follower = new_log(new_disk(1), COMPACTED)
    while follower.log_end_offset < log.log_end_offset:
        records = log.read(follower.log_end_offset, 150, log.log_end_offset, at_least_one=True)
        assert records
        append_fetched(follower, records, 0, 0)
    assert batches_of(follower) == batches_of(log)
    assert follower.leader_epochs.entries() == log.leader_epochs.entries()
    assert {p: s.last_sequence for p, s in follower.producers.items()} == {
        p: s.last_sequence for p, s in log.producers.items()
    }
    settle(follower)
    clean(follower)
    assert latest(records_of(follower)) == latest(records_of(log))


# --- faults ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [HEADER_SIZE + 9, 30, 400, 900])
def test_a_batch_that_has_rotted_ends_the_cleaning_of_its_log(place: int) -> None:
    disk = new_disk()
    _, log = filled(disk)
    number = max(
        n for n, _ in enumerate(log.files.segments) if sum(s.size for s in list(log.files.segments)[:n]) <= place
    )
    begin = sum(segment.size for segment in list(log.files.segments)[:number])
    disk.corrupt(log.files.segments[number].path(".log"), place - begin, 0x40)
    files = {segment.path(".log"): segment.size for segment in log.files.segments}
    with pytest.raises(CorruptionError):
        clean(log)
    assert log.rot is not None, "the repair hears of it"
    assert {segment.path(".log"): segment.size for segment in log.files.segments} == files
    assert clean(log) is None
    assert not [name for name in disk.listdir(REPLICA) if name.endswith((".cleaned", ".swap"))]


def test_an_offset_that_has_rotted_ends_the_cleaning_though_no_checksum_covers_it() -> None:
    disk = new_disk()
    _, log = filled(disk)
    segment = log.files.segments[0]
    first = read_header(segment.file.read_blocking(0, HEADER_SIZE))
    disk.corrupt(segment.path(".log"), first.size + 2, 0x40)
    with pytest.raises(CorruptionError):
        clean(log)
    assert log.rot is not None


def test_the_last_batch_of_a_producer_that_is_still_there_after_a_cut_says_its_sequence() -> None:
    """Later batches of the producer are not committed yet while its committed one is superseded."""
    _, log = new_log(new_disk(), COMPACTED)
    put(log, (b"k", b"1"), producer=(7, 0, 0))
    put(log, (b"k", b"2"))
    settle(log)
    for sequence in range(1, 8):
        put(log, (b"l", b"3"), producer=(7, 0, sequence))
    clean(log)
    assert records_of(log)[0].value == b"2"
    log.truncate_to(2)
    known = log.producers.get(7)
    assert known is not None
    assert known.last_sequence == 0
    assert [header.producer_id for header in headers_of(log)] == [7, -1]


def test_the_last_five_batches_of_a_producer_stay_though_the_log_remembers_later_ones() -> None:
    """A round knows the last five of all, and those of its dirty part; the fives between them stand in the part that was clean before."""
    _, log = new_log(new_disk(), COMPACTED)
    for sequence in range(3):
        put(log, (b"k", b"1"), producer=(7, 0, sequence))
    settle(log)
    clean(log)
    put(log, (b"k", b"2"), producer=(7, 0, 3))
    settle(log)
    for sequence in range(4, 9):
        put(log, (b"l", b"3"), producer=(7, 0, sequence))
    clean(log)
    log.truncate_to(4)
    known = log.producers.get(7)
    assert known is not None
    assert [batch.base_offset for batch in known.batches] == [0, 1, 2, 3]
    assert [header.base_offset for header in headers_of(log)] == [0, 1, 2, 3]


def test_a_log_start_that_falls_back_leaves_nothing_that_passes_for_clean() -> None:
    """A round looks at nothing below the log start, which is written down with the end of the round."""
    disk = new_disk()
    directory, log = new_log(disk, replace(COMPACTED, segment_bytes=4_000, delete_retention_ms=0))
    put(log, (b"k", b"1"))
    put(log, (b"k", None))
    put(log, (b"l", b"2"))
    settle(log)
    directory.write_checkpoints_blocking()
    log.raise_log_start(2)
    clean(log, HOUR)
    directory.write_cleaned_blocking()
    disk.power_loss()
    _, log = reopen(disk, COMPACTED)
    assert (log.log_start_offset, log.cleaned_to) == (2, 3)


@pytest.mark.parametrize("free", [0, 100, 500])
def test_a_full_disk_leaves_the_log_as_it_is_until_there_is_room(free: int) -> None:
    disk = new_disk()
    _, log = filled(disk)
    before = latest(records_of(log))
    disk.fill_up(free)
    with pytest.raises(OSError, match="space"):
        clean(log)
    assert not log.is_offline
    disk.heal()
    assert not [name for name in disk.listdir(REPLICA) if name.endswith((".cleaned", ".swap"))]
    assert latest(records_of(log)) == before
    clean(log)
    assert len(records_of(log)) == 5


@pytest.mark.parametrize(
    ("operation", "pattern"), [("sync", REPLICA), ("rename", "*.cleaned"), ("rename", "*.swap"), ("rename", "*.log")]
)
def test_a_device_that_fails_while_segments_change_takes_the_log_offline(operation: str, pattern: str) -> None:
    disk = new_disk()
    _, log = filled(disk)
    wanted = latest(records_of(log))
    disk.fail(operation, pattern, error=errno.EIO)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="error"):
        clean(log)
    assert log.is_offline
    disk.crash()
    log = reopen(disk, COMPACTED)[1]
    assert latest(records_of(log)) == wanted


@pytest.mark.parametrize("loses_power", [False, True])
@pytest.mark.parametrize("changes", range(60))
def test_a_stop_at_any_file_operation_loses_nothing(changes: int, loses_power: bool) -> None:
    """Also one of the process that completes what the first one began."""
    disk = new_disk(changes)
    directory, log = filled(disk)
    directory.write_checkpoints_blocking()
    before = records_of(log)
    wanted = latest(before)
    producers = {p: s.last_sequence for p, s in log.producers.items()}
    epochs = log.leader_epochs.entries()
    disk.kill_after(changes)
    with suppress(ProcessKilledError):
        clean(log)
        directory.write_cleaned_blocking()
    for attempt in range(3):
        if loses_power:
            disk.power_loss()
        else:
            disk.crash()
        if attempt < 2:
            disk.kill_after(changes % 7 + 3 * attempt)
        try:
            log = reopen(disk, COMPACTED)[1]
        except ProcessKilledError:
            continue
        disk.faults.kill_at = None
        break
    assert latest(records_of(log)) == wanted
    assert {record.offset for record in records_of(log)} <= {record.offset for record in before}
    assert (log.log_start_offset, log.log_end_offset) == (0, 24)
    assert {p: s.last_sequence for p, s in log.producers.items()} == producers
    assert log.leader_epochs.entries() == epochs
    assert log.is_whole
    assert log.rot is None
    assert not [name for name in disk.listdir(REPLICA) if name.endswith((".cleaned", ".swap", ".deleted"))]
    log.high_watermark = 24
    clean(log)
    assert len(records_of(log)) == 5
    assert latest(records_of(log)) == wanted


@pytest.mark.parametrize("changes", range(8))
def test_a_swap_that_a_start_completed_is_on_the_device_before_its_segment_is_written_anew(changes: int) -> None:
    """Else a power loss brings a part of it back, which counts as undecided beside what is written now (CLEAN-7)."""
    for seed in range(12):
        disk = new_disk(seed)
        directory, log = filled(disk)
        wanted = latest(records_of(log))
        directory.write_checkpoints_blocking()
        log.high_watermark = 12
        kill_before_names_are_synced(disk, 2)
        with pytest.raises(ProcessKilledError):
            clean(log)
        disk.crash()
        kill_before_names_are_synced(disk, 1)
        with pytest.raises(ProcessKilledError):
            reopen(disk, COMPACTED)
        disk.crash()
        disk.on_operation = lambda _operation: None
        log = reopen(disk, COMPACTED)[1]
        log.high_watermark = 24
        disk.kill_after(changes)
        with suppress(ProcessKilledError):
            clean(log)
        disk.power_loss()
        log = reopen(disk, COMPACTED)[1]
        assert latest(records_of(log)) == wanted


def kill_before_names_are_synced(disk: SimulatedDisk, moments: int) -> None:
    """End the process when files have got other names, and these are about to be synced, for the ``moments``-th time."""
    left, has_renamed = moments, False

    def on_operation(operation: Operation | None) -> None:
        nonlocal left, has_renamed
        if operation == "sync" and has_renamed:
            left -= 1
            has_renamed = False
            if not left:
                disk.kill_after(0)
        has_renamed |= operation == "rename"

    disk.on_operation = on_operation


def test_the_offset_of_compaction_is_known_after_a_restart_and_not_beyond_what_was_flushed() -> None:
    disk = new_disk()
    directory, log = filled(disk)
    clean(log)
    directory.close_blocking(1)
    assert reopen(disk, COMPACTED)[1].cleaned_to == 24
    disk.write_file(f"{DATA}/cleaner-offset-checkpoint", b"0\n1\nflights 3 25\n")
    disk.crash()
    assert reopen(disk, COMPACTED)[1].cleaned_to == 0


def test_a_log_that_was_cut_is_not_clean_where_it_grows_again() -> None:
    disk = new_disk()
    _, log = filled(disk)
    clean(log)
    log.truncate_to(12)
    assert log.cleaned_to == log.log_end_offset < 12, "the last batch below is the header that ends a segment"
    disk.crash()
    assert reopen(disk, COMPACTED)[1].cleaned_to == log.cleaned_to > 0
    log.truncate_fully_and_start_at(30)
    assert log.cleaned_to == 0


# --- a model -----------------------------------------------------------------------------------------------------------------------

KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b""])
PAIRS = st.tuples(st.one_of(KEYS, KEYS, st.none()), st.one_of(st.binary(max_size=40), st.none()))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(PAIRS, min_size=1, max_size=6), st.integers(0, 4), st.integers(-1, 1)),
        st.tuples(st.just("put"), st.lists(PAIRS, min_size=1, max_size=6), st.just(0), st.integers(-1, 1)),
        st.tuples(st.just("settle"), st.just(0)),
        st.tuples(st.just("epoch"), st.just(0)),
        st.tuples(st.just("clean"), st.sampled_from([2000, 400_000, 100_000_000])),
        st.tuples(st.just("reopen"), st.booleans()),
    ),
    max_size=60,
)


@hypothesis_settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_cleaned_log_says_the_same_as_a_whole_one(steps: list[tuple[object, ...]]) -> None:
    disk = new_disk()
    settings = replace(COMPACTED, delete_retention_ms=300_000)
    directory, log = new_log(disk, settings)
    disk.sync_all_blocking()  # nobody syncs an empty log, which a power loss may take
    model: list[Record] = []
    sequences = {0: 0, 1: 0}
    now_ms, epoch = 1000, 0
    horizon_passed: set[int] = set()
    marked: dict[int, int] = {}
    for kind, *arguments in steps:
        if kind == "put":
            pairs, codec, producer = arguments
            assert isinstance(pairs, list)
            assert isinstance(codec, int)
            assert isinstance(producer, int)
            base = log.log_end_offset
            model += [Record(base + n, now_ms, key, value) for n, (key, value) in enumerate(pairs)]
            of_producer = (producer, 0, sequences[producer]) if producer >= 0 else (-1, -1, -1)
            put(log, *pairs, now_ms=now_ms, codec=codec, producer=of_producer, epoch=epoch)
            if producer >= 0:
                sequences[producer] += len(pairs)
        elif kind == "settle":
            settle(log)
        elif kind == "epoch":
            epoch += 1
        elif kind == "clean":
            clean_at = arguments[0]
            assert isinstance(clean_at, int)
            now_ms = max(now_ms, clean_at)
            horizon_passed = {offset for offset, since in marked.items() if now_ms >= since + 300_000}
            if clean(log, now_ms) is not None:
                for record in records_of(log):
                    if record.value is None and record.offset < log.cleaned_to:
                        marked.setdefault(record.offset, now_ms)
        else:
            log.high_watermark = log.log_end_offset
            directory.close_blocking(1)
            if arguments[0]:
                disk.power_loss()
            directory, log = reopen(disk, settings)
        found = records_of(log)
        assert set(found) <= set(model), "nothing is made up"
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        for key, record in latest(model).items():
            if key is not None and record not in found:
                assert record.value is None, f"the latest record of {key!r} is gone"
                assert record.offset in horizon_passed
                assert not [each for each in found if each.key == key], "a deleted key came back"
        assert not log.cleaned_to or len([r for r in found if r.offset < log.cleaned_to]) <= 5
        assert log.log_end_offset == (model[-1].offset + 1 if model else 0)
        assert {p: s.last_sequence for p, s in log.producers.items()} == {p: n - 1 for p, n in sequences.items() if n}
