"""The figures of transactions and of compaction, with their aims, in the order of the report."""

from typing import Final

from benchmarks.results import Metric

JAVA_PRODUCE: Final = Metric(
    "txn_produce_java_s_per_gb", "Produce in transactions of 20 ms, Java (v2): CPU per GB", "s", 2, ratio_aim=0.5
)
LIBRDKAFKA_PRODUCE: Final = Metric(
    "txn_produce_librdkafka_s_per_gb",
    "Produce in transactions of 20 ms, librdkafka (v1): CPU per GB",
    "s",
    2,
    ratio_aim=0.5,
)


def _one_record(protocol: int, producers: int) -> tuple[Metric, Metric, Metric]:
    key = f"txn_one_record_v{protocol}_{producers}"
    title = f"One-record transactions (v{protocol}), {producers} producer{'s' if producers > 1 else ''}"
    return (
        Metric(f"{key}_us", f"{title}: CPU of each", "µs", 0, ratio_aim=0.5),
        Metric(f"{key}_p50_ms", f"{title}: commit call, p50", "ms", 2, ratio_aim=1.0),
        Metric(f"{key}_p99_ms", f"{title}: commit call, p99", "ms", 2, ratio_aim=1.0),
    )


ONE_RECORD: Final = {
    (protocol, producers): _one_record(protocol, producers) for protocol in (2, 1) for producers in (1, 100)
}
"""CPU and the two latencies, by protocol and number of producers."""

READ_UNCOMMITTED: Final = Metric("read_uncommitted_s_per_gb", "read_uncommitted, 10 % aborted: CPU per GB", "s", 2)
READ_COMMITTED: Final = Metric("read_committed_s_per_gb", "read_committed, 10 % aborted: CPU per GB", "s", 2)
READ_RATIO: Final = Metric(
    "read_committed_ratio", "read_committed over read_uncommitted, own over own", "", 2, value_aim=1.05
)
COMPACT_PLAIN: Final = Metric(
    "compact_plain_s_per_gb", "Compaction, no codec: CPU per GB of records", "s", 2, ratio_aim=1.0
)
COMPACT_ZSTD: Final = Metric("compact_zstd_s_per_gb", "Compaction, zstd: CPU per GB of records", "s", 2, ratio_aim=1.5)
COMPACT_MEMORY: Final = Metric("compact_added_mb", "Compaction: resident memory added", "MB", 0, ratio_aim=0.7)
IDLE_P99: Final = Metric("produce_p99_idle_ms", "Produce p99, nothing is cleaned", "ms", 2)
CLEANING_P99: Final = Metric(
    "produce_p99_cleaning_ms", "Produce p99 to other partitions while a log is cleaned", "ms", 2
)
CLEANING_RATIO: Final = Metric(
    "produce_p99_cleaning_ratio", "Produce p99 while a log is cleaned, own over own", "", 2, value_aim=1.2
)
LOAD_IDS: Final = Metric(
    "txn_load_s", "Start after kill -9 with many transactional ids until InitProducerId", "s", 2, ratio_aim=1.0
)
IDLE_IDS: Final = Metric("txn_idle_rss_mb", "Idle memory with many transactional ids", "MB", 0, ratio_aim=0.7)
STREAMS_WALL: Final = Metric("streams_wall_s", "Streams word count, exactly_once_v2: wall time", "s", 1, ratio_aim=1.0)
STREAMS_CPU: Final = Metric("streams_cpu_s", "Streams word count, exactly_once_v2: broker CPU", "s", 1, ratio_aim=0.5)

TRANSACTION_METRICS: Final = (
    JAVA_PRODUCE,
    LIBRDKAFKA_PRODUCE,
    *(metric for metrics in ONE_RECORD.values() for metric in metrics),
    READ_UNCOMMITTED,
    READ_COMMITTED,
    READ_RATIO,
    COMPACT_PLAIN,
    COMPACT_ZSTD,
    COMPACT_MEMORY,
    IDLE_P99,
    CLEANING_P99,
    CLEANING_RATIO,
    LOAD_IDS,
    IDLE_IDS,
    STREAMS_WALL,
    STREAMS_CPU,
)
"""The metrics of transactions and compaction, in the order of the report."""
