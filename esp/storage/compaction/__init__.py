"""Compaction of logs: superseded records go, the latest of each key stays (CLEAN-1 to CLEAN-8; Kafka's ``LogCleaner``)."""
