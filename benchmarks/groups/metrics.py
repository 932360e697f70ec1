"""The figures of groups of consumers, with their aims, in the order of the report."""

from typing import Final

from benchmarks.results import Metric

HEARTBEAT_USER: Final = Metric("heartbeat_user_us", "Heartbeat of a member at rest (KIP-848): user CPU", "µs", 1)
HEARTBEAT_ALL: Final = Metric(
    "heartbeat_all_us", "Heartbeat of a member at rest (KIP-848): all CPU", "µs", 1, ratio_aim=0.8
)
STABLE: Final = Metric(
    "stable_s", "50 members join, 100 partitions, an assignment a second: until all is stable", "s", 2, ratio_aim=1.0
)
STABLE_CPU: Final = Metric("stable_cpu_ms", "The same: all CPU", "ms", 0)
STABLE_AT_ONCE: Final = Metric(
    "stable_at_once_s", "The same without an interval between assignments", "s", 2, value_aim=0.3
)
STABLE_AT_ONCE_CPU: Final = Metric("stable_at_once_cpu_ms", "The same: all CPU", "ms", 0)
TAKEOVER: Final = Metric(
    "takeover_s",
    "Start after kill -9 with 100,000 commits of 1,000 groups until a group's offsets are told",
    "s",
    2,
    ratio_aim=0.5,
)
LOADING: Final = Metric("loading_s", "The same, from the first request that is answered", "s", 2, ratio_aim=0.5)
QUEUE: Final = {
    False: (
        Metric(
            "queue_us",
            "Record of 100 bytes to a share consumer, accepted with its batch: all CPU",
            "µs",
            2,
            ratio_aim=0.5,
        ),
        Metric("queue_records_per_s", "The same: rate, one consumer", "/s", 0),
    ),
    True: (
        Metric("queue_single_us", "The same, each record accepted by itself: all CPU", "µs", 2, ratio_aim=0.6),
        Metric("queue_single_records_per_s", "The same: rate, one consumer", "/s", 0),
    ),
}
"""CPU and rate, by whether each record is acknowledged by itself."""

_HELD_AIM: Final = 1.02
_PLAIN: Final = "another topic without either"
_HELD: Final = "a topic with a retention hold"
_AGAIN: Final = "a topic that goes on at a floor"
PLAIN_COSTS: Final = {
    "produce": Metric("plain_produce_us", "Batch of 10 records of 100 bytes to a plain topic: all CPU", "µs", 2),
    "fetch": Metric("plain_fetch_us", "Answer of 4 KiB from a plain topic: all CPU", "µs", 2),
}
"""The cost of a plain topic, by request."""

COST_RATIOS: Final = {
    "produce": {
        "plain again": Metric("plain_produce_ratio", f"The same batch to {_PLAIN}, of that", "x", 3),
        "held": Metric("held_produce_ratio", f"The same batch to {_HELD}, of that", "x", 3, value_aim=_HELD_AIM),
        "created again": Metric(
            "floor_produce_ratio", f"The same batch to {_AGAIN}, of that", "x", 3, value_aim=_HELD_AIM
        ),
    },
    "fetch": {
        "plain again": Metric("plain_fetch_ratio", f"The same answer from {_PLAIN}, of that", "x", 3),
        "held": Metric("held_fetch_ratio", f"The same answer from {_HELD}, of that", "x", 3, value_aim=_HELD_AIM),
        "created again": Metric(
            "floor_fetch_ratio", f"The same answer from {_AGAIN}, of that", "x", 3, value_aim=_HELD_AIM
        ),
    },
}
"""The cost of other topics beside that of the plain one, which was measured in the same round, by request."""

GROUP_METRICS: Final = (
    HEARTBEAT_USER,
    HEARTBEAT_ALL,
    STABLE,
    STABLE_CPU,
    STABLE_AT_ONCE,
    STABLE_AT_ONCE_CPU,
    TAKEOVER,
    LOADING,
    *(metric for metrics in QUEUE.values() for metric in metrics),
    *(metric for what, cost in PLAIN_COSTS.items() for metric in (cost, *COST_RATIOS[what].values())),
)
"""The metrics of groups, in the order of the report."""
