"""`esp reassign-partitions`: the words, flags and files of Kafka's tool."""
