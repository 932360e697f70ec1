"""The order of a batch, as the driver sends it to tasks. Pure values; loaded where pyarrow may be missing."""

from dataclasses import dataclass

from esp.consumer.cluster import Address, Cluster
from esp.consumer.connection import Terms
from esp.sink.decision import Place


@dataclass(frozen=True, slots=True)
class WriteTerms:
    """The terms of writing.

    Attributes:
        codec: the number of a codec (:mod:`esp.arrow.codecs`).
        batch_bytes: the bytes of a batch before compression.
        transaction_timeout_ms: the time after which a coordinator aborts a transaction.
        timeout_s: the time for a partition's rows, over all attempts.
        request_timeout_ms: the time for which a leader waits for its followers.
        backoff_s: the mean pause between two attempts.
    """

    codec: int = 0
    batch_bytes: int = 512 * 1024
    transaction_timeout_ms: int = 60_000
    timeout_s: float = 120.0
    request_timeout_ms: int = 30_000
    backoff_s: float = 0.1


@dataclass(frozen=True, slots=True)
class SinkTarget:
    """A sink as its tasks need it.

    Attributes:
        run: names a run of a query, whose producers are kept.
        place: the sink and its topic.
        servers: the bootstrap servers.
        terms: of connections.
        write_terms: of writing.
    """

    run: str
    place: Place
    servers: tuple[Address, ...]
    terms: Terms
    write_terms: WriteTerms

    def connect(self) -> Cluster:
        """Return the cluster; connections are made when they are needed."""
        return Cluster(self.servers, self.terms, self.write_terms.timeout_s)


@dataclass(frozen=True, slots=True)
class BatchOrder:
    """A batch to write.

    Attributes:
        target: the sink.
        batch: the number of the batch.
        partitions: the number of partitions among which its rows are divided.
        routes: for each task a number that Spark's shuffle brings to it.
    """

    target: SinkTarget
    batch: int
    partitions: int
    routes: tuple[int, ...] = (0,)
