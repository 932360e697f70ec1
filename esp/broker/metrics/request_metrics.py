"""The cost of requests on one kind of listener: time, bytes in, bytes out.

The time of a request is from the moment when its handler gets it until its answer is there; waiting is part of it, for other replicas or
for records that a fetch waits for. Time on the network, and behind other answers of the same connection, is not.
"""

from typing import Final

from esp.broker.metrics.histogram import Histogram
from esp.broker.request import Request
from esp.protocol.registry import ApiKey

_FOLLOWERS: Final = "FetchFollower"
_CONSUMERS: Final = "FetchConsumer"
_BROKER_CLIENTS: Final = "broker-"
"""The prefix of the client ids that brokers fetch with, Kafka's among them."""


class RequestCounts:
    """The requests of one kind so far; an acks=0 produce counts, with an answer of no bytes."""

    __slots__ = ("durations", "received_bytes", "sent_bytes")

    def __init__(self) -> None:
        self.durations = Histogram()
        self.received_bytes = 0
        """Bytes of the bodies of requests, headers excluded."""
        self.sent_bytes = 0
        """Bytes of the answers, headers included."""

    def count(self, received_bytes: int, sent_bytes: int, elapsed_us: int) -> None:
        """Count a request that has been answered; see :class:`esp.broker.shortcut_counter.Tally`."""
        self.received_bytes += received_bytes
        self.sent_bytes += sent_bytes
        self.durations.observe(elapsed_us)


class RequestMetrics:
    """The counts of all kinds of requests that have come, by the names that Kafka's metrics give them."""

    def __init__(self) -> None:
        self.by_name: dict[str, RequestCounts] = {}

    def counts(self, request: Request) -> RequestCounts:
        """The counts that a request belongs to."""
        name = _name_of(request)
        counts = self.by_name.get(name)
        if counts is None:
            counts = self.by_name[name] = RequestCounts()
        return counts


def _name_of(request: Request) -> str:
    if request.api_key == ApiKey.FETCH:
        return _FOLLOWERS if (request.client_id or "").startswith(_BROKER_CLIENTS) else _CONSUMERS
    return _NAMES[request.api_key]


_NAMES: Final = {key.value: "".join(word.capitalize() for word in key.name.split("_")) for key in ApiKey}
