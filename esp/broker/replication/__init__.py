"""The replicas of a node: hosted, loaded, led, fetched, throttled and moved; the drivers of :mod:`esp.replication`."""
