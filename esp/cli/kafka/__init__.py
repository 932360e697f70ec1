"""Kafka's admin API, producer and consumer behind the tools: the one room that knows kafka-python."""
