"""Hypothesis strategies for records, shared by the tests of this directory."""

from hypothesis import strategies as st

from esp.records.builder import NewRecord

timestamps = st.integers(0, 2**45)
header_names = st.text(max_size=10)
headers = st.lists(st.tuples(header_names, st.none() | st.binary(max_size=20)), max_size=4).map(tuple)
new_records = st.builds(
    NewRecord,
    value=st.none() | st.binary(max_size=200),
    key=st.none() | st.binary(max_size=30),
    headers=headers,
    timestamp=timestamps,
)
record_lists = st.lists(new_records, min_size=1, max_size=12)
