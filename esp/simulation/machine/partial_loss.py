"""The files of a device that lost a part of what it had said to hold: of some files the last sectors that were written since a moment.

The names reached it, as a file system's journal does when the data does not: a file that was replaced whole may be empty.
"""

from random import Random
from typing import Final

from esp.simulation.machine.disk_image import DiskImage
from esp.simulation.machine.file_content import SECTOR_BYTES

SHARES: Final = (0.1, 0.5, 1.0)
"""The shares, one of which is drawn, of the files written to since the moment that lose something."""

ZEROS_SHARE: Final = 0.3
"""The share of the losses, in files that may have zeros, in which the length has reached the device. In the others the file is shorter."""


def lose_last_sectors(data: bytes, held: bytes, rng: Random, *, may_have_zeros: bool) -> bytes:
    """One file without its last sectors.

    Args:
        data: what was synced.
        held: what the device had at the moment from which on it lost writes: what is the same in both is never lost.
        rng: says how much is lost; at least the last byte that is not the same, if there is one.
        may_have_zeros: whether zeros may stand there.
    """
    first = _equal_sectors(data, held) * SECTOR_BYTES
    if first >= len(data):
        return data
    kept = data[: rng.randrange(first, len(data), SECTOR_BYTES)]
    return kept.ljust(len(data), b"\0") if may_have_zeros and rng.random() < ZEROS_SHARE else kept


def lose_parts(image: DiskImage, held: DiskImage, rng: Random, sealed: frozenset[str]) -> tuple[DiskImage, list[str]]:
    """A device's files, and the paths of those that lost something.

    Args:
        image: what was synced.
        held: what the device had at the moment from which on it lost writes.
        rng: says what is lost.
        sealed: files in which no zeros stand, but which may be shorter.
    """
    share = rng.choice(SHARES)
    found = {
        path: lose_last_sectors(data, held.get(path, b""), rng, may_have_zeros=path not in sealed)
        if rng.random() < share
        else data
        for path, data in image.items()
    }
    return found, [path for path, data in found.items() if data != image[path]]


def _equal_sectors(first: bytes, second: bytes) -> int:
    """The number of whole sectors, or of the last one of both, that are the same in both from the beginning on."""
    number = 0
    while number * SECTOR_BYTES < len(first):
        start = number * SECTOR_BYTES
        if first[start : start + SECTOR_BYTES] != second[start : start + SECTOR_BYTES]:
            break
        number += 1
    return number
