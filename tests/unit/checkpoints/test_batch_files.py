import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.checkpoints.batch_files import (
    BatchOffsets,
    Place,
    check_commit,
    parse_batch,
    parse_offsets,
    parse_query_id,
    write_batch,
    write_offsets,
)
from esp.model.errors import OperatorError
from tests.unit.checkpoints.made_checkpoint import TERMS

TEXT = f'v1\n{TERMS}\n{{"t":{{"0":23,"1":42}}}}\n-\n{{"logOffset":3}}'


def test_a_batch_is_written_as_it_was_read() -> None:
    batch = parse_batch("offsets/3", TEXT)
    assert batch.sources == ('{"t":{"0":23,"1":42}}', "-", '{"logOffset":3}')
    assert write_batch(batch) == TEXT


def test_sources_of_another_kind_have_no_offsets_and_stay_as_they_are() -> None:
    batch = parse_batch("offsets/3", TEXT)
    assert [*batch.kafka_sources()] == [(0, {Place("t", 0): 23, Place("t", 1): 42})]
    changed = batch.with_offsets({Place("t", 1): 7, Place("u", 0): 1})
    assert changed.terms == TERMS
    assert changed.sources == ('{"t":{"0":23,"1":7}}', "-", '{"logOffset":3}')


def test_each_source_that_reads_a_partition_is_changed() -> None:
    batch = BatchOffsets(TERMS, ('{"t":{"0":5}}', '{"t":{"0":9},"u":{"0":2}}'))
    assert batch.with_offsets({Place("t", 0): 1}).sources == ('{"t":{"0":1}}', '{"t":{"0":1},"u":{"0":2}}')


@pytest.mark.parametrize(("text", "words"), [(f"v2\n{TERMS}\n-", "'v2'"), ("", "''"), (f"v1\n{TERMS}", "not whole")])
def test_a_file_of_another_form_is_refused_by_its_name(text: str, words: str) -> None:
    with pytest.raises(OperatorError, match=f"offsets/3.*{words}"):
        parse_batch("offsets/3", text)


def test_commits_of_both_known_forms_are_taken() -> None:
    check_commit("commits/3", 'v1\n{"nextBatchWatermarkMs":0}')
    check_commit("commits/3", 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}')
    with pytest.raises(OperatorError, match=r"commits/3.*'v3'"):
        check_commit("commits/3", "v3\n{}")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"id": 3}'])
def test_a_file_without_an_id_is_no_query_s(text: str) -> None:
    assert parse_query_id("metadata", '{"id":"some"}') == "some"
    with pytest.raises(OperatorError, match="no id of a query"):
        parse_query_id("metadata", text)


@given(
    st.dictionaries(
        st.builds(Place, st.from_regex(r"[a-zA-Z0-9._-]{1,9}", fullmatch=True), st.integers(0, 99)),
        st.integers(0, 2**62),
        min_size=1,
    )
)
def test_offsets_come_back(offsets: dict[Place, int]) -> None:
    assert parse_offsets(write_offsets(offsets)) == offsets


@pytest.mark.parametrize(
    "text", ["", "-", "7", "{}", '{"t":[0]}', '{"t":{"x":1}}', '{"t":{"0":"1"}}', '{"t":{"0":-2}}']
)
def test_what_are_no_offsets_is_refused(text: str) -> None:
    with pytest.raises(OperatorError, match="not offsets of partitions") as refused:
        parse_offsets(text)
    assert '{"topic": {"0": 23, "1": 42}}' in refused.value.remedy
