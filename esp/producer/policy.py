"""The settings by which a producer decides, by the names of Kafka's producer."""

from typing import NamedTuple


class Policy(NamedTuple):
    """The settings of a producer; sizes in bytes, times in milliseconds."""

    batch_size: int = 16_384
    """The most bytes of a batch's records before compression, unless a single record is larger."""

    linger_ms: int = 0
    """The time for which a batch that has room waits for further records."""

    codec: int = 0
    """Number of the codec (:class:`esp.records.compression.Codec`)."""

    is_idempotent: bool = True
    """True if batches bear a producer id and sequences, so that the broker drops repetitions."""

    in_flight_max: int = 5
    """``max.in.flight.requests.per.connection``."""

    request_size_max: int = 1_048_576
    """``max.request.size``; it counts for a single record too."""

    retries: float = float("inf")
    retry_backoff_ms: int = 100
    delivery_timeout_ms: int = 120_000
    """The age at which a batch that is not acknowledged is given up."""
