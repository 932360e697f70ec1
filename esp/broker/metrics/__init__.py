"""A node's metrics for Prometheus, if ``metrics.listener`` is set; a node without it does not load this package."""
