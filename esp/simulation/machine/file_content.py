"""The bytes of one simulated file: those in the page cache, and those on the device.

Invariants: a sector that is not dirty is either equal on both sides or was lost by a failed sync; dirty sectors are never cold. A file's
length is a pending change of its own whenever the two sides differ in it. What has rotted is remembered, so that an observer outside the
node can tell what was written.
"""

from random import Random
from typing import NamedTuple

SECTOR_BYTES = 4096
"""The bytes that the device writes as one piece; a power loss may still tear the one that it was writing."""


class PendingSync(NamedTuple):
    """The bytes that a sync that has begun will move to the device: exactly the writes issued before it."""

    sectors: list[tuple[int, bytes]]
    length: int
    sequence: int


class FileContent:
    """An inode of the simulated disk. Lengths and offsets in bytes; sectors are numbered from 0."""

    __slots__ = (
        "cached",
        "cold",
        "dirty",
        "durable",
        "identity",
        "modified_ms",
        "rotten",
        "sequence",
        "synced_sequence",
    )

    def __init__(self, modified_ms: int = 0) -> None:
        self.cached = bytearray()
        self.durable = bytearray()
        self.dirty: dict[int, int] = {}
        """Unsynced sectors, each with the number of the write that touched it last."""
        self.cold: set[int] = set()
        """Sectors that are not in the page cache."""
        self.sequence = 0
        self.synced_sequence = 0
        """The position at which the newest finished sync stood."""
        self.modified_ms = modified_ms
        self.identity = 0
        """Its number among the files of its disk, once it was asked for."""
        self.rotten: dict[int, int] = {}
        """The offsets at which bits have flipped (:meth:`rot`), and the bits; empty almost always."""

    def identify(self, number: int) -> int:
        """Its number, which is ``number`` if it has none yet."""
        self.identity = self.identity or number
        return self.identity

    def append(self, data: bytes) -> None:
        """Write at the end, into the page cache."""
        start = len(self.cached)
        self.cached += data
        self._touch(start, len(self.cached))

    def truncate(self, length: int) -> None:
        """Cut to ``length``. The device keeps the old length and the old bytes until a sync."""
        assert length <= len(self.cached)
        del self.cached[length:]
        self.sequence += 1
        sectors = _sector_count(length)
        self.dirty = {sector: sequence for sector, sequence in self.dirty.items() if sector < sectors}
        self.cold = {sector for sector in self.cold if sector < sectors}
        if self.rotten:
            self.rotten = {offset: mask for offset, mask in self.rotten.items() if offset < length}
        if length % SECTOR_BYTES:
            self._touch(length - 1, length)  # its rest is zeroed in the page cache, as Linux does

    @property
    def is_unsynced(self) -> bool:
        """True if a sync has something to do."""
        return bool(self.dirty) or len(self.cached) != len(self.durable)

    def begin_sync(self) -> PendingSync:
        """Return what a sync moves that begins now."""
        sectors = [(sector, bytes(self._cached_sector(sector))) for sector in sorted(self.dirty)]
        return PendingSync(sectors, len(self.cached), self.sequence)

    def finish_sync(self, pending: PendingSync) -> None:
        """Make durable what :meth:`begin_sync` returned; later writes stay dirty.

        A sync that began later and ended before did all of it, and knew of truncations since.
        """
        if pending.sequence < self.synced_sequence:
            return
        self.synced_sequence = pending.sequence
        for sector, data in pending.sectors:
            _write_sector(self.durable, sector, data)
        _set_length(self.durable, pending.length)
        self.dirty = {sector: sequence for sector, sequence in self.dirty.items() if sequence > pending.sequence}

    def fail_sync(self, rng: Random) -> None:
        """Do what Linux does after a failed write-back: mark the pages clean though only some of them reached the device."""
        for sector in sorted(self.dirty):
            if rng.random() < 0.5:
                _write_sector(self.durable, sector, bytes(self._cached_sector(sector)))
        self.dirty.clear()

    def lose_power(self, rng: Random) -> None:
        """Keep what was synced and a random part of what was not; afterwards nothing is cached."""
        low, high = sorted((len(self.durable), len(self.cached)))
        length = rng.choice((len(self.durable), len(self.cached), rng.randint(low, high)))
        image = bytearray(self.durable[:length])
        _set_length(image, length)
        chance = rng.choice((0.0, 0.5, 0.9, 1.0))
        survivors = [sector for sector in sorted(self.dirty) if rng.random() < chance]
        torn = survivors[-1] if survivors and rng.random() < 0.5 else -1
        for sector in survivors:
            data = self._cached_sector(sector).ljust(SECTOR_BYTES, b"\0")
            if sector == torn:
                data = data[: rng.randrange(SECTOR_BYTES)]
            start = sector * SECTOR_BYTES
            data = data[: max(0, length - start)]
            image[start : start + len(data)] = data
        self.cached = image
        self.durable = bytearray(image)
        self.dirty.clear()
        self.cold = set(range(_sector_count(length)))

    def evict(self, start: int, end: int) -> None:
        """Drop ``[start, end)`` from the page cache as far as it is clean. What a failed sync had lost, readers now miss too."""
        for sector in range(start // SECTOR_BYTES, _sector_count(min(end, len(self.cached)))):
            if sector not in self.dirty:
                self.cold.add(sector)
                begin = sector * SECTOR_BYTES
                size = len(self._cached_sector(sector))
                self.cached[begin : begin + size] = self.durable[begin : begin + size].ljust(size, b"\0")

    def is_resident(self, start: int, end: int) -> bool:
        """True if ``[start, end)`` is in the page cache."""
        return not self.cold or self.cold.isdisjoint(range(start // SECTOR_BYTES, _sector_count(end)))

    def load(self, start: int, end: int) -> None:
        """Bring ``[start, end)`` into the page cache."""
        self.cold.difference_update(range(start // SECTOR_BYTES, _sector_count(end)))

    def may_rot(self, offset: int) -> bool:
        """True if the device holds the byte, and the page cache nothing newer."""
        return offset < len(self.durable) and offset < len(self.cached) and offset // SECTOR_BYTES not in self.dirty

    def rot(self, offset: int, mask: int) -> None:
        """Flip bits of a byte on the device; the page cache lets go of its sector, so that the next reader gets them."""
        assert self.may_rot(offset)
        self.durable[offset] ^= mask
        self.evict(offset, offset + 1)
        self.rotten[offset] = self.rotten.get(offset, 0) ^ mask

    def mend(self) -> None:
        """Undo all rot, as an operator with a copy of the file does."""
        for offset, mask in self.rotten.items():
            self.flip(offset, mask)
        self.rotten.clear()

    def written(self, start: int, end: int) -> bytes:
        """The bytes that were written at ``[start, end)``, whatever has rotted of them since."""
        data = self.cached[start:end]
        for offset, mask in self.rotten.items():
            if start <= offset < start + len(data):
                data[offset - start] ^= mask
        return bytes(data)

    def is_rotten(self, start: int, end: int) -> bool:
        """True if any of ``[start, end)`` is not what was written."""
        return any(start <= offset < end for offset in self.rotten)

    def flip(self, offset: int, mask: int) -> None:
        """Flip bits of one byte, on the device and in the page cache."""
        self.cached[offset] ^= mask
        if offset < len(self.durable):
            self.durable[offset] ^= mask

    def _touch(self, start: int, end: int) -> None:
        self.sequence += 1
        for sector in range(start // SECTOR_BYTES, _sector_count(end)):
            self.dirty[sector] = self.sequence
            self.cold.discard(sector)

    def _cached_sector(self, sector: int) -> bytearray:
        return self.cached[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES]


def _sector_count(length: int) -> int:
    return -(-length // SECTOR_BYTES)


def _set_length(image: bytearray, length: int) -> None:
    """Cut the image, or extend it with zeros."""
    del image[length:]
    image.extend(bytes(length - len(image)))


def _write_sector(image: bytearray, sector: int, data: bytes) -> None:
    start = sector * SECTOR_BYTES
    if len(image) < start:
        _set_length(image, start)
    image[start : start + len(data)] = data
