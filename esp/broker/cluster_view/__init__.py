"""The cluster as clients see it: the newest image that this node has applied, and the liveness of the brokers in it."""
