"""The figures: what is measured, the values of each round, and what they come to beside the aims."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

ESP: Final = "esp"
KAFKA: Final = "kafka"


class Metric(NamedTuple):
    """A figure that is measured of each broker."""

    key: str
    title: str
    unit: str
    digits: int
    """Decimals worth showing."""

    ratio_aim: float | None = None
    """The most that ESP's value should be of Kafka's."""

    value_aim: float | None = None
    """The most that ESP's value itself should be."""


PRODUCE_USER: Final = Metric("produce_user_s_per_gb", "Produce: user CPU per GB", "s", 2, ratio_aim=0.25)
PRODUCE_ALL: Final = Metric("produce_all_s_per_gb", "Produce: all CPU per GB", "s", 2, ratio_aim=0.75)
PRODUCE_RATE: Final = Metric("produce_mb_per_s", "Produce: rate, one connection", "MB/s", 0)
CONSUME_USER: Final = Metric("consume_user_s_per_gb", "Consume: user CPU per GB", "s", 2, ratio_aim=0.3)
CONSUME_ALL: Final = Metric("consume_all_s_per_gb", "Consume: all CPU per GB", "s", 2, ratio_aim=0.5)
CONSUME_RATE: Final = Metric("consume_mb_per_s", "Consume: rate, one connection", "MB/s", 0)
CONSUME_AGAIN_USER: Final = Metric("consume_again_user_s_per_gb", "Consume again: user CPU per GB", "s", 2)
CONSUME_AGAIN_ALL: Final = Metric("consume_again_all_s_per_gb", "Consume again: all CPU per GB", "s", 2)
REQUEST_USER: Final = Metric("request_user_us", "Small request: user CPU", "µs", 1, ratio_aim=0.4)
REQUEST_ALL: Final = Metric("request_all_us", "Small request: all CPU", "µs", 1, ratio_aim=0.5)
REQUEST_RATE: Final = Metric("requests_per_s", "Small requests: rate, 50 connections", "/s", 0)
LATENCY_P50: Final = Metric("latency_p50_us", "Small request: latency p50, 1 connection", "µs", 0)
LATENCY_P99: Final = Metric("latency_p99_us", "Small request: latency p99, 1 connection", "µs", 0)
START: Final = Metric("start_s", "Process start until ready", "s", 2, value_aim=0.6)
IDLE_MEMORY: Final = Metric("idle_rss_mb", "Resident memory when idle", "MB", 0, value_aim=80)
START_AFTER_KILL: Final = Metric("start_after_kill_s", "Ready after kill -9, 1 GB of log", "s", 2, value_aim=1.5)

CLUSTER_USER: Final = Metric("cluster_user_s_per_gb", "Produce to 3 nodes: user CPU per GB", "s", 2, ratio_aim=0.4)
CLUSTER_ALL: Final = Metric("cluster_all_s_per_gb", "Produce to 3 nodes: all CPU per GB", "s", 2, ratio_aim=0.7)
CLUSTER_RATE: Final = Metric("cluster_mb_per_s", "Produce to 3 nodes: rate", "MB/s", 0)
GAP_AFTER_KILL: Final = Metric("gap_after_kill_s", "Longest gap between acks, leader killed", "s", 2, value_aim=0.5)
GAP_AFTER_STOP: Final = Metric("gap_after_stop_s", "Longest gap between acks, leader stopped", "s", 2, value_aim=0.3)
CLUSTER_START: Final = Metric("cluster_start_s", "Start of 3 formatted nodes until ready", "s", 2, value_aim=2.5)
CLUSTER_MEMORY: Final = Metric("cluster_rss_mb", "Resident memory of an idle node of 3", "MB", 0, value_aim=100)
IDLE_FOLLOWER: Final = Metric("idle_follower_percent", "Idle with 2,000 followed partitions", "% CPU", 1, value_aim=3)

METRICS: Final = (
    PRODUCE_USER,
    PRODUCE_ALL,
    PRODUCE_RATE,
    CONSUME_USER,
    CONSUME_ALL,
    CONSUME_RATE,
    CONSUME_AGAIN_USER,
    CONSUME_AGAIN_ALL,
    REQUEST_USER,
    REQUEST_ALL,
    REQUEST_RATE,
    LATENCY_P50,
    LATENCY_P99,
    START,
    IDLE_MEMORY,
    START_AFTER_KILL,
    CLUSTER_USER,
    CLUSTER_ALL,
    CLUSTER_RATE,
    GAP_AFTER_KILL,
    GAP_AFTER_STOP,
    CLUSTER_START,
    CLUSTER_MEMORY,
    IDLE_FOLLOWER,
)
"""The figures of the comparison, in the order of the report."""


class Spread(NamedTuple):
    """The values of one metric and broker over the rounds."""

    median: float
    low: float
    high: float


class Summary(NamedTuple):
    """The result of one metric."""

    metric: Metric
    spreads: Mapping[str, Spread]
    """The spread of the values by broker; a broker that was not measured is missing."""

    ratio: float | None
    """ESP's value to Kafka's: the median over the rounds' pairs, which were measured right after one another."""

    is_met: bool | None
    """True if the aim is reached; None if there is no aim or no figure."""


class Results:
    """Collects values as rounds go by; values of one metric come in rounds' order for each broker.

    Args:
        metrics: all figures that there may be, in the order of the report.
    """

    def __init__(self, metrics: Sequence[Metric] = METRICS) -> None:
        self._metrics = metrics
        self.values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, broker: str, values: Mapping[Metric, float]) -> None:
        """Take what one round measured of a broker."""
        for metric, value in values.items():
            self.values[metric.key][broker].append(value)

    def summaries(self) -> list[Summary]:
        """One summary for each metric that has values, in the order of the report."""
        return [summarise(metric, self.values[metric.key]) for metric in self._metrics if metric.key in self.values]


def summarise(metric: Metric, values: Mapping[str, Sequence[float]]) -> Summary:
    """Return medians, the ratio and whether the aim is reached."""
    spreads = {broker: Spread(median(series), min(series), max(series)) for broker, series in values.items() if series}
    ratio = None
    if ESP in spreads and KAFKA in spreads:
        pairs = zip(values[ESP], values[KAFKA], strict=False)
        ratio = median(ours / theirs if theirs else math.inf for ours, theirs in pairs)
    is_met = None
    if metric.ratio_aim is not None and ratio is not None:
        is_met = ratio <= metric.ratio_aim
    elif metric.value_aim is not None and ESP in spreads:
        is_met = spreads[ESP].median <= metric.value_aim
    return Summary(metric, spreads, ratio, is_met)


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that ``share`` (0 to 1) of the values do not exceed; ``values`` are not empty."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]
