"""A round that another process computes (CLEAN-8): the same files, the same errors, and its memory."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from esp.broker.replication.cleaner import PROCESS_OWN_BYTES, limits_of
from esp.model.errors import CorruptionError
from esp.records.batch_header import HEADER_SIZE, read_header
from esp.records.builder import NewRecord, build_batch
from esp.runtime.os_disk import OsDisk
from esp.runtime.worker_process import OsWorkerProcess
from esp.settings.broker import BrokerSettings
from esp.storage.compaction.cleaning import LogRound, are_present, clean_blocking, cleanable_part, replacing
from esp.storage.compaction.round import CleanerLimits, RoundStep, cleaning_blocking
from esp.storage.layout import CLEANED_SUFFIX
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory
from esp.storage.steps import sync_blocking
from tests.unit.storage.compaction.cleaned import COMPACTED, SMALL, batches_of, put, settle
from tests.unit.storage.helpers import PARTITION, TOPIC_ID

DISK = OsDisk()


@pytest.fixture
def process() -> Iterator[OsWorkerProcess]:
    found = OsWorkerProcess(DISK, "log-cleaner")
    yield found
    found.stop()


def new_log(path: Path, segment_bytes: int = 400) -> Log:
    directory = LogDirectory.open_blocking(DISK, str(path))
    return directory.create_log_blocking(PARTITION, TOPIC_ID, replace(COMPACTED, segment_bytes=segment_bytes))


def fill(log: Log) -> None:
    for number in range(60):
        put(
            log,
            (b"key %d" % (number % 7), b"value %d" % number),
            (b"gone %d" % (number % 5), None),
            producer=(5, 0, 2 * number),
        )
        if number % 20 == 3:
            settle(log)
    settle(log)


def begin(log: Log, limits: CleanerLimits = SMALL) -> LogRound:
    return LogRound(log, cleanable_part(log, 2000), limits, 2000)


def clean(log: Log, process: OsWorkerProcess) -> list[RoundStep]:
    cleaning, seen = begin(log), []
    with closing(process.iterate_blocking(cleaning_blocking, cleaning.plan.detached(), 2)) as steps:
        for step in steps:
            cleaning.take(step)
            seen.append(step)
            if step.output is not None:
                assert are_present(log, step.output)
                sync_blocking(replacing(log, step.output, 2000), DISK)
    log.note_cleaned(cleaning.cleaned_to)
    return seen


def files_of(log: Log) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(log.path).iterdir() if path.suffix != ".deleted"}


def leftovers(log: Log) -> list[str]:
    return [name for name in files_of(log) if name.endswith(CLEANED_SUFFIX)]


def test_another_process_makes_the_same_files(process: OsWorkerProcess, tmp_path: Path) -> None:
    here, there = new_log(tmp_path / "here"), new_log(tmp_path / "there")
    for log in (here, there):
        fill(log)
    before = len(batches_of(there))
    clean_blocking(here, 2000, SMALL)
    seen = clean(there, process)
    assert here.cleaned_to == there.cleaned_to == there.sealed_end_offset
    assert len(batches_of(there)) < before // 2
    assert batches_of(there) == batches_of(here)
    names = files_of(here)
    names.pop("partition.metadata", None)
    assert {name: data for name, data in files_of(there).items() if name != "partition.metadata"} == names
    assert seen[-1].counts.bytes_read > 0
    assert process.pid is not None, "it is kept for the next round"
    assert clean_blocking(there, 2000, SMALL) is None or batches_of(there) == batches_of(here)


def test_a_rotten_batch_is_told(process: OsWorkerProcess, tmp_path: Path) -> None:
    log = new_log(tmp_path / "data")
    fill(log)
    path = Path(log.files.segments[0].path(".log"))
    data = bytearray(path.read_bytes())
    data[HEADER_SIZE] ^= 1
    path.write_bytes(data)
    cleaning = begin(log)
    with pytest.raises(CorruptionError, match="does not match its checksum"):
        list(process.iterate_blocking(cleaning_blocking, cleaning.plan.detached(), 2))


def test_a_missing_segment_is_an_error_unless_it_lies_below_the_log_start(
    process: OsWorkerProcess, tmp_path: Path
) -> None:
    log = new_log(tmp_path / "data")
    fill(log)
    cleaning = begin(log)
    missing = log.files.segments[0]
    Path(missing.path(".log")).unlink()
    steps = list(process.iterate_blocking(cleaning_blocking, cleaning.plan.detached(), 2))
    with pytest.raises(FileNotFoundError, match=f"offset {missing.next_base_offset} is missing"):
        cleaning.take(steps[-1])
    log.raise_log_start(missing.next_base_offset)
    cleaning.take(steps[-1])


def test_a_process_that_dies_leaves_nothing_behind(process: OsWorkerProcess, tmp_path: Path) -> None:
    log = new_log(tmp_path / "data")
    fill(log)
    before = batches_of(log)
    cleaning = begin(log)
    steps = process.iterate_blocking(cleaning_blocking, cleaning.plan.detached(), 1)
    while not leftovers(log):
        next(steps)
    process.stop()
    with pytest.raises(ChildProcessError):
        list(steps)
    assert leftovers(log)
    cleaning.remove_leftovers_blocking()
    assert not leftovers(log)
    assert batches_of(log) == before
    clean(log, process)
    assert len(batches_of(log)) < len(before) // 2


def own_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_process_stays_within_the_buffers_with_all_that_it_takes_to_run(
    process: OsWorkerProcess, tmp_path: Path
) -> None:
    settings = BrokerSettings(log_cleaner_dedupe_buffer_size=60_000_000)
    log = new_log(tmp_path / "data", 8_000_000)
    for first in range(0, 420_000, 600):
        records = [NewRecord(b"v", b"%010d" % number, timestamp=1000) for number in range(first, first + 600)]
        data = build_batch(records, base_offset=first)
        log.append(data, read_header(data), 1000)
    settle(log)
    cleaning, peak = begin(log, limits_of(settings, own_bytes=PROCESS_OWN_BYTES)), 0
    steps = process.iterate_blocking(cleaning_blocking, cleaning.plan.detached(), 1)
    for step in steps:
        cleaning.take(step)
        assert process.pid is not None
        peak = max(peak, own_bytes(process.pid))
        if step.output is not None:
            step.output.remove_blocking()
    assert cleaning.counts.map_utilization == 1.0
    assert peak > limits_of(settings, own_bytes=PROCESS_OWN_BYTES).map_bytes // 2, "it was seen at work"
    assert peak <= settings.log_cleaner_dedupe_buffer_size + settings.log_cleaner_io_buffer_size
