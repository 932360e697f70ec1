"""The produce latency, as brokers report it in Prometheus's text format: the 99th percentile of produce requests between two looks."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

METRIC: Final = "esp_request_duration_seconds_bucket"
_QUANTILE: Final = 0.99
_LINE: Final = re.compile(rf"^{METRIC}\{{(?P<labels>[^}}]*)\}} (?P<value>\S+)", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')

Buckets = Mapping[float, float]
"""The number of requests by the seconds that they took at most, since the node started, over all listeners."""


def read_buckets(text: str) -> Buckets:
    """Read the histogram of produce requests; empty if the text has none."""
    found: dict[float, float] = {}
    for line in _LINE.finditer(text):
        labels = dict(_LABEL.findall(line["labels"]))
        if labels.get("request") == "Produce" and "le" in labels:
            bound = float(labels["le"])
            found[bound] = found.get(bound, 0.0) + float(line["value"])
    return found


def quantile_ms(before: Sequence[Buckets], after: Sequence[Buckets]) -> float | None:
    """The 99th percentile of the requests between two looks at some brokers, in milliseconds; None if there were none.

    It is the upper bound of its bucket, as the worst that it can have been. A node that started again in between counts from nothing.

    Args:
        before: the buckets of each broker at the first look.
        after: likewise at the second, in the same order.
    """
    between: dict[float, float] = {}
    for first, second in zip(before, after, strict=True):
        restarted = any(second.get(bound, 0.0) < count for bound, count in first.items())
        for bound, count in second.items():
            between[bound] = between.get(bound, 0.0) + count - (0.0 if restarted else first.get(bound, 0.0))
    if not between:
        return None
    bounds = sorted(between)
    wanted = between[bounds[-1]] * _QUANTILE
    if between[bounds[-1]] <= 0:
        return None
    finite = [bound for bound in bounds if between[bound] >= wanted and bound != float("inf")]
    return (finite[0] if finite else bounds[-2] if len(bounds) > 1 else 0.0) * 1000
