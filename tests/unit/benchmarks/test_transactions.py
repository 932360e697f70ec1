"""The benchmark of transactions and compaction: its data, and its files."""

import json
from pathlib import Path

import pytest

from benchmarks.results import ESP, KAFKA, Results
from benchmarks.transactions.__main__ import NOTES, ROWS
from benchmarks.transactions.keyed_batches import BATCH_RECORDS, KEY_SIZE, VALUE_SIZE, keyed_batches
from benchmarks.transactions.metrics import COMPACT_PLAIN, LOAD_IDS, TRANSACTION_METRICS
from benchmarks.transactions.sizes import describe_sizes
from benchmarks.written import Rows
from esp.records.batch import check_batch, iterate_records
from esp.records.batch_header import read_header


@pytest.mark.parametrize("codec", [0, 4])
def test_batches_are_sound_and_have_as_many_keys_as_asked_for(codec: int) -> None:
    keys = set()
    count = 0
    for batch in keyed_batches(2_000_000, 0.1, codec, seed=1):
        check_batch(batch, read_header(batch))
        records = list(iterate_records(batch))
        assert len(records) == BATCH_RECORDS
        assert {(len(record.key or b""), len(record.value or b"")) for record in records} == {(KEY_SIZE, VALUE_SIZE)}
        keys.update(record.key for record in records)
        count += len(records)
    assert 0.09 * count < len(keys) < 0.11 * count


def results_of(**values: float) -> Results:
    results = Results(TRANSACTION_METRICS)
    for name, value in values.items():
        results.add(name, {COMPACT_PLAIN: value})
    return results


def test_rows_that_are_not_measured_stay_as_they_are(tmp_path: Path) -> None:
    rows = Rows(tmp_path, ["first", "second"], stem="transactions", title="Transactions", metrics=TRANSACTION_METRICS)
    loads = Results(TRANSACTION_METRICS)
    loads.add(ESP, {LOAD_IDS: 2.0})
    rows.put("second", {"scale": 1}, loads, [])
    rows.put("first", {"scale": 1}, results_of(**{ESP: 9.0, KAFKA: 6.0}), ["a\nnote"])
    page, raw = rows.put("first", {"scale": 0.5}, results_of(**{ESP: 3.0, KAFKA: 6.0}), ["a\nnote"])
    text = page.read_text()
    assert "| 0.50 | 1 of Kafka's | met |" in text
    assert text.index("## first") < text.index("scale 0.5") < text.index("## second") < text.index("- a note")
    assert "Start after kill -9" in text
    assert list(json.loads(raw.read_text())) == ["first", "second"]


def test_a_row_tells_the_rounds_that_it_had_and_not_those_that_were_asked_for(tmp_path: Path) -> None:
    rows = Rows(tmp_path, ["row"], stem="transactions", title="Transactions", metrics=TRANSACTION_METRICS)
    results = results_of(**{ESP: 9.0, KAFKA: 6.0})
    for seconds in (8.0, 7.0):
        results.add(ESP, {COMPACT_PLAIN: seconds})
    page, raw = rows.put("row", {"rounds": 5, "scale": 1}, results, [])
    assert json.loads(raw.read_text())["row"]["about"]["rounds"] == 3
    assert "rounds 3, scale 1" in page.read_text()


def test_the_page_tells_the_size_of_each_row_at_the_scale_that_it_had() -> None:
    assert all(f"{row} " in describe_sizes() for row in ROWS)
    page = (Path(__file__).parents[3] / "benchmarks" / "results" / "transactions.md").read_text(encoding="utf-8")
    for sizes in (
        "many-ids 100,000 ids, streams 1,000,000 lines",
        "many-ids 50,000 ids, streams 250,000 lines",
        "compaction 0.5 GB, compaction-memory 0.5 GB, while-cleaning 0.25 GB",
        "one-record 1,500 transactions of 100 producers, 375 of one",
    ):
        assert any(sizes in note for note in NOTES)
        assert sizes in page
