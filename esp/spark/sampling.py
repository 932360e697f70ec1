"""A look at the next records of a partition: their sizes and times, before a task reads them."""

from collections.abc import Sequence
from typing import Final

from esp.arrow.decoding import decode_batches
from esp.arrow.errors import Place
from esp.arrow.scanning import scan_batches
from esp.consumer.cluster import Cluster
from esp.consumer.messages import Partition
from esp.consumer.partition_reader import FetchTerms
from esp.spark.limits import Sample
from esp.spark.ranges import OffsetRange

_SAMPLE_BYTES: Final = 256 * 1024
"""The bytes of a partition that are looked at."""


def take_samples(terms: FetchTerms, cluster: Cluster, ranges: Sequence[OffsetRange]) -> dict[Partition, Sample]:
    """Return a sample of each range that is not empty."""
    return {one.partition: take_sample(terms, cluster, one) for one in ranges if one.size}


def take_sample(terms: FetchTerms, cluster: Cluster, one: OffsetRange) -> Sample:
    """Return the first records of a range. Batches without any, of markers, are passed over.

    Raises:
        ConsumerError: the partition's leader does not answer until the time is over.
        BrokenBatchError: a batch is not the one that was written.
    """
    place = Place(*one.partition)
    offset, size, seen = one.first, 0, 0
    while offset < one.end:
        fetched = cluster.fetch(one.partition, offset, _SAMPLE_BYTES, is_read_committed=terms.is_read_committed)
        batches = scan_batches(fetched.memory, place, size=fetched.size, check_crcs=terms.checks_crcs)
        if batches.next_offset is None or batches.next_offset <= offset:
            break  # records are gone, or not there yet: the task that reads them decides what to do
        size += int(batches.sizes.sum())
        seen += batches.next_offset - int(batches.base_offsets[0])
        offset = batches.next_offset
        offsets: list[int] = []
        times: list[int] = []
        for rows in decode_batches(batches, place, one.first, one.end, None, ("offset", "timestamp")):
            offsets += rows.column("offset").to_pylist()
            times += rows.column("timestamp").view("int64").to_pylist()
        if offsets:
            return Sample(size / seen, offsets, times, min(offset, one.end))
    return Sample(size / seen if seen else 0.0, (), (), min(offset, one.end))
