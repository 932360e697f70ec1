"""Batches of states: sorted, apart from one another, each of one state and delivery count."""

from collections.abc import Iterable, Iterator

from esp.schemas.share_state_records import StateBatch


def merge(older: Iterable[StateBatch], newer: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Put newer batches over older ones, offset by offset, and drop all below the start offset (SHARE-21).

    A newer state wins unless the older one has a higher delivery count, or the same count and a higher state: so the order in which the
    writes of one leader arrive makes no difference, and an accepted record stays accepted (KAFKA-17367).

    Args:
        older: the batches so far, sorted and apart.
        newer: more of them, in any order, one over another too. Sorted ones, which share partitions write, are merged in one go.
        start_offset: the first offset that counts.
    """
    merged = list(_from(older, start_offset))
    for ascending in _ascending(_from(newer, start_offset)):
        merged = list(_overlaid(merged, ascending))
    return tuple(_joined(merged))


def _from(batches: Iterable[StateBatch], start_offset: int) -> Iterator[StateBatch]:
    for batch in batches:
        if batch.start_offset >= start_offset:
            yield batch
        elif batch.end_offset > start_offset:
            yield batch._replace(start_offset=start_offset)


def _ascending(batches: Iterable[StateBatch]) -> Iterator[list[StateBatch]]:
    """The batches in lists of which each is sorted and apart."""
    run: list[StateBatch] = []
    for batch in batches:
        if run and batch.start_offset < run[-1].end_offset:
            yield run
            run = []
        run.append(batch)
    if run:
        yield run


def _overlaid(older: Iterable[StateBatch], newer: Iterable[StateBatch]) -> Iterator[StateBatch]:
    olds, news = iter(older), iter(newer)
    old, new = next(olds, None), next(news, None)
    while old is not None and new is not None:
        start = max(old.start_offset, new.start_offset)
        if old.start_offset < start:
            end = min(old.end_offset, start)
            yield _until(old, end)
            old = _rest(old, end) or next(olds, None)
        elif new.start_offset < start:
            end = min(new.end_offset, start)
            yield _until(new, end)
            new = _rest(new, end) or next(news, None)
        else:
            end = min(old.end_offset, new.end_offset)
            is_newer = (new.delivery_count, new.state) >= (old.delivery_count, old.state)
            yield _until(new if is_newer else old, end)
            old = _rest(old, end) or next(olds, None)
            new = _rest(new, end) or next(news, None)
    for rest, others in ((old, olds), (new, news)):
        if rest is not None:
            yield rest
            yield from others


def _until(batch: StateBatch, offset: int) -> StateBatch:
    """A batch up to an offset, which is itself in most cases."""
    return batch if offset == batch.end_offset else batch._replace(end_offset=offset)


def _rest(batch: StateBatch, offset: int) -> StateBatch | None:
    return batch._replace(start_offset=offset) if offset < batch.end_offset else None


def _joined(batches: Iterable[StateBatch]) -> Iterator[StateBatch]:
    last: StateBatch | None = None
    for batch in batches:
        if last is not None and last.end_offset == batch.start_offset and last[2:] == batch[2:]:
            last = last._replace(end_offset=batch.end_offset)
            continue
        if last is not None:
            yield last
        last = batch
    if last is not None:
        yield last
