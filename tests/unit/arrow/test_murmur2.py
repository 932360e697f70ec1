import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from esp.arrow.murmur2 import murmur2
from esp.producer.partitioner import murmur2 as one_by_one


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(0, 3))
def test_hashes_are_those_of_kafka_s_partitioner(keys: list[bytes | None], first: int) -> None:
    column = pa.array(keys, pa.binary()).slice(min(first, len(keys)))
    assert murmur2(column).tolist() == [one_by_one(key or b"") for key in keys[first:]]
