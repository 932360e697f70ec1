"""How the records of a decision are divided into batches (BRK-6)."""

import pytest

from esp.controller.decision import BATCH_RECORDS_MAX, divide_into_batches
from esp.schemas.metadata_records import BeginTransactionRecord, EndTransactionRecord, NoOpRecord


@pytest.mark.parametrize("count", [1, BATCH_RECORDS_MAX])
def test_a_decision_that_fits_is_one_batch_without_a_transaction(count):
    records = [NoOpRecord()] * count
    assert divide_into_batches(records, "x") == [records]


def test_a_decision_without_records_is_no_batch():
    assert divide_into_batches((), "x") == []


@pytest.mark.parametrize("count", [BATCH_RECORDS_MAX + 1, 2 * BATCH_RECORDS_MAX - 2, 3 * BATCH_RECORDS_MAX])
def test_a_larger_decision_is_held_together_by_a_transaction(count):
    batches = divide_into_batches([NoOpRecord()] * count, "x")
    assert all(0 < len(batch) <= BATCH_RECORDS_MAX for batch in batches)
    whole = [record for batch in batches for record in batch]
    assert whole == [BeginTransactionRecord(name="x"), *[NoOpRecord()] * count, EndTransactionRecord()]


def test_records_that_are_a_transaction_already_are_not_wrapped_again():
    records = [BeginTransactionRecord(name="x"), *[NoOpRecord()] * 5, EndTransactionRecord()]
    batches = divide_into_batches(records, "y", 3)
    assert [len(batch) for batch in batches] == [3, 3, 1]
    assert [record for batch in batches for record in batch] == records
