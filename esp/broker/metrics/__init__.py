"""What a node tells of itself to Prometheus, if ``metrics.listener`` is set; a node without it does not load this package."""
