"""What groups of consumers cost ESP and Apache Kafka."""
