"""Bits that flip on the wire where a checksum of Kafka's formats can tell: in the records of a batch, and the fields that its CRC covers.

TCP's checksum is weak, and memory on the way may be bad. Kafka's protocol has no checksum of its own for the rest of a message: a flipped
offset or epoch of a request is another request, of which nothing can be promised.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from crc32c import crc32c

from esp.model.buffers import Buffer
from esp.records.batch_header import ATTRIBUTES_OFFSET, CRC_OFFSET, HEADER_SIZE, LENGTH_OFFSET, MAGIC_OFFSET

_MAGIC: Final = b"\x02"

FLIPS_MAX: Final = 3
"""In one batch: so few CRC-32C always finds."""


def find_batches(data: bytes) -> Iterator[tuple[int, int]]:
    """The begin and the end of each batch in a stretch of bytes. Bytes without a checksum that matches are no batch."""
    place = data.find(_MAGIC, MAGIC_OFFSET)
    while place >= 0:
        start = place - MAGIC_OFFSET
        if start + HEADER_SIZE > len(data):
            return
        end = start + LENGTH_OFFSET + 4 + int.from_bytes(data[start + LENGTH_OFFSET : start + LENGTH_OFFSET + 4])
        if start + HEADER_SIZE < end <= len(data):
            crc = int.from_bytes(data[start + CRC_OFFSET : start + ATTRIBUTES_OFFSET])
            if crc32c(memoryview(data)[start + ATTRIBUTES_OFFSET : end]) == crc:
                yield start, end
                place = end + MAGIC_OFFSET - 1
        place = data.find(_MAGIC, place + 1)


class WireFlips:
    """Flips bits of what is sent, and remembers what it made of it.

    Args:
        rng: its own stream.
    """

    def __init__(self, rng: Random) -> None:
        self.count = 0
        """Batches that were spoilt."""
        self.excused = 0
        """The number of times that a reader was excused for one."""
        self._rng = rng
        self._spoilt: dict[tuple[str, bytes], None] = {}

    def maybe_spoil(self, buffers: Sequence[Buffer], target: str, share: float) -> Sequence[Buffer]:
        """The bytes that arrive at the host ``target`` of one write: with a chance of ``share`` one of its batches is spoilt."""
        if self._rng.random() >= share:
            return buffers
        data = bytearray(b"".join(buffers))
        batches = list(find_batches(bytes(data)))
        if not batches:
            return buffers
        start, end = self._rng.choice(batches)
        for place in self._rng.sample(range(start + CRC_OFFSET, end), self._rng.randint(1, FLIPS_MAX)):
            data[place] ^= 1 << self._rng.randrange(8)
        self.count += 1
        self._spoilt[target, bytes(data[start + CRC_OFFSET : end])] = None
        return [bytes(data)]

    def excuses(self, target: str, batch: Buffer) -> bool:
        """True if a batch that came to a host was spoilt on its way there: its reader sees that, and has to ask again."""
        is_excused = bool(self._spoilt) and (target, bytes(batch[CRC_OFFSET:])) in self._spoilt
        self.excused += is_excused
        return is_excused
