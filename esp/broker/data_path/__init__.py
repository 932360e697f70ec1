"""Produce and Fetch on their way between a request handler and the logs: what waits, what repeats, what is recompressed."""
