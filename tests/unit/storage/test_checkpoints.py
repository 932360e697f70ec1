import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.ids import TopicPartition
from esp.storage.checkpoints import decode_checkpoint, encode_checkpoint, read_checkpoint, write_checkpoint_blocking
from tests.unit.storage.helpers import new_disk

topics = st.text("abcXYZ019._-", min_size=1, max_size=12)
checkpoints = st.dictionaries(st.builds(TopicPartition, topics, st.integers(0, 99)), st.integers(0, 2**60))


@given(checkpoints)
def test_the_text_is_read_back(offsets: dict[TopicPartition, int]) -> None:
    assert decode_checkpoint(encode_checkpoint(offsets)) == offsets


def test_the_text_is_kafka_s() -> None:
    assert encode_checkpoint({TopicPartition("b", 0): 7, TopicPartition("a", 3): 12}) == b"0\n2\na 3 12\nb 0 7\n"
    assert encode_checkpoint({}) == b"0\n0\n"


@pytest.mark.parametrize(
    "data", [b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na x 1\n", b"0\n1\na 0 -1\n", b"\xff", b"0"]
)
def test_what_cannot_be_read_counts_as_absent_with_a_warning(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    disk.write_file("file", data)
    assert read_checkpoint(disk, "file") == {}
    assert "counts as absent" in caplog.text


def test_missing_and_empty_files_have_no_entries_silently(caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    assert read_checkpoint(disk, "file") == {}
    disk.write_file("file", b"")
    assert read_checkpoint(disk, "file") == {}
    assert not caplog.records


def test_a_written_file_survives_a_power_loss() -> None:
    disk = new_disk()
    write_checkpoint_blocking(disk, "file", {TopicPartition("a", 0): 5})
    disk.power_loss()
    assert read_checkpoint(disk, "file") == {TopicPartition("a", 0): 5}
