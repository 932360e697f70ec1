"""The judge of read_committed readers."""

from tests.ecosystem.oracles.committed import judge_committed

COMMITTED, ABORTED = ["1", "2", "3"], ["8", "9"]


def test_all_committed_records_pass_in_any_order() -> None:
    assert judge_committed(COMMITTED, ABORTED, ["3", "1", "2"]) == []


def test_missing_record_is_found() -> None:
    assert judge_committed(COMMITTED, ABORTED, ["1", "2"]) == ["1 records missing, such as 3"]


def test_aborted_record_is_found() -> None:
    assert judge_committed(COMMITTED, ABORTED, [*COMMITTED, "8"]) == ["1 records aborted and read, such as 8"]


def test_repeated_record_is_found() -> None:
    assert judge_committed(COMMITTED, ABORTED, [*COMMITTED, "2"]) == ["1 records repeated, such as 2"]


def test_record_from_nowhere_is_found() -> None:
    assert judge_committed(COMMITTED, ABORTED, [*COMMITTED, "5"]) == ["1 records never written, such as 5"]
