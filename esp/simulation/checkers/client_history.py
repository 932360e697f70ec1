"""Judges a history of sends and reads, of simulated clients and of real ones: what a correct log can never show.

Every record carries a key and a number; a writer numbers the records of a key 0, 1, 2 ... in the order in which it sends them. The
reader reads every partition from its start to its end. Each anomaly (after Jepsen's checker for Kafka) is one function below.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

REFUSED_BUT_WRITTEN: Final = "refused but written"
"""The beginning of the anomaly that breaks a promise of refusals, not of acknowledgements (PROMISE-7)."""


class Outcome(Enum):
    """The writer's knowledge of a record, or of a batch, in the end."""

    ACKED = "acknowledged"
    REFUSED = "refused for certain"
    UNKNOWN = "neither"


class Sent(NamedTuple):
    """A record that a writer sent; the offset is the acknowledged one, None if there is none."""

    key: str
    number: int
    outcome: Outcome
    partition: int | None = None
    offset: int | None = None


class Read(NamedTuple):
    """A record as the reader got it."""

    partition: int
    offset: int
    key: str
    number: int


def check(sent: Sequence[Sent], read: Sequence[Read]) -> list[str]:
    """Return every anomaly as a sentence; an idempotent writer with acks=all and one complete read must yield none."""
    return [
        *find_lost(sent, read),
        *find_misplaced(sent, read),
        *find_refused_but_written(sent, read),
        *find_invented(sent, read),
        *find_duplicated(read),
        *find_reordered(read),
        *find_backward_offsets(read),
    ]


def find_lost(sent: Iterable[Sent], read: Iterable[Read]) -> Iterator[str]:
    """An acknowledged record is nowhere in the log."""
    there = {(r.key, r.number) for r in read}
    for s in sent:
        if s.outcome is Outcome.ACKED and (s.key, s.number) not in there:
            yield f"lost: {s.key}#{s.number}, acknowledged at {s.partition}@{s.offset}"


def find_misplaced(sent: Iterable[Sent], read: Iterable[Read]) -> Iterator[str]:
    """An acknowledged record stands in the log, but not where it was acknowledged."""
    there = {(r.key, r.number) for r in read}
    by_place = {(r.partition, r.offset): r for r in read}
    for s in sent:
        if s.outcome is not Outcome.ACKED or s.partition is None or s.offset is None or (s.key, s.number) not in there:
            continue
        found = by_place.get((s.partition, s.offset))
        if found is None or (found.key, found.number) != (s.key, s.number):
            other = f"{found.key}#{found.number}" if found is not None else "nothing"
            yield f"misplaced: {other} at {s.partition}@{s.offset}, where {s.key}#{s.number} was acknowledged"


def find_refused_but_written(sent: Iterable[Sent], read: Iterable[Read]) -> Iterator[str]:
    """A record stands in the log although its writer was told that it does not."""
    refused = {(s.key, s.number) for s in sent if s.outcome is Outcome.REFUSED}
    for r in read:
        if (r.key, r.number) in refused:
            yield f"{REFUSED_BUT_WRITTEN}: {r.key}#{r.number} at {r.partition}@{r.offset}"


def find_invented(sent: Iterable[Sent], read: Iterable[Read]) -> Iterator[str]:
    """A record that no client sent."""
    known = {(s.key, s.number) for s in sent}
    for r in read:
        if (r.key, r.number) not in known:
            yield f"invented: {r.key}#{r.number} at {r.partition}@{r.offset}"


def find_duplicated(read: Iterable[Read]) -> Iterator[str]:
    """A record stands in the log more than once."""
    for (key, number), count in Counter((r.key, r.number) for r in read).items():
        if count > 1:
            yield f"duplicated: {key}#{number} stands {count} times"


def find_reordered(read: Iterable[Read]) -> Iterator[str]:
    """A key's records stand in another order than they were sent in, or in several partitions."""
    by_key: defaultdict[str, list[Read]] = defaultdict(list)
    for r in sorted(read):
        by_key[r.key].append(r)
    for key, records in by_key.items():
        if len({r.partition for r in records}) > 1:
            yield f"reordered: {key} stands in partitions {sorted({r.partition for r in records})}"
            continue
        for before, after in itertools.pairwise(records):
            if after.number < before.number:
                yield f"reordered: {key}#{after.number} at offset {after.offset} stands after #{before.number}"


def find_backward_offsets(read: Iterable[Read]) -> Iterator[str]:
    """The reader got an offset that is not above the one before it in the partition."""
    last: dict[int, int] = {}
    for r in read:
        if r.offset <= last.get(r.partition, -1):
            yield f"backward: offset {r.offset} of partition {r.partition} came after {last[r.partition]}"
        last[r.partition] = r.offset
