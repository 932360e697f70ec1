"""What transactions and compaction cost beside Apache Kafka 4.3.1: ``python -m benchmarks.transactions``."""
