"""The progress of a reader of dead letters."""

from types import SimpleNamespace

from esp.cli.kafka.answers import ConsumedRecord, PartitionId
from esp.cli.kafka.letters import LetterReader


def test_letters_that_are_given_back_are_left_and_read_again():
    sought = []
    reader = LetterReader("", "dlq.t", "g", commits=False)
    reader._client = SimpleNamespace(seek=lambda partition, offset: sought.append((partition.partition, offset)))
    reader._ends = {PartitionId("dlq.t", 0): 9, PartitionId("dlq.t", 1): 4}
    reader._next = dict(reader._ends)
    assert reader.left == 0
    reader.give_back(
        [
            ConsumedRecord("dlq.t", partition, offset, 0, 0, (), None, None)
            for partition, offset in ((0, 7), (0, 8), (1, 2))
        ]
    )
    assert reader.left == 2 + 2
    assert sought == [(0, 7), (1, 2)]
