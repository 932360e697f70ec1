"""The states of transactional ids in the log of a stopped node."""

from pathlib import Path

from esp.records.builder import NewRecord, build_batch
from esp.schemas.transaction_record_codec import FLEXIBLE_VERSION, encode_transaction_key, encode_transaction_value
from esp.schemas.transaction_records import TransactionStatus, TransactionValue
from tests.ecosystem.handover import read_states


def state(transactional_id: str, status: TransactionStatus) -> NewRecord:
    """A record of the coordinator's."""
    value = TransactionValue(
        producer_id=7, producer_epoch=0, timeout_ms=1000, status=status, partitions=(), last_update_ms=1, start_ms=1
    )
    return NewRecord(encode_transaction_value(value, FLEXIBLE_VERSION), encode_transaction_key(transactional_id))


def test_last_state_of_each_id_is_found_over_segments_and_partitions(tmp_path: Path) -> None:
    logs = {
        "__transaction_state-0/00000000000000000000.log": [
            build_batch([state("a", TransactionStatus.ONGOING), state("b", TransactionStatus.ONGOING)]),
            build_batch([state("b", TransactionStatus.PREPARE_COMMIT)], base_offset=2),
        ],
        "__transaction_state-0/00000000000000000003.log": [
            build_batch([state("a", TransactionStatus.PREPARE_ABORT)], base_offset=3)
        ],
        "__transaction_state-1/00000000000000000000.log": [build_batch([state("c", TransactionStatus.EMPTY)])],
        "other-0/00000000000000000000.log": [build_batch([state("d", TransactionStatus.EMPTY)])],
    }
    for name, batches in logs.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(batches))
    assert {name: value.status for name, value in read_states([tmp_path]).items()} == {
        "a": TransactionStatus.PREPARE_ABORT,
        "b": TransactionStatus.PREPARE_COMMIT,
        "c": TransactionStatus.EMPTY,
    }


def test_log_whose_end_is_cut_short_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "__transaction_state-0" / "00000000000000000000.log"
    path.parent.mkdir()
    whole = build_batch([state("a", TransactionStatus.ONGOING)])
    path.write_bytes(whole + build_batch([state("a", TransactionStatus.COMPLETE_ABORT)], base_offset=1)[:-3])
    assert read_states([tmp_path])["a"].status is TransactionStatus.ONGOING
    path.write_bytes(whole + whole[:5])
    assert read_states([tmp_path])["a"].status is TransactionStatus.ONGOING


def test_compacted_segment_counts_that_was_about_to_replace_others(tmp_path: Path) -> None:
    directory = tmp_path / "__transaction_state-0"
    directory.mkdir()
    ongoing, prepared = state("a", TransactionStatus.ONGOING), state("b", TransactionStatus.PREPARE_COMMIT)
    (directory / "00000000000000000000.log.swap").write_bytes(build_batch([ongoing, prepared]))
    (directory / "00000000000000000000.log.deleted").write_bytes(build_batch([state("c", TransactionStatus.EMPTY)]))
    last = build_batch([state("a", TransactionStatus.COMPLETE_ABORT)], base_offset=5)
    (directory / "00000000000000000005.log").write_bytes(last)
    assert {name: value.status for name, value in read_states([tmp_path]).items()} == {
        "a": TransactionStatus.COMPLETE_ABORT,
        "b": TransactionStatus.PREPARE_COMMIT,
    }
