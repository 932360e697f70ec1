"""The logs of a node that are compacted, by its files."""

from pathlib import Path

from esp.model.ids import TopicPartition
from esp.storage.checkpoints import encode_checkpoint
from esp.testing.node import Node
from tests.ecosystem.files import compacted_logs

CLEANED, UNTOUCHED = TopicPartition("t", 0), TopicPartition("t", 1)


def test_log_is_compacted_that_is_clean_up_to_somewhere(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert compacted_logs(node) == set()
    (tmp_path / "cleaner-offset-checkpoint").write_bytes(encode_checkpoint({CLEANED: 7, UNTOUCHED: 0}))
    assert compacted_logs(node) == {CLEANED}
