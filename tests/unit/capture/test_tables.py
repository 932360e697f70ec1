from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from esp.capture.decision import RefusedError
from esp.capture.delta_log import DeltaLog
from esp.capture.directory import Directory
from esp.capture.file_names import NO_DAY, FileName
from esp.capture.partition_capture import COLUMNS
from esp.capture.tables import Tables
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition
from esp.options.rows import schema_of_rows
from tests.integration.delta_reader import offsets_in_table, read_log

SCHEMA = schema_of_rows(COLUMNS)
ZERO, ONE = Partition("flights", 0), Partition("flights", 1)
DAY = 20_000


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(str(tmp_path))


def make_file(
    directory: Path, partition: Partition, first: int, end: int, day: int = DAY, schema: pa.Schema = SCHEMA
) -> FileName:
    """Write a file as a capture does."""
    name = FileName(partition, first, end, day)
    rows = [
        {
            **dict.fromkeys(schema.names),
            "topic": partition.topic,
            "partition": partition.number,
            "offset": offset,
            "timestamp": 1_764_158_400_000_000 + offset * 1000,
        }
        for offset in range(first, end)
    ]
    path = directory / name.path
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return name


def tables_of(directory: Directory) -> Tables:
    return Tables(directory, "lake", SCHEMA.names)


def test_files_of_a_round_are_added_in_one_commit_with_their_transactions(directory: Directory, tmp_path: Path) -> None:
    tables = tables_of(directory)
    tables.take(["flights"])
    assert not directory.has_table("flights")
    names = [make_file(tmp_path, ZERO, 0, 5), make_file(tmp_path, ONE, 0, 3), make_file(tmp_path, ZERO, 5, 9, NO_DAY)]
    for name in names:
        tables.note(name.path)
    tables.publish()
    found = read_log(tmp_path / "flights")
    assert DeltaTable(tmp_path / "flights").version() == 0
    assert found.applications == {"esp-capture.lake/flights-0": 9, "esp-capture.lake/flights-1": 3}
    assert offsets_in_table(tmp_path / "flights", ZERO) == [*range(9)]

    tables.note(make_file(tmp_path, ONE, 3, 4).path)
    tables.publish()
    tables.publish()
    assert DeltaTable(tmp_path / "flights").version() == 1
    rows = pa.table(DeltaTable(tmp_path / "flights").to_pyarrow_table(columns=["partition", "offset", "dt"]))
    assert rows.num_rows == 13
    assert rows["dt"].null_count == 4


def test_the_log_has_the_bounds_of_offsets_and_times(directory: Directory, tmp_path: Path) -> None:
    make_file(tmp_path, ZERO, 10, 15)
    tables_of(directory).take(["flights"])
    actions = pa.table(DeltaTable(tmp_path / "flights").get_add_actions(flatten=True)).to_pylist()
    assert [(each["num_records"], each["min.offset"], each["max.offset"]) for each in actions] == [(5, 10, 14)]
    assert actions[0]["max.timestamp"].isoformat() == "2025-11-26T12:00:00.014000+00:00"


def test_what_older_runners_have_left_is_added_once(directory: Directory, tmp_path: Path) -> None:
    make_file(tmp_path, ZERO, 0, 5)
    tables_of(directory).take(["flights"])
    make_file(tmp_path, ZERO, 5, 9)
    for _ in range(2):
        tables_of(directory).take(["flights"])
    assert offsets_in_table(tmp_path / "flights", ZERO) == [*range(9)]


@pytest.mark.parametrize("has_table", [False, True])
def test_of_two_runners_with_one_file_one_adds_it(directory: Directory, tmp_path: Path, has_table: bool) -> None:
    if has_table:
        make_file(tmp_path, ZERO, 0, 5)
    runners = [tables_of(directory), tables_of(directory)]
    for one in runners:
        one.take(["flights"])
    name = make_file(tmp_path, ZERO, 5, 9)
    for one in runners:
        one.note(name.path)
        one.publish()
    assert offsets_in_table(tmp_path / "flights", ZERO) == [*range(0 if has_table else 5, 9)]


@pytest.mark.parametrize("has_table", [False, True])
def test_a_commit_that_comes_between_the_look_and_the_commit_is_looked_at(
    directory: Directory, tmp_path: Path, has_table: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_table:
        make_file(tmp_path, ZERO, 0, 5)
    slow, quick = tables_of(directory), tables_of(directory)
    for one in (slow, quick):
        one.take(["flights"])
    name = make_file(tmp_path, ZERO, 5, 9)
    whole = DeltaLog.add
    others = [quick]

    def add(self: DeltaLog, capture: str, files: Sequence[FileName], ends: Mapping[Partition, int]) -> bool:
        if others:
            other = others.pop()
            other.note(name.path)
            other.note(make_file(tmp_path, ONE, 0, 3).path)
            other.publish()
        return whole(self, capture, files, ends)

    monkeypatch.setattr(DeltaLog, "add", add)
    slow.note(name.path)
    slow.publish()
    assert offsets_in_table(tmp_path / "flights", ZERO) == [*range(0 if has_table else 5, 9)]
    assert offsets_in_table(tmp_path / "flights", ONE) == [0, 1, 2]


def test_a_table_that_was_compacted_takes_more_files(directory: Directory, tmp_path: Path) -> None:
    make_file(tmp_path, ZERO, 0, 5)
    make_file(tmp_path, ZERO, 5, 7)
    tables = tables_of(directory)
    tables.take(["flights"])
    DeltaTable(tmp_path / "flights").optimize.compact()
    tables.note(make_file(tmp_path, ZERO, 7, 9).path)
    tables.publish()
    assert sorted(offsets_in_table(tmp_path / "flights", ZERO)) == [*range(9)]
    log = DeltaLog(directory, "flights")
    assert (len(log.files().files), log.files().others) == (1, 1)
    assert log.ends("lake", [ZERO]) == {ZERO: 9}


def test_files_with_other_columns_are_refused(directory: Directory, tmp_path: Path) -> None:
    make_file(tmp_path, ZERO, 0, 5)
    tables_of(directory).take(["flights"])
    make_file(tmp_path, ZERO, 5, 9, schema=SCHEMA.append(pa.field("carrier", pa.string())))
    with pytest.raises(RefusedError, match=r"0-5-9.parquet has other columns than the table of topic flights"):
        tables_of(directory).take(["flights"])


def test_a_field_with_the_name_of_the_day_is_refused(directory: Directory) -> None:
    with pytest.raises(RefusedError, match="values have a field dt"):
        Tables(directory, "lake", ["key", "dt"])


def test_a_log_that_cannot_be_read_is_named(directory: Directory, tmp_path: Path) -> None:
    (tmp_path / "flights/_delta_log").mkdir(parents=True)
    (tmp_path / "flights/_delta_log/00000000000000000000.json").write_text("{")
    make_file(tmp_path, ZERO, 0, 5)
    with pytest.raises(ConsumerError, match=r"the Delta table .*/flights: .*: look at its log"):
        tables_of(directory).take(["flights"])
