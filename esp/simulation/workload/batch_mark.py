"""The mark of a batch: it tells the batches of all producers of a run apart, wherever a batch stands.

A checksum alone does not: of the 30,000 batches of a long run, two have the same one about every tenth time.
"""

from typing import NamedTuple


class BatchMark(NamedTuple):
    """The fields of a batch that its producer set, and that the broker keeps."""

    crc: int
    size: int
    producer_id: int
    base_sequence: int
