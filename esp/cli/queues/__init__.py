"""``esp queues``."""
