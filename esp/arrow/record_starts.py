"""The places where records begin. Each record says where the next one begins, so that one walk would be a step for each record.

Many walks go side by side, a step of all of them is a few operations of numpy. Each batch is a walk; a batch of many records is several:
their starts are guessed (a place from which sound records follow one another), and a guess was right if the walk before it ends there.
Where one was wrong, or the records are not sound, the batch is walked record by record; that walk finds the fault.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from esp.arrow.errors import BrokenRecordsError
from esp.arrow.varints import SIZES, VALUES, Numbers, Octets, words_of

_STEPS: Final = 256
"""Records of one walk: enough walks for a step to be worth its fixed cost, few enough that guesses cost little."""

_GUESS_ROUNDS: Final = 4
_WINDOW_MAX: Final = 2048
_RECORD_LEAST: Final = 6
"""Attributes, timestamp, offset, length of the key, length of the value, number of headers."""


def _make_advances() -> NDArray[np.int32]:
    """By the two bytes at a record's start: the size of the whole record; 0 if its length takes more bytes, or is impossible."""
    sizes = SIZES.astype(np.int32)
    return np.where((sizes > 0) & (VALUES >= _RECORD_LEAST), sizes + VALUES, 0).astype(np.int32)


_ADVANCES: Final = _make_advances()


def find_record_starts(octets: Octets, begins: Numbers, ends: Numbers, counts: Numbers) -> Numbers:
    """Return where the records of some batches begin, in order.

    Args:
        octets: the bytes; :data:`~esp.arrow.varints.SLACK` of them follow the last batch.
        begins: where each batch's records begin, rising.
        ends: where they end.
        counts: the number of records of each batch.

    Raises:
        BrokenRecordsError: the records do not fill a batch, or are more or fewer than it says.
    """
    words = words_of(octets)
    full = counts > 0
    if np.any(begins[~full] != ends[~full]):
        raise BrokenRecordsError("bytes follow the last of 0 records")
    begins, ends, counts = begins[full], ends[full], counts[full]
    if not len(begins):
        return np.zeros(0, np.int64)
    starts, batches = _guess_starts(octets, words, begins, ends, counts)
    limits = np.append(starts[1:], ends[-1])
    is_last = np.append(batches[1:] != batches[:-1], True)
    limits[is_last] = ends
    walked, lost = _walk(octets, words, starts, limits)
    doubtful = np.unique(batches[lost])
    found = np.sort(walked)
    seen = np.searchsorted(found, ends) - np.searchsorted(found, begins)
    doubtful = np.union1d(doubtful, np.flatnonzero(seen != counts))
    if not len(doubtful):
        return found
    keep = np.ones(len(found), bool)
    more = []
    for batch in doubtful:
        keep[np.searchsorted(found, begins[batch]) : np.searchsorted(found, ends[batch])] = False
        more.append(_walk_one(octets, int(begins[batch]), int(ends[batch]), int(counts[batch])))
    return np.sort(np.concatenate([found[keep], *more]))


def _guess_starts(
    octets: Octets, words: NDArray[np.uint16], begins: Numbers, ends: Numbers, counts: Numbers
) -> tuple[Numbers, Numbers]:
    """The starts of the walks, in order, and the batch of each."""
    batches = np.arange(len(begins))
    walks = np.maximum(counts // _STEPS, 1)
    if walks.max() == 1:
        return begins, batches
    of_batch = np.repeat(batches, walks)
    number = np.arange(len(of_batch)) - np.repeat(np.cumsum(walks) - walks, walks)
    sizes = ends - begins
    targets = begins[of_batch] + sizes[of_batch] * number // walks[of_batch]
    guessed = number > 0
    window = int(min(_WINDOW_MAX, 2 * (sizes // counts).max() + 8))
    places = (targets[guessed][:, None] + np.arange(window)).ravel()
    walk = np.repeat(np.flatnonzero(guessed), window)
    stops = ends[of_batch[walk]]
    inside = places < stops
    places, walk, stops = places[inside], walk[inside], stops[inside]
    at = places
    for _ in range(_GUESS_ROUNDS):
        heads = words[np.minimum(at, stops - 1)]
        sizes_ahead = SIZES[heads]
        advances = _ADVANCES[heads]
        ahead = at + advances
        done = at == stops
        sound = (advances > 0) & (octets[np.minimum(at + sizes_ahead, stops)] == 0) & (ahead <= stops)
        kept = sound | done
        at = np.where(done, at, ahead)[kept]
        places, walk, stops = places[kept], walk[kept], stops[kept]
    first = np.unique(walk, return_index=True)
    starts = np.concatenate([begins, places[first[1]]])
    owners = np.concatenate([batches, of_batch[first[0]]])
    order = np.lexsort((starts, owners))
    starts, owners = starts[order], owners[order]
    distinct = np.append(True, starts[1:] != starts[:-1])
    return starts[distinct], owners[distinct]


def _walk(
    octets: Octets, words: NDArray[np.uint16], starts: Numbers, limits: Numbers
) -> tuple[Numbers, NDArray[np.intp]]:
    """Walk from each start to its limit, all side by side; return the starts of records, and the walks that did not end there."""
    found = [starts]
    at = starts
    walks = np.arange(len(starts))
    lost: list[NDArray[np.intp]] = []
    while True:
        advances = _ADVANCES[words[at]]
        if not advances.all():
            advances = _advance_long(octets, at, advances)
        at = at + advances
        goes_on = (at < limits) & (advances > 0)
        if not goes_on.all():
            strayed = (at != limits) & ~goes_on
            if strayed.any():
                lost.append(walks[strayed])
            at, limits, walks = at[goes_on], limits[goes_on], walks[goes_on]
            if not len(at):
                break
        found.append(at)
    return np.concatenate(found), np.concatenate(lost) if lost else np.zeros(0, np.intp)


def _advance_long(octets: Octets, at: Numbers, advances: NDArray[np.int32]) -> NDArray[np.int32]:
    """The sizes of records, also of those whose length takes more than two bytes; 0 where the length is impossible."""
    advances = advances.copy()
    for index in np.flatnonzero(advances == 0):
        size = _read_record_size(octets, int(at[index]), len(octets))
        advances[index] = size or 0
    return advances


def _read_record_size(octets: Octets, position: int, stop: int) -> int | None:
    """The size of one record with its length, None if there is none."""
    raw = 0
    for number in range(5):
        byte = int(octets[position + number])
        raw |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            size = number + 1 + (raw >> 1)
            return None if raw & 1 or raw >> 1 < _RECORD_LEAST or position + size > stop else size
    return None


def _walk_one(octets: Octets, begin: int, end: int, count: int) -> Numbers:
    """Walk through one batch record by record.

    Raises:
        BrokenRecordsError: see :func:`find_record_starts`.
    """
    found = np.empty(count, np.int64)
    at = begin
    for number in range(count):
        found[number] = at
        size = _read_record_size(octets, at, end) if at < end else None
        if size is None:
            raise BrokenRecordsError(f"record {number} of {count} does not fit the {end - at} bytes that are left")
        at += size
    if at != end:
        raise BrokenRecordsError(f"{end - at} bytes follow the last of {count} records")
    return found
