import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.capture.position import Position, group_of, read_position
from esp.consumer.group_messages import Committed

POSITION = Position(
    7, 3, "t/dt=2026-11-26/0-3-7.parquet", "_work/t-0-3-a.parquet", "a", "b7c0ffee00000000000000000000f1a9"
)
OFFSETS_METADATA_BYTES = 4096
"""``offset.metadata.max.bytes`` of brokers."""


@given(st.integers(0, 2**62), st.integers(0, 2**62), st.text(), st.text(), st.text(), st.text())
def test_position_is_read_back(begin: int, size: int, file: str, work: str, runner: str, topic_id: str) -> None:
    position = Position(begin + size, begin, file, work, runner, topic_id)
    assert read_position(position.to_committed()) == position


@pytest.mark.parametrize(
    "committed",
    [
        Committed(7),
        Committed(7, "{}"),
        Committed(7, "[1]"),
        Committed(7, '{"batch":6,"rows":1,"keys":"0","partitions":1}'),  # a sink's
        Committed(2, POSITION.to_committed().metadata),  # set back by a tool
        Committed(7, POSITION.to_committed().metadata.replace('"begin":3', '"begin":"3"')),
    ],
)
def test_offset_of_another_program_is_no_position(committed: Committed) -> None:
    assert read_position(committed) is None


def test_longest_position_is_what_brokers_take() -> None:
    topic = "t" * 249
    file = f"{topic}/dt=2026-11-26/1000000-{2**63 - 1}-{2**63 - 1}.parquet"
    position = POSITION._replace(file=file, work=f"_work/{topic}-1000000-{2**63 - 1}-{'a' * 16}.parquet")
    assert len(position.to_committed().metadata) < OFFSETS_METADATA_BYTES
    assert group_of("lake") == "esp-capture.lake"
