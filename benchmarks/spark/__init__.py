"""Spark's work by this package on ESP beside Spark's own Kafka source and sink on Apache Kafka 4.3.1: ``python -m benchmarks.spark``."""
