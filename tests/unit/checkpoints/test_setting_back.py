import shutil
from pathlib import Path

import pytest

from esp.checkpoints import setting_back
from esp.checkpoints.batch_files import Place
from esp.checkpoints.checkpoint import Checkpoint, read_checkpoint
from esp.checkpoints.setting_back import (
    Change,
    check_can_be_set_back,
    check_has_no_state,
    plan_back_to,
    plan_to_offsets,
    set_back,
)
from esp.cli.spark.checkpoint_places import open_files
from esp.model.errors import OperatorError
from tests.unit.checkpoints.made_checkpoint import TERMS, write_checkpoint

A, B, C = Place("t", 0), Place("t", 1), Place("u", 0)
CURRENT = {A: 100, B: 50}


def checkpoint_of(directory: Path) -> Checkpoint:
    return read_checkpoint(open_files(str(directory)))


@pytest.mark.parametrize("place", ["{}", "file://{}"], ids=["path", "URL"])
def test_other_offsets_stand_in_the_last_batch_and_the_copy_has_the_ones_of_before(tmp_path: Path, place: str) -> None:
    directory = write_checkpoint(tmp_path / "query", {"t": {"0": 60, "1": 20}}, {"t": {"0": 100, "1": 50}})
    files = open_files(place.format(directory))
    copied = set_back(files, read_checkpoint(files), [Change(A, 100, 70)], ".before-x")
    assert copied == place.format(f"{directory}.before-x")
    assert (directory / "offsets" / "1").read_text() == f'v1\n{TERMS}\n{{"t":{{"0":70,"1":50}}}}'
    after = checkpoint_of(directory)
    assert (after.planned, after.committed, after.offsets) == (1, 1, {A: 70, B: 50})
    assert checkpoint_of(Path(f"{directory}.before-x")).offsets == CURRENT
    shutil.rmtree(f"{directory}.before-x")


def test_hadoop_s_checksum_of_what_was_there_before_goes(tmp_path: Path) -> None:
    directory = write_checkpoint(tmp_path / "query", {"t": {"0": 100}})
    files = open_files(str(directory))
    set_back(files, read_checkpoint(files), [Change(A, 100, 7)], ".before")
    assert sorted(path.name for path in (directory / "offsets").iterdir()) == ["0"]
    assert (directory / "commits" / ".0.crc").exists()


@pytest.mark.parametrize("place", ["{}", "file://{}"], ids=["path", "URL"])
def test_an_earlier_copy_stays_and_the_next_one_gets_a_number(tmp_path: Path, place: str) -> None:
    directory = write_checkpoint(tmp_path / "query", {"t": {"0": 100}})
    files = open_files(place.format(directory))
    copies = [
        set_back(files, checkpoint_of(directory), [Change(A, before, before - 1)], ".before")
        for before in (100, 99, 98)
    ]
    assert copies == [place.format(f"{directory}.before{number}") for number in ("", "-2", "-3")]
    assert [checkpoint_of(tmp_path / f"query.before{number}").offsets for number in ("", "-2", "-3")] == [
        {A: 100},
        {A: 99},
        {A: 98},
    ]


@pytest.mark.parametrize("place", ["{}", "file://{}"], ids=["path", "URL"])
def test_nothing_is_changed_where_nothing_can_be_copied(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setting_back, "COPIES_OF_ONE_SUFFIX", 2)
    directory = write_checkpoint(tmp_path / "query", {"t": {"0": 100}})
    (tmp_path / "query.before").mkdir()
    (tmp_path / "query.before-2").mkdir()
    files = open_files(place.format(directory))
    with pytest.raises(OperatorError, match="cannot be changed"):
        set_back(files, checkpoint_of(directory), [Change(A, 100, 7)], ".before")
    assert checkpoint_of(directory).offsets == {A: 100}


def test_a_query_that_runs_or_has_a_batch_under_way_is_left_alone(tmp_path: Path) -> None:
    done = checkpoint_of(write_checkpoint(tmp_path / "done", {"t": {"0": 1}}))
    assert done.changed_s is not None
    check_can_be_set_back(done, done.changed_s + 10)
    with pytest.raises(OperatorError, match=r"changed 9 s ago: its query seems to run"):
        check_can_be_set_back(done, done.changed_s + 9.4)
    for name, batches, committed, words in (
        ("under way", ({"t": {"0": 1}}, {"t": {"0": 2}}), 1, "batch 1 is planned and not done"),
        ("planned", ({"t": {"0": 1}},), 0, "batch 0 is planned and not done"),
        ("new", (), None, "no batch is done yet"),
        ("rate", ('{"logOffset":3}',), None, "none of its sources"),
    ):
        found = checkpoint_of(write_checkpoint(tmp_path / name, *batches, committed=committed))
        with pytest.raises(OperatorError, match=words):
            check_can_be_set_back(found, done.changed_s + 1000)


def test_a_query_with_state_gets_the_offsets_for_a_new_checkpoint(tmp_path: Path) -> None:
    found = checkpoint_of(write_checkpoint(tmp_path, {"t": {"0": 100, "1": 50}}))
    check_has_no_state(found, {A: 7})
    with pytest.raises(OperatorError, match="has state") as refused:
        check_has_no_state(found._replace(has_state=True), {A: 7})
    assert 'startingOffsets={"t":{"0":7,"1":50}}' in refused.value.remedy


def test_offsets_that_are_named_go_back_and_never_forward() -> None:
    earliest = {A: 10, B: 0}
    assert plan_to_offsets(CURRENT, {A: 10, B: 50}, earliest) == [Change(A, 100, 10)]
    for wanted, words in (
        ({A: 101}, "ahead of 100"),
        ({A: 9}, "from 9 on are gone; the first one that is there is 10"),
        ({C: 0}, "u-0 is not read by the query"),
    ):
        with pytest.raises(OperatorError, match=words):
            plan_to_offsets(CURRENT, wanted, earliest)


def test_a_time_moves_only_the_partitions_that_are_further() -> None:
    assert plan_back_to(CURRENT, {A: 40, B: 60}) == [Change(A, 100, 40)]
    assert plan_back_to(CURRENT, {A: -1, C: 0}) == []
