from pathlib import Path

import pytest

from esp.checkpoints.batch_files import Place
from esp.checkpoints.checkpoint import read_checkpoint
from esp.cli.spark.checkpoint_places import open_files
from esp.model.errors import OperatorError
from tests.unit.checkpoints.made_checkpoint import QUERY_ID, write_checkpoint

BATCHES = tuple({"t": {"0": number, "1": 2 * number}} for number in range(12))


@pytest.fixture(params=["{}", "file://{}"], ids=["path", "URL"])
def place(request: pytest.FixtureRequest) -> str:
    if "://" in request.param:
        pytest.importorskip("pyarrow")
    return request.param


def test_a_query_goes_on_where_its_last_batch_ended(tmp_path: Path, place: str) -> None:
    found = read_checkpoint(open_files(place.format(write_checkpoint(tmp_path, *BATCHES))))
    assert (found.query_id, found.planned, found.committed) == (QUERY_ID, 11, 11)
    assert found.under_way is None
    assert found.offsets == {Place("t", 0): 11, Place("t", 1): 22}
    assert not found.has_state
    assert found.changed_s == pytest.approx((tmp_path / "commits" / "11").stat().st_mtime, abs=1)


def test_a_batch_that_is_planned_and_not_done_is_under_way(tmp_path: Path, place: str) -> None:
    found = read_checkpoint(open_files(place.format(write_checkpoint(tmp_path, *BATCHES, committed=11))))
    assert (found.planned, found.committed) == (11, 10)
    assert found.under_way is not None
    assert [*found.under_way.kafka_sources()] == [(0, {Place("t", 0): 11, Place("t", 1): 22})]
    assert found.offsets == {Place("t", 0): 10, Place("t", 1): 20}


def test_a_query_that_has_done_nothing_yet_has_no_offsets(tmp_path: Path, place: str) -> None:
    found = read_checkpoint(open_files(place.format(write_checkpoint(tmp_path, *BATCHES[:1], committed=0))))
    assert (found.planned, found.committed, found.done, found.offsets) == (0, None, None, {})


def test_state_is_seen(tmp_path: Path, place: str) -> None:
    write_checkpoint(tmp_path, *BATCHES)
    (tmp_path / "state" / "0" / "1").mkdir(parents=True)
    assert read_checkpoint(open_files(place.format(tmp_path))).has_state


def test_of_two_sources_that_read_a_partition_the_one_that_is_behind_counts(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, '{"t":{"0":9}}\n{"t":{"0":4},"u":{"3":1}}')
    assert read_checkpoint(open_files(str(tmp_path))).offsets == {Place("t", 0): 4, Place("u", 3): 1}


@pytest.mark.parametrize("gone", ["metadata", "offsets"])
def test_another_directory_is_no_checkpoint(tmp_path: Path, gone: str) -> None:
    directory = write_checkpoint(tmp_path / "a", *BATCHES)
    (directory / gone).rename(tmp_path / gone)
    with pytest.raises(OperatorError, match=f"no checkpoint of a streaming query: it has no {gone}"):
        read_checkpoint(open_files(str(directory)))
    with pytest.raises(OperatorError, match="no checkpoint"):
        read_checkpoint(open_files(str(tmp_path / "nowhere")))


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (write_checkpoint(tmp_path, *BATCHES) / "offsets" / "11").unlink()
    with pytest.raises(OperatorError, match=r"cannot be read: .*offsets/11"):
        read_checkpoint(open_files(str(tmp_path)))


def test_urls_that_nobody_knows_are_refused() -> None:
    with pytest.raises(OperatorError, match="ftpx://host/a"):
        open_files("ftpx://host/a")
