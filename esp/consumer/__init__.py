"""A consumer's client for programs that wait for its answers: connections, log-ins, metadata, offsets, and the batches of a partition."""
