from esp.cli.dumping.file_dump import dump_aborted_transactions
from esp.storage.transaction_index import AbortedTransaction, TransactionIndex
from tests.unit.cli.dumping.test_segment_dump import complaints


def test_each_aborted_transaction_is_shown() -> None:
    index = TransactionIndex()
    index.entries.append(AbortedTransaction(3, 32, 35, 36))
    (found,) = dump_aborted_transactions(index.encode(0))
    assert found.text == "version: 0 producerId: 3 firstOffset: 32 lastOffset: 35 lastStableOffset: 36"
    assert not list(dump_aborted_transactions(b""))


def test_an_index_that_is_none_is_told() -> None:
    assert len(complaints(dump_aborted_transactions(b"\0" * 33))) == 1
