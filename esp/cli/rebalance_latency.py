"""Asks brokers what producers feel: over HTTP, where they serve metrics."""

from collections.abc import Iterable
from http.client import HTTPConnection, HTTPException
from typing import Final

from esp.rebalance.cluster import ReassignmentAdmin
from esp.rebalance.produce_latency import Buckets, quantile_ms, read_buckets

_TIMEOUT_S: Final = 2.0


class ProduceLatency:
    """The 99th percentile of produce requests between two calls. A callable.

    Args:
        admin: tells where brokers serve metrics.
        brokers: the ones to ask, which are alive.
    """

    def __init__(self, admin: ReassignmentAdmin, brokers: Iterable[int]) -> None:
        self.addresses = admin.metrics_addresses(brokers)
        self._last: dict[int, Buckets] = {}

    def __call__(self) -> float | None:
        """Return it in milliseconds, of all brokers together; None if nobody produced, or the first time, or nobody answers."""
        now = {
            broker: buckets for broker, address in self.addresses.items() if (buckets := _fetch(address)) is not None
        }
        both = sorted(now.keys() & self._last.keys())
        found = quantile_ms([self._last[each] for each in both], [now[each] for each in both])
        self._last = now
        return found


def _fetch(address: str) -> Buckets | None:
    host, _, port = address.rpartition(":")
    connection = HTTPConnection(host.strip("[]"), int(port), timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        return read_buckets(connection.getresponse().read().decode())
    except (OSError, HTTPException, UnicodeDecodeError):  # it is down, which others notice
        return None
    finally:
        connection.close()
